"""Files of the embedded queues: durability, erasure of deleted messages, foreign files, and group commit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast.core.errors import StoreClosed, StoreFileError, UnknownOperation
from holdfast.guarantees import scan_files
from holdfast.operations.queues import (
    CreateQueue,
    DeleteMessages,
    DescribeQueue,
    Operation,
    OutgoingMessage,
    PurgeQueue,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import open_tables

SECRET = "the words of a customer"


def _open_with_message(path: Path, tuning: Tuning | None = None) -> EmbeddedQueues:
    """Open queues with one queue that holds ten messages with the secret."""
    queues = open_queues(path, tuning=tuning)
    queues.run_blocking(CreateQueue(QueueDefinition(name="q")))
    queues.run_blocking(
        SendMessages("q", tuple(OutgoingMessage(body=f"{SECRET} {n}" * 50) for n in range(10)))
    )
    return queues


def test_messages_outlive_the_process(tmp_path: Path) -> None:
    _open_with_message(tmp_path / "q.db").close()

    with open_queues(tmp_path / "q.db") as queues:
        assert queues.run_blocking(DescribeQueue("q")).visible == 10


@pytest.mark.proves("RP-2")
def test_a_deleted_message_is_overwritten(tmp_path: Path) -> None:
    with _open_with_message(tmp_path / "q.db") as queues:
        received = queues.run_blocking(ReceiveMessages("q", 10))
        queues.run_blocking(DeleteMessages("q", tuple(each.receipt for each in received)))

    assert SECRET.encode() not in (tmp_path / "q.db").read_bytes()


@pytest.mark.proves("RP-2")
def test_a_purged_message_is_overwritten(tmp_path: Path) -> None:
    with _open_with_message(tmp_path / "q.db") as queues:
        queues.run_blocking(PurgeQueue("q"))

    assert SECRET.encode() not in (tmp_path / "q.db").read_bytes()


@pytest.mark.proves("RP-2")
def test_deleted_message_is_in_no_file_while_the_process_runs(tmp_path: Path) -> None:
    with _open_with_message(tmp_path / "q.db", Tuning(log_quiet_s=0.01)) as queues:
        received = queues.run_blocking(ReceiveMessages("q", 10))
        queues.run_blocking(DeleteMessages("q", tuple(each.receipt for each in received)))
        while (tmp_path / "q.db-wal").stat().st_size:
            time.sleep(0.005)

        assert scan_files([tmp_path], needles=[SECRET], kinds=()) == []


@pytest.mark.proves("RP-2")
def test_compacting_erases_deleted_messages_from_files(tmp_path: Path) -> None:
    with _open_with_message(tmp_path / "q.db", Tuning(log_quiet_s=1000)) as queues:
        queues.run_blocking(PurgeQueue("q"))
        assert scan_files([tmp_path], needles=[SECRET], kinds=()) != []

        assert queues.compact()

        assert scan_files([tmp_path], needles=[SECRET], kinds=()) == []
        assert queues.run_blocking(DescribeQueue("q")).backlog == 0


def test_stored_message_is_found_in_the_file(tmp_path: Path) -> None:
    """The other tests search the file for the secret; here it is found before it is deleted."""
    _open_with_message(tmp_path / "q.db").close()

    assert SECRET.encode() in (tmp_path / "q.db").read_bytes()


def test_a_file_of_tables_is_refused_and_left_alone(tmp_path: Path) -> None:
    open_tables(tmp_path / "tables.db").close()
    before = (tmp_path / "tables.db").read_bytes()

    with pytest.raises(StoreFileError):
        open_queues(tmp_path / "tables.db")
    assert (tmp_path / "tables.db").read_bytes() == before


def test_closed_queues_refuse_operations(tmp_path: Path) -> None:
    queues = _open_with_message(tmp_path / "q.db")
    queues.close()

    with pytest.raises(StoreClosed):
        queues.run_blocking(SendMessages("q", (OutgoingMessage(body="x"),)))


def test_rejects_an_unknown_operation() -> None:
    class Strange(Operation[None], frozen=True):
        pass

    with open_queues() as queues, pytest.raises(UnknownOperation):
        queues.run_blocking(Strange())


async def test_concurrent_sends_share_commits(tmp_path: Path) -> None:
    import asyncio

    with _open_with_message(tmp_path / "q.db") as queues:
        before = queues.database.committer.commits
        await asyncio.gather(
            *(queues.run(SendMessages("q", (OutgoingMessage(body="x"),))) for _ in range(100))
        )
        assert queues.database.committer.commits - before < 50
