"""A page of zeros in a message of several pages: SQLite cannot read that message, and all others are served.

The checksum of such a page is valid. In the middle of a message it also ends the chain of its pages: SQLite
then refuses every later write of the transaction that has read it.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from holdfast.core.errors import DataDamaged
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DeleteQueue,
    DescribeQueue,
    DiscardMessages,
    IncomingMessage,
    OutgoingMessage,
    PurgeQueue,
    QueueDefinition,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.queues.embedded.verification import verify_queues
from tests.sqlite_files import open_file
from tests.unit.stores.queues.fake_clock import FakeClock

PAGE = 8192
LONG = "<long!>" * 6000
FIRST, MIDDLE, LAST = 0, 2, -1
DAYS_5 = 5 * 86_400.0


def send(queues: EmbeddedQueues, queue: str, *bodies: str, group: str | None = None) -> None:
    """Send the messages, each alone."""
    for body in bodies:
        message = OutgoingMessage(body=body, group=group, deduplication=group and f"{group}-{body[:20]}")
        queues.run_blocking(SendMessages(queue, (message,)))


def receive(queues: EmbeddedQueues, queue: str = "jobs", count: int = 10) -> tuple[IncomingMessage, ...]:
    return queues.run_blocking(ReceiveMessages(queue, count))


def delete(queues: EmbeddedQueues, queue: str, *received: IncomingMessage) -> None:
    queues.run_blocking(DeleteMessages(queue, tuple(each.receipt for each in received)))


def receive_all(queues: EmbeddedQueues, queue: str = "jobs") -> list[str]:
    """Receive and delete what is not damaged, and return the bodies."""
    found: list[str] = []
    while True:
        try:
            received = receive(queues, queue, 2)
        except DataDamaged:
            return found
        if not received:
            return found
        found += [each.body for each in received]
        delete(queues, queue, *received)


def zero_page(path: Path, which: int = MIDDLE) -> None:
    """Overwrite a page of the long message, in the order of its chain, with zeros."""
    content = path.read_bytes()
    offsets = find_pages(content)
    offset = offsets[which]
    path.write_bytes(content[:offset] + bytes(PAGE) + content[offset + PAGE :])


def find_pages(content: bytes) -> list[int]:
    """Return the offsets of the pages of the long message, in the order of its chain."""
    found = [at for at in range(0, len(content), PAGE) if content[at : at + PAGE].count(b"<long!>") > 200]
    following = {at: (int.from_bytes(content[at : at + 4], "big") - 1) * PAGE for at in found}
    (at,) = set(found) - set(following.values())
    chain = [at]
    while following[chain[-1]] in following:
        chain.append(following[chain[-1]])
    assert len(chain) == len(found) >= 5
    return chain


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a new file with empty queues."""
    path = tmp_path / "queues.db"
    with open_queues(path) as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name="dead")))
        for name in ("jobs", "later", "other"):
            queues.run_blocking(CreateQueue(QueueDefinition(name=name)))
        for name in ("steps.fifo", "moved.fifo"):
            queues.run_blocking(CreateQueue(QueueDefinition(name=name, fifo=True)))
    return path


@pytest.fixture
def jobs(path: Path) -> Path:
    """Return the path of a file whose second of four jobs is long, and damaged in its middle."""
    with open_queues(path) as queues:
        send(queues, "jobs", "one", LONG, "three", "four")
    zero_page(path)
    return path


@pytest.mark.parametrize("which", [FIRST, 1, MIDDLE, -2, LAST])
@pytest.mark.parametrize("position", [0, 1, 3])
def test_all_other_messages_are_received_and_deleted(path: Path, which: int, position: int) -> None:
    others = ["one", "two", "three"]
    bodies = [*others[:position], LONG, *others[position:]]
    with open_queues(path) as queues:
        send(queues, "jobs", *bodies)
    zero_page(path, which)

    with open_queues(path) as queues:
        assert [each.body for each in queues.run_blocking(Browse("jobs", 10))] == others
        assert receive_all(queues) == others
        with pytest.raises(DataDamaged, match=f"Message {position + 1} of the queue jobs"):
            receive(queues)
        assert queues.run_blocking(DescribeQueue("jobs")).visible == 1
    problems = verify_queues(str(path), lambda *_: None)
    assert f"the message {position + 1} of the queue jobs is damaged" in problems


def test_new_messages_are_received_behind_a_damaged_one(jobs: Path) -> None:
    with open_queues(jobs) as queues:
        receive_all(queues)
        send(queues, "jobs", "new")
        assert receive_all(queues) == ["new"]


def test_log_that_is_not_empty(path: Path, tmp_path: Path) -> None:
    """The long message is in the file, and later transactions are in the log."""
    copy = tmp_path / "copy"
    copy.mkdir()
    with open_queues(path) as queues:
        send(queues, "jobs", "one", LONG)
        queues.compact(rewrite=False)
        send(queues, "jobs", "three")
        (held,) = receive(queues, count=1)
        for each in path.parent.glob("*queues.db*"):
            shutil.copy(each, copy)
    zero_page(copy / "queues.db")

    with open_queues(copy / "queues.db") as queues:
        assert (copy / "queues.db-wal").stat().st_size > PAGE
        assert receive_all(queues) == ["three"]
        with pytest.raises(DataDamaged, match="Message 2 of the queue jobs"):
            receive(queues)
        delete(queues, "jobs", held)
        assert queues.run_blocking(DescribeQueue("jobs")).visible == 1


def test_other_writes_of_the_same_transaction_are_kept(jobs: Path) -> None:
    async def run_at_once(queues: EmbeddedQueues) -> list[str]:
        sends = [SendMessages("other", (OutgoingMessage(body=f"{number}"),)) for number in range(20)]
        receiving = asyncio.gather(queues.run(ReceiveMessages("jobs", 2)))
        await asyncio.gather(*(queues.run(each) for each in sends))
        (received,) = await receiving
        return [each.body for each in received]

    with open_queues(jobs) as queues:
        assert asyncio.run(run_at_once(queues)) == ["one", "three"]
        assert sorted(map(int, receive_all(queues, "other"))) == list(range(20))


def test_damaged_message_stops_its_group_and_no_other(path: Path) -> None:
    with open_queues(path) as queues:
        send(queues, "steps.fifo", LONG, "behind", group="a")
        send(queues, "steps.fifo", "b1", "b2", group="b")
    zero_page(path)
    with open_queues(path) as queues:
        assert receive_all(queues, "steps.fifo") == ["b1", "b2"]
        with pytest.raises(DataDamaged, match=r"Message 1 of the queue steps\.fifo"):
            receive(queues, "steps.fifo")
        send(queues, "steps.fifo", "b3", group="b")
        assert receive_all(queues, "steps.fifo") == ["b3"]


def test_message_that_comes_to_the_head_of_its_group_is_named(path: Path) -> None:
    with open_queues(path) as queues:
        send(queues, "steps.fifo", "a1", LONG, "a3", group="a")
        send(queues, "steps.fifo", "b1", group="b")
    zero_page(path)
    with open_queues(path) as queues:
        first, other = receive(queues, "steps.fifo")
        delete(queues, "steps.fifo", first)
        assert receive(queues, "steps.fifo") == ()
        delete(queues, "steps.fifo", other)
        for _ in range(2):
            with pytest.raises(DataDamaged, match=r"Message 2 of the queue steps\.fifo"):
                receive(queues, "steps.fifo")
        send(queues, "steps.fifo", "a4", group="a")
        send(queues, "steps.fifo", "b2", group="b")
        assert receive_all(queues, "steps.fifo") == ["b2"]
        assert queues.run_blocking(Redrive("steps.fifo", "moved.fifo")) == 2
        assert receive_all(queues, "moved.fifo") == ["a3", "a4"]


def test_message_in_flight_is_neither_deleted_nor_held_longer(path: Path) -> None:
    clock = FakeClock()
    with open_queues(path, clock=clock) as queues:
        send(queues, "jobs", "one", LONG, "three")
        held = receive(queues)
    zero_page(path)
    with open_queues(path, clock=clock) as queues:
        assert receive(queues) == ()
        with pytest.raises(DataDamaged, match="Message 2 of the queue jobs"):
            queues.run_blocking(ChangeVisibility("jobs", (held[1].receipt,), 60))
        with pytest.raises(DataDamaged, match="Message 2 of the queue jobs .* cannot be deleted"):
            delete(queues, "jobs", *held)
        assert queues.run_blocking(DescribeQueue("jobs")).in_flight == 1
        clock.advance(60)
        with pytest.raises(DataDamaged, match="Message 2 of the queue jobs"):
            receive(queues)


def test_redrive_and_discard_leave_it_where_it_is(jobs: Path) -> None:
    with open_queues(jobs) as queues:
        one = queues.run_blocking(Browse("jobs", 1))[0]
        assert queues.run_blocking(DiscardMessages("jobs", (one.id,))) == 1
        assert queues.run_blocking(Redrive("jobs", "later")) == 2
        assert receive_all(queues, "later") == ["three", "four"]
        with pytest.raises(DataDamaged, match="Message 2 of the queue jobs"):
            receive(queues)


def test_message_past_retention_stops_no_other_work(jobs: Path) -> None:
    clock = FakeClock()
    with open_queues(jobs, clock=clock) as queues:
        queues.run_blocking(PurgeQueue("later"))
    with open_queues(jobs, clock=clock) as queues:
        clock.advance(DAYS_5)
        for number in range(20):
            send(queues, "other", f"{number}")
        assert len(receive_all(queues, "other")) == 20
        with pytest.raises(DataDamaged, match="Message 2 of the queue jobs"):
            queues.run_blocking(ReceiveMessages("jobs", wait_s=0.2))
        commits = queues.database.committer.commits
        assert queues.run_blocking(ReceiveMessages("other", wait_s=0.2)) == ()
        assert queues.database.committer.commits < commits + 5


@pytest.fixture(params=[PurgeQueue("jobs"), DeleteQueue("jobs")], ids=["purge", "delete"])
def removal(request: pytest.FixtureRequest) -> PurgeQueue | DeleteQueue:
    removal: PurgeQueue | DeleteQueue = request.param
    return removal


def test_purged_and_deleted_queues_are_empty(jobs: Path, removal: PurgeQueue | DeleteQueue) -> None:
    with open_queues(jobs) as queues:
        queues.run_blocking(removal)
        queues.run_blocking(CreateQueue(QueueDefinition(name="jobs")))
        assert receive(queues) == ()
        for number in range(20):
            send(queues, "jobs", f"{number}")
        assert len(receive_all(queues)) == 20
        commits = queues.database.committer.commits
        assert queues.run_blocking(ReceiveMessages("jobs", wait_s=0.2)) == ()
        assert queues.database.committer.commits < commits + 5
    connection = open_file(jobs)
    assert connection.execute("SELECT place FROM messages").fetchall() == [(2,)]
    connection.close()
