"""A receive that waits is woken by what it waits for, in this process and from another, and costs nothing meanwhile."""

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
    Incoming,
    Outgoing,
    QueueDefinition,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, bell, engine, open_queues

ROOT = Path(__file__).parents[3]
WAIT_S = 15
# So that only what rings can end a wait in time: the look once a second is out of the way.
NEVER_S = 1000.0
SEND = """
import sys
from holdfast.operations.queues import Outgoing, SendMessages
from holdfast.stores.queues.embedded import open_queues
with open_queues(sys.argv[1]) as queues:
    queues.run_blocking(SendMessages("plain", (Outgoing(body="from afar"),)))
"""


@pytest.fixture(params=["memory", "file"])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedQueues]:
    with open_queues(None if request.param == "memory" else tmp_path / "queues.db") as opened:
        _create(opened)
        yield opened


@pytest.fixture
def deaf_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "QUEUE_LOOK_AGAIN_S", NEVER_S)


def _create(queues: EmbeddedQueues) -> None:
    for definition in (
        QueueDefinition(name="plain"),
        QueueDefinition(name="dead"),
        QueueDefinition(name="dying", dead_letters="dead", receives_max=1),
        QueueDefinition(name="order.fifo", fifo=True),
    ):
        queues.run_blocking(CreateQueue(definition))


def _send(queues: EmbeddedQueues, queue: str, body: str, **parts: object) -> None:
    queues.run_blocking(SendMessages(queue, (Outgoing(body=body, **parts),)))  # type: ignore[arg-type]


def _meanwhile(queues: EmbeddedQueues, queue: str, act: Callable[[], None]) -> tuple[Incoming, ...]:
    """What a receive gets that waits while `act` is done. It has looked, and sleeps, before that."""

    async def both() -> tuple[Incoming, ...]:
        waiting = asyncio.create_task(queues.run(ReceiveMessages(queue, wait_s=WAIT_S)))
        while not any(each._wake for each in queues._waiters._of.get(queue, ())):
            await asyncio.sleep(0)
        await asyncio.to_thread(act)
        return await waiting

    return asyncio.run(both())


@pytest.mark.usefixtures("deaf_to_time")
def test_a_message_that_is_sent_wakes_who_waits(queues: EmbeddedQueues) -> None:
    received = _meanwhile(queues, "plain", lambda: _send(queues, "plain", "m"))

    assert [each.body for each in received] == ["m"]


@pytest.mark.usefixtures("deaf_to_time")
def test_a_message_given_back_wakes_who_waits(queues: EmbeddedQueues) -> None:
    _send(queues, "plain", "m")
    (held,) = queues.run_blocking(ReceiveMessages("plain"))

    received = _meanwhile(
        queues, "plain", lambda: queues.run_blocking(ChangeVisibility("plain", (held.receipt,), 0))
    )
    assert [each.receives for each in received] == [2]


@pytest.mark.usefixtures("deaf_to_time")
def test_deleting_the_head_of_a_group_wakes_who_waits(queues: EmbeddedQueues) -> None:
    for body in "12":
        _send(queues, "order.fifo", body, group="g", deduplication=body)
    (first,) = queues.run_blocking(ReceiveMessages("order.fifo"))

    received = _meanwhile(
        queues, "order.fifo", lambda: queues.run_blocking(DeleteMessages("order.fifo", (first.receipt,)))
    )
    assert [each.body for each in received] == ["2"]


@pytest.mark.usefixtures("deaf_to_time")
def test_a_message_that_dies_wakes_who_waits_for_dead_letters(queues: EmbeddedQueues) -> None:
    _send(queues, "dying", "m")
    queues.run_blocking(ReceiveMessages("dying", visibility_s=0))

    received = _meanwhile(queues, "dead", lambda: _nothing(queues.run_blocking(ReceiveMessages("dying"))))
    assert [each.died_in for each in received] == ["dying"]


@pytest.mark.usefixtures("deaf_to_time")
def test_a_redrive_wakes_who_waits(queues: EmbeddedQueues) -> None:
    _send(queues, "dead", "m")

    received = _meanwhile(queues, "plain", lambda: _nothing(queues.run_blocking(Redrive("dead", "plain"))))
    assert [each.body for each in received] == ["m"]


@pytest.mark.usefixtures("deaf_to_time")
def test_a_delayed_message_wakes_who_waits_when_it_is_due(queues: EmbeddedQueues) -> None:
    received = _meanwhile(queues, "plain", lambda: _send(queues, "plain", "m", delay_s=1))

    assert [each.body for each in received] == ["m"]


@pytest.mark.usefixtures("deaf_to_time")
def test_a_message_whose_time_is_over_wakes_who_waits(queues: EmbeddedQueues) -> None:
    _send(queues, "plain", "m")
    queues.run_blocking(ReceiveMessages("plain", visibility_s=0.3))

    assert queues.run_blocking(ReceiveMessages("plain", wait_s=WAIT_S))


@pytest.mark.usefixtures("deaf_to_time")
def test_one_who_waits_in_a_thread_is_woken(queues: EmbeddedQueues) -> None:
    received: list[tuple[Incoming, ...]] = []
    waiting = threading.Thread(
        target=lambda: received.append(queues.run_blocking(ReceiveMessages("plain", wait_s=WAIT_S)))
    )
    waiting.start()
    while not queues._waiters._of:
        threading.Event().wait(0.001)
    _send(queues, "plain", "m")
    waiting.join()

    assert [each.body for each in received[0]] == ["m"]


@pytest.mark.usefixtures("deaf_to_time")
def test_many_wait_without_a_thread_each(queues: EmbeddedQueues) -> None:
    async def all_of_them() -> int:
        before = threading.active_count()
        waiting = [
            asyncio.create_task(queues.run(ReceiveMessages("plain", wait_s=WAIT_S))) for _ in range(200)
        ]
        while sum(each._wake is not None for each in queues._waiters._of.get("plain", ())) < 200:
            await asyncio.sleep(0)
        # The bell's, where there is a file.
        assert threading.active_count() <= before + 1
        for start in range(0, 200, 10):
            batch = tuple(Outgoing(body=f"{number}") for number in range(start, start + 10))
            await queues.run(SendMessages("plain", batch))
        return len({body for each in await asyncio.gather(*waiting) for (body,) in [[m.body for m in each]]})

    assert asyncio.run(all_of_them()) == 200


@pytest.mark.usefixtures("deaf_to_time")
def test_closing_tells_who_waits(queues: EmbeddedQueues) -> None:
    with pytest.raises(StoreClosed):
        _meanwhile(queues, "plain", queues.close)


@pytest.mark.usefixtures("deaf_to_time")
def test_deleting_the_queue_tells_who_waits(queues: EmbeddedQueues) -> None:
    with pytest.raises(NotFound):
        _meanwhile(queues, "plain", lambda: queues.run_blocking(DeleteQueue("plain")))


def test_one_who_is_cancelled_leaves_nothing_behind(queues: EmbeddedQueues) -> None:
    async def cancelled() -> None:
        waiting = asyncio.create_task(queues.run(ReceiveMessages("plain", wait_s=WAIT_S)))
        while not queues._waiters._of:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancelled())
    assert queues._waiters._of == {}


def test_a_message_received_for_one_who_was_cancelled_is_there_for_the_next(tmp_path: Path) -> None:
    async def cancelled(queues: EmbeddedQueues) -> None:
        receiving = asyncio.create_task(queues.run(ReceiveMessages("plain", 10)))
        # Once round the loop: the unit of work is with the committer, whose commit takes longer.
        await asyncio.sleep(0)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving

    with open_queues(tmp_path / "queues.db") as queues:
        _create(queues)
        for body in "ab":
            _send(queues, "plain", body)
        asyncio.run(cancelled(queues))

        received = queues.run_blocking(ReceiveMessages("plain", 10, wait_s=WAIT_S))
        assert {each.receives for each in received} == {1}
        assert queues.run_blocking(DescribeQueue("plain")).backlog == 2


def test_waiting_commits_nothing(queues: EmbeddedQueues) -> None:
    before = queues.database.committer.commits
    assert queues.run_blocking(ReceiveMessages("plain", wait_s=0.3)) == ()

    assert queues.database.committer.commits == before


# --- several processes on one file --------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[EmbeddedQueues]:
    with open_queues(tmp_path / "queues.db") as opened:
        _create(opened)
        yield opened


def _in_another_process(path: Path) -> None:
    subprocess.run([sys.executable, "-c", SEND, path], cwd=ROOT, check=True, timeout=60)


@pytest.mark.usefixtures("deaf_to_time")
def test_a_message_sent_by_another_process_wakes_who_waits(shared: EmbeddedQueues, tmp_path: Path) -> None:
    received = _meanwhile(shared, "plain", lambda: _in_another_process(tmp_path / "queues.db"))

    assert [each.body for each in received] == ["from afar"]


def test_a_pipe_that_nobody_reads_is_removed(shared: EmbeddedQueues, tmp_path: Path) -> None:
    folder = tmp_path / f"queues.db{bell.FOLDER_SUFFIX}"
    folder.mkdir()
    os.mkfifo(folder / "4711-of-one-who-died")
    _send(shared, "plain", "m")

    assert list(folder.iterdir()) == []
    assert shared.run_blocking(DescribeQueue("plain")).visible == 1


def test_closing_takes_the_pipe_along(shared: EmbeddedQueues, tmp_path: Path) -> None:
    folder = tmp_path / f"queues.db{bell.FOLDER_SUFFIX}"
    shared.run_blocking(ReceiveMessages("plain", wait_s=0.01))
    assert len(list(folder.iterdir())) == 1
    shared.close()

    assert list(folder.iterdir()) == []


def test_where_no_pipe_can_be_made_a_wait_still_ends(shared: EmbeddedQueues, tmp_path: Path) -> None:
    (tmp_path / f"queues.db{bell.FOLDER_SUFFIX}").write_text("in the way")

    received = _meanwhile(shared, "plain", lambda: _in_another_process(tmp_path / "queues.db"))
    assert [each.body for each in received] == ["from afar"]


def test_a_run_clock_that_is_moved_is_noticed_by_who_waits(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_800_000_000)
    with open_queues(tmp_path / "queues.db", clock=clock) as queues:
        _create(queues)
        _send(queues, "plain", "m", delay_s=600)

        received = _meanwhile(queues, "plain", lambda: _nothing(RunClock(tmp_path / "clock").advance(600)))
        assert [each.body for each in received] == ["m"]


def test_what_one_process_holds_another_does_not_see(shared: EmbeddedQueues, tmp_path: Path) -> None:
    with open_queues(tmp_path / "queues.db") as other:
        _send(shared, "plain", "m")
        (held,) = other.run_blocking(ReceiveMessages("plain"))

        assert shared.run_blocking(ReceiveMessages("plain")) == ()
        shared.run_blocking(DeleteMessages("plain", (held.receipt,)))
        assert other.run_blocking(DescribeQueue("plain")).backlog == 0


def _nothing(_: object) -> None:
    return
