"""`erase` on the embedded engine: data, logs, backups and file bytes are erased; the proof names the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast import Stores, open_memory_stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.guarantees import SubjectData, erase, is_proof_intact, scan_files
from holdfast.model.system import Privacy
from holdfast.operations import tables as ops
from holdfast.runtime import create_buckets, create_queues, create_tables
from holdfast.stores.tables.embedded import EmbeddedTables
from tests.unit.guarantees.privacy.help_desk import (
    HELP_DESK,
    Conversation,
    Counter,
    Job,
    Note,
    find_subject_data,
    jobs,
    mails,
)

JOE, ANN = "conversation-joe-0001", "conversation-ann-0002"
SECRETS = ["joe's parcel never came", "he called twice", JOE]


@asynccontextmanager
async def open_desk(folder: Path) -> AsyncIterator[Stores]:
    """Open stores in files from settings, with the tables."""
    settings = Settings(tables=f"sqlite:{folder}/tables.db", queues=f"sqlite:{folder}/queues.db")

    async with open_stores(HELP_DESK, settings) as stores:
        await create_tables(stores, HELP_DESK.tables)
        yield stores


async def fill(stores: Stores, *, others: int = 40) -> None:
    """Write the conversations and notes of Joe, Ann and `others`; change one note of Joe's and delete
    another.
    """
    for number in range(others):
        await stores.run(Conversation.put(Conversation(conversation_id=f"other-{number}", text="fine " * 30)))
    for conversation in (JOE, ANN):
        text = SECRETS[0] if conversation == JOE else "ann is happy"
        await stores.run(Conversation.put(Conversation(conversation_id=conversation, text=text)))
        for number in range(5):
            note = Note(conversation_id=conversation, note_id=f"n{number}", text=f"{SECRETS[1]} {number}")
            await stores.run(
                Note.put(note if conversation == JOE else note.model_copy(update={"text": "ok"}))
            )
    await stores.run(Note.of(JOE).update("n1").set(Note.text, f"changed: {SECRETS[1]}"))
    # Deleted earlier: only the log still has it.
    await stores.run(Note.of(JOE).delete("n2"))


async def back_up(stores: Stores, table: str) -> ops.BackupSummary:
    """Back up the table and wait until the backup is complete."""
    summary = await stores.tables.run(ops.CreateBackup(table, "before"))
    assert isinstance(stores.tables, EmbeddedTables)
    stores.tables.sweep()
    return summary


async def restore(stores: Stores, table: str, *, at: float) -> list[Any]:
    """Restore the table to the time into a new one and return its items."""
    await stores.tables.run(ops.RestoreTableToPointInTime(table, f"{table}Restored", at))
    assert isinstance(stores.tables, EmbeddedTables)
    stores.tables.sweep()
    return (await stores.tables.run(ops.Scan(f"{table}Restored"))).items or []


async def test_deletes_all_data_of_a_subject_and_no_data_of_others() -> None:
    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores)

        done = await erase(HELP_DESK, stores, JOE)

        assert done.deleted == {"Notes": 4, "Conversations": 1}
        assert await stores.run(Conversation.of(JOE).get()) is None
        assert len(await stores.all(Note.of(JOE).query())) == 0
        assert await stores.run(Conversation.of(ANN).get()) is not None
        assert len(await stores.all(Note.of(ANN).query())) == 5
        assert (await erase(HELP_DESK, stores, JOE)).deleted == {}


async def test_no_byte_of_the_table_files_names_the_subject_after_an_erasure(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as stores:
        await fill(stores)
        await back_up(stores, "Notes")
        assert scan_files([tmp_path], needles=SECRETS, kinds=())

        done = await erase(HELP_DESK, stores, JOE)

        # The stream of Conversations keeps the keys for its readers, and the proof reports them.
        (kept,) = [each for each in done.remains if each.where == "stream of Conversations"]
        assert "without their items" in kept.what
        assert scan_files([tmp_path], needles=SECRETS[:2], kinds=()) == []
        assert done.log_records["Notes"] >= 6 and done.backup_items == {"Notes: before": 4}

    assert scan_files([tmp_path], needles=SECRETS[:2], kinds=()) == []


async def test_no_byte_of_the_queue_file_names_the_subject_after_an_erasure(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as stores:
        await create_queues(stores, HELP_DESK.queues)
        for _ in range(5):
            await stores.run(jobs.send(Job(conversation_id=JOE)))
        for message in await stores.run(jobs.receive(count=10)):
            await stores.run(jobs.delete(message))
        # Processed, and still in the write-ahead log.
        assert "queues.db-wal" in {
            Path(each.file).name for each in scan_files([tmp_path], needles=[JOE], kinds=())
        }

        done = await erase(HELP_DESK, stores, JOE)

        assert scan_files([tmp_path], needles=[JOE], kinds=()) == []
        assert [each for each in done.remains if each.where.startswith("queues.db")] == []


async def test_reports_a_message_that_is_still_in_the_queue(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as stores:
        await create_queues(stores, HELP_DESK.queues)
        await stores.run(jobs.send(Job(conversation_id=JOE)))

        done = await erase(HELP_DESK, stores, JOE)

        (reported,) = [each for each in done.remains if each.where == "queues.db"]
        assert "1 places that name the subject" in reported.what and "not processed yet" in reported.what


@pytest.mark.parametrize("seed", range(2))
async def test_leaves_no_copy_where_rows_moved_between_pages(tmp_path: Path, seed: int) -> None:
    # SQLite leaves copies in the unused part of pages, out of reach of secure_delete.
    chance = Random(seed)
    people = [f"conversation-{number}-{chance.randrange(10**6)}" for number in range(30)]

    async with open_desk(tmp_path) as stores:
        for _ in range(600):
            person, note = chance.choice(people), f"n{chance.randrange(30)}"
            if chance.random() < 0.3:
                await stores.run(Note.of(person).delete(note))
                continue
            text = f"secret of {person} " * chance.choice([1, 5, 30, 900])
            await stores.run(Note.put(Note(conversation_id=person, note_id=note, text=text)))
        for person in people[:15]:
            done = await erase(HELP_DESK, stores, person)
            assert [each for each in done.remains if each.where.startswith("tables.db")] == []
        assert scan_files([tmp_path], needles=people[:15], kinds=()) == []
        assert scan_files([tmp_path], needles=people[15:], kinds=())


async def test_proof_says_when_files_were_not_compacted(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as stores:
        await fill(stores)
        done = await erase(HELP_DESK, stores, JOE, compact=False)

        assert "until the file is compacted: then erase again" in {each.until for each in done.remains}


async def test_writers_continue_while_the_file_is_compacted(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as stores:
        await fill(stores)

        async def write() -> None:
            for number in range(100):
                await stores.run(Note.put(Note(conversation_id=ANN, note_id=f"later-{number}")))

        await asyncio.gather(erase(HELP_DESK, stores, JOE), write())

        assert len(await stores.all(Note.of(ANN).query())) == 105
        assert isinstance(stores.tables, EmbeddedTables)
        assert stores.tables.database.check() == []


async def test_not_even_the_key_is_left_after_the_stream_expires(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_794_000_000.0)
    folder = tmp_path / "data"
    settings = Settings(tables=f"sqlite:{folder}/tables.db")

    async with open_stores(HELP_DESK, settings, clock=clock) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores)
        await erase(HELP_DESK, stores, JOE)
        clock.advance(36 * 86400)
        assert isinstance(stores.tables, EmbeddedTables)
        stores.tables.sweep()
        assert stores.tables.compact()

        assert scan_files([folder], needles=SECRETS, kinds=()) == []


async def test_restore_to_an_earlier_time_does_not_bring_the_subject_back(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_794_000_000.0)

    async with open_memory_stores(HELP_DESK, clock=clock) as stores:
        await create_tables(stores, HELP_DESK.tables)
        clock.advance(10)
        await fill(stores)
        clock.advance(10)
        before = clock.now()
        clock.advance(10)
        await erase(HELP_DESK, stores, JOE)
        clock.advance(10)

        for table, left in (("Notes", 5), ("Conversations", 41)):
            items = await restore(stores, table, at=before)
            assert len(items) == left
            assert JOE not in {item["conversationId"] for item in items}


async def test_restored_backup_does_not_bring_the_subject_back() -> None:
    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores)
        backup = await back_up(stores, "Notes")
        await erase(HELP_DESK, stores, JOE)

        name = ops.BackupName("Notes", backup.id)
        reported = await stores.tables.run(ops.DescribeBackup(name))
        await stores.tables.run(ops.RestoreTableFromBackup(name, "Restored"))
        assert isinstance(stores.tables, EmbeddedTables)
        stores.tables.sweep()
        items = (await stores.tables.run(ops.Scan("Restored"))).items or []

        assert {item["conversationId"] for item in items} == {ANN}
        assert reported.source.item_count == 5


async def test_stream_reader_still_sees_that_the_items_are_deleted() -> None:
    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores, others=0)
        await erase(HELP_DESK, stores, JOE)

        (stream,) = (await stores.tables.run(ops.ListStreams("Conversations"))).streams
        shard = (await stores.tables.run(ops.DescribeStream(stream))).shards[0].id
        iterator = await stores.tables.run(ops.GetShardIterator(stream, shard, "TRIM_HORIZON"))
        records = (await stores.tables.run(ops.GetRecords(iterator))).records

        of_joe = [record for record in records if record.keys["conversationId"] == JOE]
        assert [record.event for record in of_joe] == ["INSERT", "REMOVE"]
        assert all(record.old is None and record.new is None for record in of_joe)
        (of_ann,) = [record for record in records if record.keys["conversationId"] == ANN]
        assert of_ann.new is not None and of_ann.new["text"] == "ann is happy"


async def test_keeps_and_reports_a_remaining_item_that_names_the_subject(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as stores:
        await fill(stores)
        await stores.run(Note.put(Note(conversation_id=ANN, note_id="n9", text=f"see {JOE}")))
        await stores.run(Note.of(ANN).update("n9").set(Note.text, f"see also {JOE}"))
        await stores.run(Counter.put(Counter(name="last", last=JOE)))

        done = await erase(HELP_DESK, stores, JOE)

        assert [each.what for each in done.remains if each.where == "change log or backup of Notes"] == [
            "1 former states of remaining items that name the subject"
        ]
        assert any(each.where == "tables.db" for each in done.remains)


async def test_second_erasure_reports_the_same_remainders_as_the_first(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_794_000_000.0)

    async def with_mail(stores: Stores, subject: str) -> SubjectData:
        found = await find_subject_data(stores, subject)
        # Like a system that finds its objects through its items: once those are deleted, it finds no objects.
        return SubjectData([*found.deletes, mails.delete(id="m1")] if found.deletes else [])

    async with open_memory_stores(HELP_DESK, clock=clock) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await create_buckets(stores, HELP_DESK.buckets)
        await fill(stores, others=0)
        await stores.run(mails.put(b"{}", id="m1"))
        desk = replace(HELP_DESK, privacy=Privacy(subjects={"conversation": with_mail}))

        first, second = await erase(desk, stores, JOE), await erase(desk, stores, JOE)

        assert first.deleted["help-desk-archive"] == 1
        assert second.deleted == {}
        assert second.remains == first.remains


async def test_keeps_and_reports_an_object_under_a_legal_hold() -> None:
    async def with_mails(stores: Stores, subject: str) -> SubjectData:
        return SubjectData([mails.delete(id="held"), mails.delete(id="free")])

    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await create_buckets(stores, HELP_DESK.buckets)
        for id in ("held", "free"):
            await stores.run(mails.put(b"{}", id=id))
        await stores.run(mails.set_legal_hold(True, id="held"))

        done = await erase(
            replace(HELP_DESK, privacy=Privacy(subjects={"conversation": with_mails})), stores, JOE
        )

        assert done.deleted == {"help-desk-archive": 1}
        (held,) = [each for each in done.remains if "under a legal hold" in each.what]
        assert (held.where, held.what[0]) == ("bucket help-desk-archive", "1")
        assert "former versions" in str(done.proof["remains"])


async def test_proof_is_complete_and_does_not_name_the_subject() -> None:
    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores)
        proof = (await erase(HELP_DESK, stores, JOE)).proof

    assert JOE not in str(proof)
    assert is_proof_intact(proof)
    assert not is_proof_intact({**proof, "deleted": {}})
    assert {each["where"] for each in proof["remains"]} >= {"queue jobs", "bucket help-desk-archive"}
    assert all(each["until"] for each in proof["remains"])


async def test_a_dry_run_counts_and_deletes_nothing() -> None:
    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores)

        done = await erase(HELP_DESK, stores, JOE, dry_run=True)

        assert (done.is_dry_run, done.deleted) == (True, {"Notes": 4, "Conversations": 1})
        assert await stores.run(Conversation.of(JOE).get()) is not None


async def test_a_short_id_erases_by_keys_alone() -> None:
    """An id below six characters is not searched for in the log: it would match other data."""
    async with open_memory_stores(HELP_DESK) as stores:
        await create_tables(stores, HELP_DESK.tables)
        await fill(stores)
        await stores.run(Note.put(Note(conversation_id="ok", note_id="n1", text="x")))

        done = await erase(HELP_DESK, stores, "ok")

        assert done.deleted == {"Notes": 1}
        assert done.log_records == {"Notes": 2}


async def test_rejects_an_unknown_kind_an_empty_id_and_a_non_delete() -> None:
    async def puts(stores: Stores, subject: str) -> SubjectData:
        return SubjectData([Note.put(Note(conversation_id=subject, note_id="n"))])

    async with open_memory_stores(HELP_DESK) as stores:
        with pytest.raises(NotFound, match="it knows conversation"):
            await erase(HELP_DESK, stores, JOE, kind="planet")
        with pytest.raises(InvalidRequest, match="empty"):
            await erase(HELP_DESK, stores, "")
        with pytest.raises(InvalidRequest, match="deletes nothing"):
            await erase(replace(HELP_DESK, privacy=Privacy(subjects={"c": puts})), stores, JOE)


class FakeService:
    """Engine with no file of its own, like a remote service."""

    def __init__(self, engine: EmbeddedTables) -> None:
        self.run = engine.run


async def test_proof_names_what_a_service_keeps_and_until_when(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_794_000_000.0)

    async with open_memory_stores(HELP_DESK, clock=clock) as embedded:
        await create_tables(embedded, HELP_DESK.tables)
        await fill(embedded, others=0)
        await back_up(embedded, "Notes")
        assert isinstance(embedded.tables, EmbeddedTables)
        stores = Stores(FakeService(embedded.tables), system=HELP_DESK, clock=clock)

        done = await erase(HELP_DESK, stores, JOE)

        assert done.deleted == {"Notes": 4, "Conversations": 1}
        assert (done.log_records, done.backup_items) == ({}, {})
        remains = {each.where: each.until for each in done.remains}
        assert remains["stream of Conversations"] == "2026-11-07T21:20:00Z"
        assert remains["recovery of Notes"] == "2026-12-11T21:20:00Z"
        assert remains["backup before of Notes"] == "until it is deleted"
