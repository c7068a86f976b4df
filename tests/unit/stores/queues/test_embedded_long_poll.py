"""Waiting receives of the embedded queues: woken in this process and by another one, cancelled, closed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import RunClock
from holdfast.core.errors import NotFound, StoreClosed
from holdfast.operations.queues import (
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DeleteQueue,
    DescribeQueue,
    IncomingMessage,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, engine, open_queues, wakeup_pipe

ROOT = Path(__file__).parents[4]
WAIT_S = 15
# Disables the poll once a second, so that only a wake-up can end a wait in time.
NEVER_S = 1000.0
SEND = """
import sys
from holdfast.operations.queues import OutgoingMessage, SendMessages
from holdfast.stores.queues.embedded import open_queues
with open_queues(sys.argv[1]) as queues:
    queues.run_blocking(SendMessages("plain", (OutgoingMessage(body="from afar"),)))
"""


@pytest.fixture(params=["memory", "file"])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedQueues]:
    with open_queues(None if request.param == "memory" else tmp_path / "queues.db") as opened:
        _create(opened)
        yield opened


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the poll once a second, so that only a wake-up can end a wait in time."""
    monkeypatch.setattr(engine, "QUEUE_LOOK_AGAIN_S", NEVER_S)


def _create(queues: EmbeddedQueues) -> None:
    """Create the four queues of these tests."""
    for definition in (
        QueueDefinition(name="plain"),
        QueueDefinition(name="dead"),
        QueueDefinition(name="dying", dead_letters="dead", max_receives=1),
        QueueDefinition(name="order.fifo", fifo=True),
    ):
        queues.run_blocking(CreateQueue(definition))


def _send(queues: EmbeddedQueues, queue: str, body: str, **parts: object) -> None:
    queues.run_blocking(SendMessages(queue, (OutgoingMessage(body=body, **parts),)))  # type: ignore[arg-type]


async def _receive_while(
    queues: EmbeddedQueues, queue: str, act: Callable[[], None]
) -> tuple[IncomingMessage, ...]:
    """Start a receive, run `act` while it waits, and return the received messages."""

    waiting = asyncio.create_task(queues.run(ReceiveMessages(queue, wait_s=WAIT_S)))
    while not any(each._on_wake for each in queues._waiters._by_queue.get(queue, ())):
        await asyncio.sleep(0)
    await asyncio.to_thread(act)
    return await waiting


@pytest.mark.usefixtures("no_polling")
async def test_send_wakes_a_waiting_receiver(queues: EmbeddedQueues) -> None:
    received = await _receive_while(queues, "plain", lambda: _send(queues, "plain", "m"))

    assert [each.body for each in received] == ["m"]


@pytest.mark.usefixtures("no_polling")
async def test_released_message_wakes_a_waiting_receiver(queues: EmbeddedQueues) -> None:
    _send(queues, "plain", "m")
    (held,) = queues.run_blocking(ReceiveMessages("plain"))

    received = await _receive_while(
        queues, "plain", lambda: queues.run_blocking(ChangeVisibility("plain", (held.receipt,), 0))
    )
    assert [each.receives for each in received] == [2]


@pytest.mark.usefixtures("no_polling")
async def test_deleting_the_head_of_a_group_wakes_a_waiting_receiver(queues: EmbeddedQueues) -> None:
    for body in "12":
        _send(queues, "order.fifo", body, group="g", deduplication=body)
    (first,) = queues.run_blocking(ReceiveMessages("order.fifo"))

    received = await _receive_while(
        queues, "order.fifo", lambda: queues.run_blocking(DeleteMessages("order.fifo", (first.receipt,)))
    )
    assert [each.body for each in received] == ["2"]


@pytest.mark.usefixtures("no_polling")
async def test_dead_letter_wakes_a_waiting_receiver(queues: EmbeddedQueues) -> None:
    _send(queues, "dying", "m")
    queues.run_blocking(ReceiveMessages("dying", visibility_s=0))

    received = await _receive_while(
        queues, "dead", lambda: _nothing(queues.run_blocking(ReceiveMessages("dying")))
    )
    assert [each.died_in for each in received] == ["dying"]


@pytest.mark.usefixtures("no_polling")
async def test_redrive_wakes_a_waiting_receiver(queues: EmbeddedQueues) -> None:
    _send(queues, "dead", "m")

    received = await _receive_while(
        queues, "plain", lambda: _nothing(queues.run_blocking(Redrive("dead", "plain")))
    )
    assert [each.body for each in received] == ["m"]


@pytest.mark.usefixtures("no_polling")
async def test_delayed_message_wakes_a_waiting_receiver_when_due(queues: EmbeddedQueues) -> None:
    received = await _receive_while(queues, "plain", lambda: _send(queues, "plain", "m", delay_s=1))

    assert [each.body for each in received] == ["m"]


@pytest.mark.usefixtures("no_polling")
def test_timed_out_message_wakes_a_waiting_receiver(queues: EmbeddedQueues) -> None:
    _send(queues, "plain", "m")
    queues.run_blocking(ReceiveMessages("plain", visibility_s=0.3))

    assert queues.run_blocking(ReceiveMessages("plain", wait_s=WAIT_S))


@pytest.mark.usefixtures("no_polling")
def test_wakes_a_receiver_that_waits_in_a_thread(queues: EmbeddedQueues) -> None:
    received: list[tuple[IncomingMessage, ...]] = []
    waiting = threading.Thread(
        target=lambda: received.append(queues.run_blocking(ReceiveMessages("plain", wait_s=WAIT_S)))
    )
    waiting.start()
    while not queues._waiters._by_queue:
        threading.Event().wait(0.001)
    _send(queues, "plain", "m")
    waiting.join()

    assert [each.body for each in received[0]] == ["m"]


@pytest.mark.usefixtures("no_polling")
async def test_many_receivers_wait_without_a_thread_each(queues: EmbeddedQueues) -> None:
    before = threading.active_count()
    waiting = [asyncio.create_task(queues.run(ReceiveMessages("plain", wait_s=WAIT_S))) for _ in range(200)]
    while sum(each._on_wake is not None for each in queues._waiters._by_queue.get("plain", ())) < 200:
        await asyncio.sleep(0)
    # The thread that listens for wake-ups, where there is a file.
    assert threading.active_count() <= before + 1
    for start in range(0, 200, 10):
        batch = tuple(OutgoingMessage(body=f"{number}") for number in range(start, start + 10))
        await queues.run(SendMessages("plain", batch))

    assert (
        len({body for each in await asyncio.gather(*waiting) for (body,) in [[m.body for m in each]]}) == 200
    )


@pytest.mark.usefixtures("no_polling")
async def test_closing_fails_waiting_receivers(queues: EmbeddedQueues) -> None:
    with pytest.raises(StoreClosed):
        await _receive_while(queues, "plain", queues.close)


@pytest.mark.usefixtures("no_polling")
async def test_deleting_the_queue_fails_waiting_receivers(queues: EmbeddedQueues) -> None:
    with pytest.raises(NotFound):
        await _receive_while(queues, "plain", lambda: queues.run_blocking(DeleteQueue("plain")))


async def test_cancelled_receiver_is_no_longer_registered(queues: EmbeddedQueues) -> None:
    waiting = asyncio.create_task(queues.run(ReceiveMessages("plain", wait_s=WAIT_S)))
    while not queues._waiters._by_queue:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert queues._waiters._by_queue == {}


async def test_message_of_a_cancelled_receiver_is_available_again(tmp_path: Path) -> None:
    with open_queues(tmp_path / "queues.db") as queues:
        _create(queues)
        for body in "ab":
            _send(queues, "plain", body)
        receiving = asyncio.create_task(queues.run(ReceiveMessages("plain", 10)))
        # After one turn of the event loop the committer has the unit of work, whose commit takes longer.
        await asyncio.sleep(0)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving

        received = queues.run_blocking(ReceiveMessages("plain", 10, wait_s=WAIT_S))
        assert {each.receives for each in received} == {1}
        assert queues.run_blocking(DescribeQueue("plain")).backlog == 2


def test_waiting_commits_nothing(queues: EmbeddedQueues) -> None:
    before = queues.database.committer.commits
    assert queues.run_blocking(ReceiveMessages("plain", wait_s=0.3)) == ()

    assert queues.database.committer.commits == before


# --- several processes on one file --------------------------------------------------------------------------


@pytest.fixture
def shared_queues(tmp_path: Path) -> Iterator[EmbeddedQueues]:
    """Yield queues on a file that another process can open."""
    with open_queues(tmp_path / "queues.db") as opened:
        _create(opened)
        yield opened


def _send_from_another_process(path: Path) -> None:
    """Send one message with a process of its own."""
    subprocess.run([sys.executable, "-c", SEND, path], cwd=ROOT, check=True, timeout=60)


@pytest.mark.usefixtures("no_polling")
async def test_send_in_another_process_wakes_a_waiting_receiver(
    shared_queues: EmbeddedQueues, tmp_path: Path
) -> None:
    received = await _receive_while(
        shared_queues, "plain", lambda: _send_from_another_process(tmp_path / "queues.db")
    )

    assert [each.body for each in received] == ["from afar"]


def test_removes_a_pipe_without_a_reader(shared_queues: EmbeddedQueues, tmp_path: Path) -> None:
    folder = tmp_path / f"queues.db{wakeup_pipe.FOLDER_SUFFIX}"
    folder.mkdir()
    os.mkfifo(folder / "4711-of-one-who-died")
    _send(shared_queues, "plain", "m")

    assert list(folder.iterdir()) == []
    assert shared_queues.run_blocking(DescribeQueue("plain")).visible == 1


def test_closing_removes_the_pipe(shared_queues: EmbeddedQueues, tmp_path: Path) -> None:
    folder = tmp_path / f"queues.db{wakeup_pipe.FOLDER_SUFFIX}"
    shared_queues.run_blocking(ReceiveMessages("plain", wait_s=0.01))
    assert len(list(folder.iterdir())) == 1
    shared_queues.close()

    assert list(folder.iterdir()) == []


async def test_waiting_receiver_polls_if_no_pipe_can_be_created(
    shared_queues: EmbeddedQueues, tmp_path: Path
) -> None:
    (tmp_path / f"queues.db{wakeup_pipe.FOLDER_SUFFIX}").write_text("in the way")

    received = await _receive_while(
        shared_queues, "plain", lambda: _send_from_another_process(tmp_path / "queues.db")
    )
    assert [each.body for each in received] == ["from afar"]


async def test_waiting_receiver_notices_a_moved_run_clock(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_800_000_000)
    with open_queues(tmp_path / "queues.db", clock=clock) as queues:
        _create(queues)
        _send(queues, "plain", "m", delay_s=600)

        received = await _receive_while(
            queues, "plain", lambda: _nothing(RunClock(tmp_path / "clock").advance(600))
        )
        assert [each.body for each in received] == ["m"]


def test_message_in_flight_is_invisible_to_other_processes(
    shared_queues: EmbeddedQueues, tmp_path: Path
) -> None:
    with open_queues(tmp_path / "queues.db") as other:
        _send(shared_queues, "plain", "m")
        (held,) = other.run_blocking(ReceiveMessages("plain"))

        assert shared_queues.run_blocking(ReceiveMessages("plain")) == ()
        shared_queues.run_blocking(DeleteMessages("plain", (held.receipt,)))
        assert other.run_blocking(DescribeQueue("plain")).backlog == 0


def _nothing(_: object) -> None:
    """Return None, so that a call with a result can be used as an action."""
    return
