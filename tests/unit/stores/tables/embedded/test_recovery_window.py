"""The recovery window of the embedded engine: changes are kept as long as it, or a copy, needs them."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRestoreTime
from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    CreateTable,
    DeleteItem,
    DeleteTable,
    DescribeContinuousBackups,
    ListBackups,
    PutItem,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    UpdateContinuousBackups,
)
from holdfast.operations.values import Item
from holdfast.stores.sqlite import Connection
from holdfast.stores.tables.embedded.jobs import retention
from tests.faults.tables.engine_consistency import read_items

from .stepped_engine import SteppedEngine, definition

DAY = 86400.0
KEYS = 12


def write_all(engine: SteppedEngine, version: int) -> None:
    """Put every item with this version."""
    for at in range(KEYS):
        engine.run(PutItem("tab", {"pk": f"{at}", "v": version}))


def restore(engine: SteppedEngine, moment: float) -> dict[str, Item]:
    """Restore the table as it was at this moment, and return the restored items."""
    engine.run(RestoreTableToPointInTime("tab", "restored", moment))
    engine.finish()
    return read_items(engine.tables, "restored")


def count_log_rows(engine: SteppedEngine) -> int:
    """Count the records of the table's change log."""
    with engine.tables.database.read_connection() as connection:
        count: int = connection.execute("SELECT count(*) FROM changes_1").get
    return count


def trim(engine: SteppedEngine) -> None:
    """Trim as the worker does in every round, without running its jobs."""

    def unit(connection: Connection) -> None:
        writer = engine._writer(connection)
        retention.trim(writer)
        writer.finish()

    for _ in range(10):
        engine.tables.database.write(unit)


@pytest.fixture
def recoverable(engine: SteppedEngine) -> SteppedEngine:
    """Return the stepped engine with a table that has recovery and its first version of items."""
    engine.run(CreateTable(definition()))
    engine.run(UpdateContinuousBackups("tab", True))
    write_all(engine, 1)
    engine.clock.moment += 60
    return engine


@pytest.mark.parametrize("days", [None, 35, 5, 1])
def test_every_moment_of_the_window_can_be_restored_and_none_before_it(
    recoverable: SteppedEngine, days: int | None
) -> None:
    if days is not None:
        recoverable.run(UpdateContinuousBackups("tab", True, recovery_days=days))
    window = (days or 35) * DAY
    moment = recoverable.clock.moment
    expected = read_items(recoverable.tables, "tab")
    recoverable.clock.moment += 60
    write_all(recoverable, 2)
    recoverable.run(DeleteItem("tab", {"pk": "3"}))

    recoverable.clock.moment = moment + window - 1
    recoverable.tables.sweep()
    assert restore(recoverable, moment) == expected
    recoverable.clock.moment = moment + window + 3600
    recoverable.tables.sweep()
    assert count_log_rows(recoverable) == 0
    with pytest.raises(InvalidRestoreTime):
        recoverable.run(RestoreTableToPointInTime("tab", "too-late", moment))


def test_recovery_window_defaults_to_35_days_and_resets_when_reenabled(
    recoverable: SteppedEngine,
) -> None:
    def describe_window() -> tuple[int | None, float | None]:
        found = recoverable.run(DescribeContinuousBackups("tab"))
        return found.recovery_days, found.earliest

    recoverable.clock.moment += 100 * DAY
    assert describe_window() == (35, recoverable.clock.moment - 35 * DAY)
    recoverable.run(UpdateContinuousBackups("tab", True, recovery_days=2))
    assert describe_window() == (2, recoverable.clock.moment - 2 * DAY)
    recoverable.run(UpdateContinuousBackups("tab", False))
    recoverable.run(UpdateContinuousBackups("tab", True))
    assert describe_window() == (35, recoverable.clock.moment)


def test_slow_backup_has_the_requested_moment(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    write_all(engine, 1)
    expected = read_items(engine.tables, "tab")
    engine.run(CreateBackup("tab", "b"))
    engine.step()
    write_all(engine, 2)
    engine.run(DeleteItem("tab", {"pk": "3"}))
    engine.clock.moment += 3 * DAY
    trim(engine)
    engine.finish()

    [backup] = engine.run(ListBackups()).backups
    engine.run(RestoreTableFromBackup(BackupName("tab", backup.id), "restored"))
    engine.finish()
    assert read_items(engine.tables, "restored") == expected
    trim(engine)
    assert count_log_rows(engine) == 0  # the log is no longer needed


def test_slow_restore_has_the_requested_moment(
    recoverable: SteppedEngine,
) -> None:
    moment = recoverable.clock.moment
    expected = read_items(recoverable.tables, "tab")
    recoverable.clock.moment += 60
    write_all(recoverable, 2)
    recoverable.run(RestoreTableToPointInTime("tab", "restored", moment))
    recoverable.step()
    recoverable.clock.moment += 40 * DAY
    trim(recoverable)
    recoverable.finish()
    assert read_items(recoverable.tables, "restored") == expected


def test_deleted_table_can_be_restored_for_35_days(recoverable: SteppedEngine) -> None:
    expected = read_items(recoverable.tables, "tab")
    recoverable.run(DeleteTable("tab"))
    recoverable.clock.moment += 35 * DAY - 1
    recoverable.tables.sweep()
    [backup] = recoverable.run(ListBackups(type="ALL")).backups
    recoverable.run(RestoreTableFromBackup(BackupName("tab", backup.id), "restored"))
    recoverable.finish()
    assert read_items(recoverable.tables, "restored") == expected
    recoverable.clock.moment += 2
    recoverable.tables.sweep()
    assert recoverable.run(ListBackups(type="ALL")).backups == ()
