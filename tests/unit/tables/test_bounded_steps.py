"""Background work takes small steps: none changes more rows than a waiting writer can wait for.

The bounds here are numbers of their own, somewhat above those of `limits.py`, which are to stay this small.
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

from .stepping import BY_G, BY_N, START, HandClock, Stepped, definition

ITEMS = 800
DAY = 86400

Begin = Callable[[Stepped], None]


@pytest.fixture
def resting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stepped]:
    """An engine that rests until it is swept, and then takes the steps it always takes."""
    monkeypatch.setattr(Worker, "start", lambda self: None)
    clock = HandClock()
    with open_tables(clock=clock) as tables:
        yield Stepped(tables, clock)


def fill(engine: Stepped, version: int = 0) -> None:
    end = int(START) + 100
    for at in range(0, ITEMS, 25):
        items = ({"pk": f"{one}", "g": "g", "n": one, "v": version, "end": end} for one in range(at, at + 25))
        engine.run(BatchWriteItem(tuple(Put("tab", item) for item in items)))  # type: ignore[arg-type]


def a_new_index(engine: Stepped) -> None:
    fill(engine)
    engine.run(UpdateTable("tab", (KeyAttribute("n", "N"),), index_changes=(CreateIndex(BY_N),)))


def an_index_to_drop(engine: Stepped) -> None:
    fill(engine)
    engine.run(UpdateTable("tab", index_changes=(DeleteIndex("by_g"),)))


def a_table_to_drop(engine: Stepped) -> None:
    fill(engine)
    engine.run(DeleteTable("tab"))


def lifetimes_to_note(engine: Stepped) -> None:
    fill(engine)
    engine.run(UpdateTimeToLive("tab", "end", True))


def items_that_are_over(engine: Stepped) -> None:
    engine.run(UpdateTimeToLive("tab", "end", True))
    fill(engine)
    engine.tables.sweep()
    engine.clock.moment += 200


def a_backup(engine: Stepped) -> None:
    fill(engine)
    engine.run(CreateBackup("tab", "b"))


def changes_to_undo(engine: Stepped) -> None:
    """The copy is of rows that are all to be changed back, item and index each."""
    fill(engine)
    engine.run(UpdateContinuousBackups("tab", True))
    moment = engine.clock.moment = START + 10
    engine.clock.moment += 10
    for at in range(ITEMS):
        engine.run(PutItem("tab", {"pk": f"{at}", "g": "other"}))
    engine.run(RestoreTableToPointInTime("tab", "restored", moment))


def a_log_to_trim(engine: Stepped) -> None:
    fill(engine)
    engine.clock.moment += 2 * DAY


def tokens_to_trim(engine: Stepped) -> None:
    for at in range(ITEMS):
        engine.run(TransactWriteItems((PutItem("tab", {"pk": "a", "v": at}),), token=f"{at}"))
    engine.clock.moment += 3600


@pytest.mark.parametrize(
    ("begin", "rows_max", "streams"),
    [
        (a_new_index, 300, False),
        (lifetimes_to_note, 300, False),
        (items_that_are_over, 200, True),
        (a_backup, 300, False),
        (changes_to_undo, 1200, False),
        (an_index_to_drop, 600, False),
        (a_table_to_drop, 600, False),
        (a_log_to_trim, 600, True),
        (tokens_to_trim, 600, False),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_no_step_changes_many_rows(
    resting: Stepped, monkeypatch: pytest.MonkeyPatch, begin: Begin, rows_max: int, streams: bool
) -> None:
    view = "NEW_AND_OLD_IMAGES" if streams else None
    resting.run(CreateTable(msgspec.structs.replace(definition(BY_G), stream_view=view)))
    begin(resting)
    changed = rows_changed_by_each_unit(resting, monkeypatch)
    resting.tables.sweep()
    assert max(changed) <= rows_max
    assert sum(changed) >= ITEMS  # all was done, and each step counted


def rows_changed_by_each_unit(engine: Stepped, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    database, changed = engine.tables.database, list[int]()
    original = database.write

    def counted(work: Callable[[Connection], Any]) -> Any:
        def unit(connection: Connection) -> Any:
            before = connection.total_changes()
            result = work(connection)
            changed.append(connection.total_changes() - before)
            return result

        return original(unit)

    monkeypatch.setattr(database, "write", counted)
    return changed
