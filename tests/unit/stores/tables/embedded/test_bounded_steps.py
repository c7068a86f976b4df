"""Background work of the embedded engine takes small steps, so that no writer waits long for one.

The bounds here are independent numbers, somewhat above those of `limits.py`, which must stay this small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from holdfast.operations.tables import (
    BatchWriteItem,
    CreateBackup,
    CreateIndex,
    CreateTable,
    DeleteIndex,
    DeleteTable,
    KeyAttribute,
    Put,
    PutItem,
    RestoreTableToPointInTime,
    TransactWriteItems,
    UpdateContinuousBackups,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.stores.sqlite import Connection
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.embedded.jobs.worker import Worker

from .stepped_engine import BY_G, BY_N, START, FakeClock, SteppedEngine, definition

ITEMS = 800
DAY = 86400

Begin = Callable[[SteppedEngine], None]


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedEngine]:
    """Return an engine that is idle until swept, and then takes its usual steps."""
    monkeypatch.setattr(Worker, "start", lambda self: None)
    clock = FakeClock()
    with open_tables(clock=clock) as tables:
        yield SteppedEngine(tables, clock)


def fill(engine: SteppedEngine, version: int = 0) -> None:
    """Put all items, with an end of life 100 seconds after the start."""
    end = int(START) + 100
    for at in range(0, ITEMS, 25):
        items = ({"pk": f"{one}", "g": "g", "n": one, "v": version, "end": end} for one in range(at, at + 25))
        engine.run(BatchWriteItem(tuple(Put("tab", item) for item in items)))  # type: ignore[arg-type]


def start_index(engine: SteppedEngine) -> None:
    """Fill the table and add an index to it."""
    fill(engine)
    engine.run(UpdateTable("tab", (KeyAttribute("n", "N"),), index_changes=(CreateIndex(BY_N),)))


def start_index_drop(engine: SteppedEngine) -> None:
    """Fill the table and delete its index."""
    fill(engine)
    engine.run(UpdateTable("tab", index_changes=(DeleteIndex("by_g"),)))


def start_table_drop(engine: SteppedEngine) -> None:
    """Fill the table and delete it."""
    fill(engine)
    engine.run(DeleteTable("tab"))


def start_ttl_backfill(engine: SteppedEngine) -> None:
    """Fill the table and then enable lifetimes."""
    fill(engine)
    engine.run(UpdateTimeToLive("tab", "end", True))


def start_expiry(engine: SteppedEngine) -> None:
    """Fill the table with lifetimes and let all items expire."""
    engine.run(UpdateTimeToLive("tab", "end", True))
    fill(engine)
    engine.tables.sweep()
    engine.clock.moment += 200


def start_backup(engine: SteppedEngine) -> None:
    """Fill the table and create a backup."""
    fill(engine)
    engine.run(CreateBackup("tab", "b"))


def start_restore(engine: SteppedEngine) -> None:
    """Start a restore that changes all copied rows back, items and index entries."""
    fill(engine)
    engine.run(UpdateContinuousBackups("tab", True))
    moment = engine.clock.moment = START + 10
    engine.clock.moment += 10
    for at in range(ITEMS):
        engine.run(PutItem("tab", {"pk": f"{at}", "g": "other"}))
    engine.run(RestoreTableToPointInTime("tab", "restored", moment))


def start_log_trim(engine: SteppedEngine) -> None:
    """Fill the table and let all records of its log pass their retention."""
    fill(engine)
    engine.clock.moment += 2 * DAY


def start_token_trim(engine: SteppedEngine) -> None:
    """Use many client tokens and let all expire."""
    for at in range(ITEMS):
        engine.run(TransactWriteItems((PutItem("tab", {"pk": "a", "v": at}),), token=f"{at}"))
    engine.clock.moment += 3600


@pytest.mark.parametrize(
    ("begin", "rows_max", "streams"),
    [
        (start_index, 300, False),
        (start_ttl_backfill, 300, False),
        (start_expiry, 200, True),
        (start_backup, 300, False),
        (start_restore, 1200, False),
        (start_index_drop, 600, False),
        (start_table_drop, 600, False),
        (start_log_trim, 600, True),
        (start_token_trim, 600, False),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_step_changes_many_rows(
    resting: SteppedEngine, monkeypatch: pytest.MonkeyPatch, begin: Begin, rows_max: int, streams: bool
) -> None:
    view = "NEW_AND_OLD_IMAGES" if streams else None
    resting.run(CreateTable(msgspec.structs.replace(definition(BY_G), stream_view=view)))
    begin(resting)
    changed = rows_changed_by_each_unit(resting, monkeypatch)
    resting.tables.sweep()
    assert max(changed) <= rows_max
    assert sum(changed) >= ITEMS  # all work was done, and each step counted


def rows_changed_by_each_unit(engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which every later unit of work adds the number of rows it changed."""
    database, changed = engine.tables.database, list[int]()
    original = database.write

    def count_changes(work: Callable[[Connection], Any]) -> Any:
        def unit(connection: Connection) -> Any:
            before = connection.total_changes()
            result = work(connection)
            changed.append(connection.total_changes() - before)
            return result

        return original(unit)

    monkeypatch.setattr(database, "write", count_changes)
    return changed
