"""Jobs of the embedded engine with writes between their steps: backfills, backups, restores and drops."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.core.errors import BackupInUse, NotFound
from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    CreateIndex,
    CreateTable,
    DeleteBackup,
    DeleteIndex,
    DeleteItem,
    DeleteTable,
    DescribeBackup,
    DescribeTable,
    GetItem,
    KeyAttribute,
    ListTables,
    Operation,
    PutItem,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    StreamChange,
    UpdateContinuousBackups,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.records import BackfillJob, CopyJob, DropJob, Job, LifetimesJob
from tests.faults.tables.engine_consistency import assert_consistent, read_items

from .stepped_engine import BATCH, BY_G, BY_N, SteppedEngine, definition

KEYS = 14
SEEDS = range(30)
ADD_BY_N = UpdateTable("tab", (KeyAttribute("n", "N"),), index_changes=(CreateIndex(BY_N),))


def fill(engine: SteppedEngine, random: Random, count: int = KEYS) -> None:
    """Put this many random items."""
    for at in range(count):
        engine.run(PutItem("tab", item(f"{at}", random)))


def item(key: str, random: Random) -> Item:
    """Return a random item with this key, which may lack index keys."""
    made: Item = {"pk": key, "a": "x" * random.randrange(40)}
    if random.random() < 0.7:
        made["n"] = random.randrange(4)
    if random.random() < 0.7:
        made["g"] = random.choice("ab")
    return made


def write_something(engine: SteppedEngine, random: Random) -> None:
    """Put or delete a random item, and maybe move the clock."""
    key = f"{random.randrange(KEYS + 4)}"
    engine.clock.moment += random.choice([0, 0, 0.001, 1])
    if random.random() < 0.35:
        engine.run(DeleteItem("tab", {"pk": key}))
    else:
        engine.run(PutItem("tab", item(key, random)))


def finish_amid_writes(engine: SteppedEngine, random: Random) -> None:
    """Run all jobs to their end, with random writes between the steps, and check consistency after each."""
    while engine.pending():
        for _ in range(random.randrange(4)):
            write_something(engine, random)
        assert_consistent(engine.tables)
        engine.step()
    assert_consistent(engine.tables)


@pytest.mark.parametrize("seed", SEEDS)
def test_index_backfilled_during_writes_is_exact(engine: SteppedEngine, seed: int) -> None:
    random = Random(seed)
    engine.run(CreateTable(definition(BY_G)))
    fill(engine, random)
    engine.run(ADD_BY_N)
    finish_amid_writes(engine, random)
    assert engine.run(DescribeTable("tab")).global_indexes["by_n"].status == "ACTIVE"


@pytest.mark.parametrize("seed", SEEDS)
def test_backup_taken_during_writes_has_the_requested_moment(engine: SteppedEngine, seed: int) -> None:
    random = Random(seed)
    engine.run(CreateTable(definition(BY_G)))
    fill(engine, random)
    expected = read_items(engine.tables, "tab")
    backup = engine.run(CreateBackup("tab", "b"))
    finish_amid_writes(engine, random)
    name = BackupName("tab", backup.id)
    taken = engine.run(DescribeBackup(name)).summary
    assert taken.status == "AVAILABLE"
    engine.run(RestoreTableFromBackup(name, "restored"))
    finish_amid_writes(engine, random)
    assert read_items(engine.tables, "restored") == expected
    assert engine.run(DescribeTable("restored")).size_bytes == taken.size_bytes


@pytest.mark.parametrize("seed", SEEDS)
def test_restore_to_a_moment_during_writes_is_exact(engine: SteppedEngine, seed: int) -> None:
    random = Random(seed)
    engine.run(CreateTable(definition(BY_G, BY_N)))
    fill(engine, random)
    engine.run(UpdateContinuousBackups("tab", True))
    for _ in range(random.randrange(20)):
        write_something(engine, random)
    engine.clock.moment += 1
    expected, moment = read_items(engine.tables, "tab"), engine.clock.moment
    engine.clock.moment += 1
    for _ in range(random.randrange(20)):
        write_something(engine, random)
    engine.run(RestoreTableToPointInTime("tab", "restored", moment))
    finish_amid_writes(engine, random)
    assert read_items(engine.tables, "restored") == expected


def test_restore_to_the_first_second_of_recovery_keeps_existing_items(engine: SteppedEngine) -> None:
    """The earlier stream log has no old images: undoing it would remove items."""
    engine.run(CreateTable(definition()))
    engine.run(PutItem("tab", {"pk": "a", "v": 1}))
    engine.run(UpdateTable("tab", stream=StreamChange("NEW_IMAGE")))
    engine.clock.moment += 0.2
    engine.run(PutItem("tab", {"pk": "a", "v": 2}))
    engine.clock.moment += 0.2
    engine.run(UpdateContinuousBackups("tab", True))
    engine.clock.moment += 5
    engine.run(RestoreTableToPointInTime("tab", "restored", float(int(engine.clock.moment - 5))))
    engine.finish()
    assert read_items(engine.tables, "restored") == {"a": {"pk": "a", "v": 2}}


def test_longer_window_does_not_cover_already_trimmed_changes(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    engine.run(UpdateContinuousBackups("tab", True, recovery_days=1))
    engine.clock.moment += 10 * 86400
    again = engine.run(UpdateContinuousBackups("tab", True, recovery_days=35))
    assert again.earliest == engine.clock.moment - 86400


def test_a_backup_survives_the_deletion_of_its_table_while_it_is_taken(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    fill(engine, Random(0))
    expected = read_items(engine.tables, "tab")
    backup = engine.run(CreateBackup("tab", "b"))
    engine.step()
    engine.run(DeleteItem("tab", {"pk": "5"}))
    engine.run(DeleteTable("tab"))
    engine.finish()
    engine.run(RestoreTableFromBackup(BackupName("tab", backup.id), "restored"))
    engine.finish()
    assert read_items(engine.tables, "restored") == expected
    assert_consistent(engine.tables)


def test_a_restore_survives_the_deletion_of_its_source(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    fill(engine, Random(0))
    engine.run(UpdateContinuousBackups("tab", True))
    expected = read_items(engine.tables, "tab")
    engine.clock.moment += 1
    engine.run(RestoreTableToPointInTime("tab", "restored"))
    engine.step()
    engine.run(UpdateContinuousBackups("tab", False))
    engine.run(DeleteTable("tab"))
    engine.finish()
    assert read_items(engine.tables, "restored") == expected
    assert_consistent(engine.tables)


def test_a_backup_that_is_being_restored_cannot_be_deleted(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    fill(engine, Random(0))
    name = BackupName("tab", engine.run(CreateBackup("tab", "b")).id)
    engine.finish()
    engine.run(RestoreTableFromBackup(name, "restored"))
    with pytest.raises(BackupInUse):
        engine.run(DeleteBackup(name))
    engine.finish()
    engine.run(DeleteBackup(name))
    engine.finish()
    assert_consistent(engine.tables)


def test_a_table_that_is_being_restored_cannot_be_read_or_written(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    fill(engine, Random(0))
    name = BackupName("tab", engine.run(CreateBackup("tab", "b")).id)
    engine.finish()
    engine.run(RestoreTableFromBackup(name, "restored"))
    engine.step()
    for operation in (GetItem("restored", {"pk": "1"}), PutItem("restored", {"pk": "1"})):
        with pytest.raises(NotFound):
            engine.run(operation)
    engine.finish()
    assert engine.run(GetItem("restored", {"pk": "1"})).item is not None


def test_deleting_an_index_during_backfill_leaves_no_rows(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    fill(engine, Random(0))
    engine.run(ADD_BY_N)
    engine.step()
    engine.run(UpdateTable("tab", index_changes=(DeleteIndex("by_n"),)))
    engine.run(ADD_BY_N)
    finish_amid_writes(engine, Random(1))


@pytest.mark.parametrize("recovery", [False, True])
def test_a_dropped_table_leaves_no_rows(engine: SteppedEngine, recovery: bool) -> None:
    """With recovery on, the rows stay as a system backup until that expires."""
    engine.run(CreateTable(definition(BY_G, BY_N)))
    if recovery:
        engine.run(UpdateContinuousBackups("tab", True))
    fill(engine, Random(0))
    engine.run(DeleteTable("tab"))
    assert engine.run(ListTables()).names == ()
    while engine.pending():
        assert_consistent(engine.tables)
        engine.step()
    engine.clock.moment += 36 * 86400
    engine.tables.sweep()
    assert_consistent(engine.tables)
    with engine.tables.database.read_connection() as connection:
        assert connection.execute("SELECT count(*) FROM counts").get == 0
        assert (
            connection.execute("SELECT count(*) FROM sqlite_schema WHERE name GLOB '*_1'").get == 1
        )  # of tables


@pytest.mark.parametrize(
    "begin",
    [
        ADD_BY_N,
        CreateBackup("tab", "b"),
        UpdateTimeToLive("tab", "end", True),
        RestoreTableToPointInTime("tab", "restored"),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_job_ends_although_rows_are_added_faster(engine: SteppedEngine, begin: Operation[Any]) -> None:
    """An item put again after its deletion is a new row after all others: the job need not visit it."""
    engine.run(CreateTable(definition()))
    engine.run(UpdateContinuousBackups("tab", True))
    fill(engine, Random(0))
    engine.run(begin)
    steps = 0
    while engine.pending():
        for at in range(2 * BATCH):
            key = f"{(at + steps) % KEYS}"
            engine.run(DeleteItem("tab", {"pk": key}))
            engine.run(PutItem("tab", {"pk": key, "n": steps}))
        engine.step()
        steps += 1
        assert steps < 200
    assert_consistent(engine.tables)


STORED: list[tuple[Job, str]] = [
    (BackfillJob(1, "i", 2), "BackfillJob"),
    (LifetimesJob(1, "ttl"), "LifetimesJob"),
    (DropJob(1), "DropJob"),
    (CopyJob(1, 2, None), "CopyJob"),
]


@pytest.mark.parametrize(("job", "tag"), STORED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_job_is_stored_under_its_tag(job: Job, tag: str) -> None:
    stored = msgspec.msgpack.encode(job)

    assert msgspec.msgpack.decode(stored)["type"] == tag
    assert msgspec.msgpack.decode(stored, type=Job) == job
