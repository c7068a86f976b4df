"""How long changes are kept to recover from: for the whole window, and for as long as a copy still needs them."""

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
from holdfast.stores.tables.embedded.jobs import trimming
from tests.faults.engine_consistency import items_of

from .stepping import Stepped, definition

DAY = 86400.0
KEYS = 12


def write_all(engine: Stepped, version: int) -> None:
    for at in range(KEYS):
        engine.run(PutItem("tab", {"pk": f"{at}", "v": version}))


def restored(engine: Stepped, moment: float) -> dict[str, Item]:
    engine.run(RestoreTableToPointInTime("tab", "restored", moment))
    engine.finish()
    return items_of(engine.tables, "restored")


def logged(engine: Stepped) -> int:
    with engine.tables.database.reading() as connection:
        count: int = connection.execute("SELECT count(*) FROM changes_1").get
    return count


def trim(engine: Stepped) -> None:
    """What the worker does in every round, without the jobs that it goes on with."""

    def unit(connection: Connection) -> None:
        writer = engine._writer(connection)
        trimming.trim(writer)
        writer.finish()

    for _ in range(10):
        engine.tables.database.write(unit)


@pytest.fixture
def recoverable(engine: Stepped) -> Stepped:
    engine.run(CreateTable(definition()))
    engine.run(UpdateContinuousBackups("tab", True))
    write_all(engine, 1)
    engine.clock.moment += 60
    return engine


@pytest.mark.parametrize("days", [None, 35, 5, 1])
def test_every_moment_of_the_window_can_be_restored_and_none_before_it(
    recoverable: Stepped, days: int | None
) -> None:
    if days is not None:
        recoverable.run(UpdateContinuousBackups("tab", True, recovery_days=days))
    window = (days or 35) * DAY
    moment = recoverable.clock.moment
    expected = items_of(recoverable.tables, "tab")
    recoverable.clock.moment += 60
    write_all(recoverable, 2)
    recoverable.run(DeleteItem("tab", {"pk": "3"}))

    recoverable.clock.moment = moment + window - 1
    recoverable.tables.sweep()
    assert restored(recoverable, moment) == expected
    recoverable.clock.moment = moment + window + 3600
    recoverable.tables.sweep()
    assert logged(recoverable) == 0
    with pytest.raises(InvalidRestoreTime):
        recoverable.run(RestoreTableToPointInTime("tab", "too-late", moment))


def test_the_window_is_told_as_35_days_unless_it_was_chosen_and_again_once_switched_off_and_on(
    recoverable: Stepped,
) -> None:
    def told() -> tuple[int | None, float | None]:
        found = recoverable.run(DescribeContinuousBackups("tab"))
        return found.recovery_days, found.earliest

    recoverable.clock.moment += 100 * DAY
    assert told() == (35, recoverable.clock.moment - 35 * DAY)
    recoverable.run(UpdateContinuousBackups("tab", True, recovery_days=2))
    assert told() == (2, recoverable.clock.moment - 2 * DAY)
    recoverable.run(UpdateContinuousBackups("tab", False))
    recoverable.run(UpdateContinuousBackups("tab", True))
    assert told() == (35, recoverable.clock.moment)


def test_a_backup_that_takes_more_than_a_day_is_still_the_moment_it_was_asked_for(engine: Stepped) -> None:
    engine.run(CreateTable(definition()))
    write_all(engine, 1)
    expected = items_of(engine.tables, "tab")
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
    assert items_of(engine.tables, "restored") == expected
    trim(engine)
    assert logged(engine) == 0  # nothing needs it any more


def test_a_restore_that_outlasts_the_window_is_still_the_moment_it_was_asked_for(
    recoverable: Stepped,
) -> None:
    moment = recoverable.clock.moment
    expected = items_of(recoverable.tables, "tab")
    recoverable.clock.moment += 60
    write_all(recoverable, 2)
    recoverable.run(RestoreTableToPointInTime("tab", "restored", moment))
    recoverable.step()
    recoverable.clock.moment += 40 * DAY
    trim(recoverable)
    recoverable.finish()
    assert items_of(recoverable.tables, "restored") == expected


def test_a_deleted_table_can_be_brought_back_for_35_days(recoverable: Stepped) -> None:
    expected = items_of(recoverable.tables, "tab")
    recoverable.run(DeleteTable("tab"))
    recoverable.clock.moment += 35 * DAY - 1
    recoverable.tables.sweep()
    [backup] = recoverable.run(ListBackups(type="ALL")).backups
    recoverable.run(RestoreTableFromBackup(BackupName("tab", backup.id), "restored"))
    recoverable.finish()
    assert items_of(recoverable.tables, "restored") == expected
    recoverable.clock.moment += 2
    recoverable.tables.sweep()
    assert recoverable.run(ListBackups(type="ALL")).backups == ()
