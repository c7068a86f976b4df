"""Reads of the embedded engine: in which thread they run, and of tables that another process drops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import NotFound
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import AttributeExists
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import (
    BatchGetItem,
    CreateTable,
    DeleteTable,
    GetItem,
    GetRecords,
    KeysAndAttributes,
    Operation,
    PutItem,
    Query,
    Scan,
    ShardIterator,
    StreamName,
    TransactGet,
    TransactGetItems,
)
from holdfast.stores.tables.embedded import EmbeddedTables, engine, open_tables
from holdfast.stores.tables.embedded.jobs.worker import Worker

from .stepped_engine import definition

OF_A = (KeyTest("pk", "=", ("a",)),)
ANYWHERE = ShardIterator(StreamName("tab", "label"), "shard", 1, 0.0)


async def find_thread(monkeypatch: pytest.MonkeyPatch, operation: Operation[Any]) -> str:
    """Run the operation from an event loop and return which thread handled it."""
    monkeypatch.setitem(engine.READ_HANDLERS, type(operation), lambda *_: threading.get_ident())

    with open_tables() as tables:
        ran_in: Any = await tables.run(operation)
    return "the loop's thread" if ran_in == threading.get_ident() else "another thread"


@pytest.mark.parametrize(
    "operation",
    [
        Scan("tab"),
        Scan("tab", limit=1),
        Query("tab", OF_A),
        Query("tab", OF_A, limit=1000),
        Query("tab", OF_A, limit=1, filter=AttributeExists(AttributePath("v"))),
        BatchGetItem((KeysAndAttributes("tab", ({"pk": "a"},)),)),
        TransactGetItems((TransactGet("tab", {"pk": "a"}),)),
        GetRecords(ANYWHERE),
    ],
    ids=lambda operation: type(operation).__name__,
)
async def test_long_read_runs_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, operation: Operation[Any]
) -> None:
    assert await find_thread(monkeypatch, operation) == "another thread"


@pytest.mark.parametrize(
    "operation",
    [GetItem("tab", {"pk": "a"}), Query("tab", OF_A, limit=1)],
    ids=lambda operation: type(operation).__name__,
)
async def test_short_read_runs_in_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, operation: Operation[Any]
) -> None:
    assert await find_thread(monkeypatch, operation) == "the loop's thread"


@pytest.fixture
def two_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[EmbeddedTables, EmbeddedTables]]:
    """Return two engines on one file, as in two processes; the second has already read the table."""
    monkeypatch.setattr(Worker, "start", lambda self: None)
    with open_tables(tmp_path / "t.db") as ours, open_tables(tmp_path / "t.db") as theirs:
        ours.run_blocking(CreateTable(definition()))
        ours.run_blocking(PutItem("tab", {"pk": "a", "v": 1}))
        assert theirs.run_blocking(GetItem("tab", {"pk": "a"})).item == {"pk": "a", "v": 1}
        yield ours, theirs


READS: list[Operation[Any]] = [
    GetItem("tab", {"pk": "a"}),
    Scan("tab"),
    Query("tab", OF_A),
    BatchGetItem((KeysAndAttributes("tab", ({"pk": "a"},)),)),
]


def drop(tables: EmbeddedTables) -> None:
    """Drop the table and its rows."""
    tables.run_blocking(DeleteTable("tab"))
    tables.sweep()


@pytest.mark.parametrize("operation", READS, ids=lambda operation: type(operation).__name__)
def test_a_table_that_another_process_dropped_is_not_found(
    two_engines: tuple[EmbeddedTables, EmbeddedTables], operation: Operation[Any]
) -> None:
    ours, theirs = two_engines
    drop(ours)
    with pytest.raises(NotFound):
        theirs.run_blocking(operation)


def test_table_recreated_by_another_process_is_read_afresh(
    two_engines: tuple[EmbeddedTables, EmbeddedTables],
) -> None:
    ours, theirs = two_engines
    drop(ours)
    ours.run_blocking(CreateTable(definition()))
    ours.run_blocking(PutItem("tab", {"pk": "a", "v": 2}))
    assert theirs.run_blocking(GetItem("tab", {"pk": "a"})).item == {"pk": "a", "v": 2}
