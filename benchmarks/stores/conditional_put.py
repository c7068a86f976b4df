"""Benchmark: conditional puts per second by 32 writers, compared with raw SQLite transactions.

Each put is fsynced and writes a global index and a change log.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness.measurement import Figure, compare
from benchmarks.stores import items
from benchmarks.stores.sqlite_floor import SqliteFloor
from benchmarks.stores.sync_counter import count_syncs
from holdfast.operations.expressions.nodes import AttributeNotExists
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import CreateTable, PutItem
from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

WRITERS = 32
WRITES = 3_200
MIN_WRITES_PER_SYNC = 10
ITEM_IS_ABSENT = AttributeNotExists(AttributePath("pk"))

Round = Callable[[EmbeddedTables, Iterator[int]], None]


def run_tasks(folder: Path) -> list[Figure]:
    """Measure with 32 asyncio tasks: puts per second, and acknowledged writes per fsync."""
    return [
        _compare(folder, "conditional put, 32 tasks", _write_by_tasks, 0.40),
        _measure_fsync_sharing(folder),
    ]


def run_threads(folder: Path) -> Figure:
    """Measure with 32 threads, without a target.

    Each write wakes a thread, which the floor's single thread never does.
    """
    return _compare(folder, "conditional put, 32 threads", _write_by_threads, None)


def _compare(folder: Path, name: str, work: Round, must_reach: float | None) -> Figure:
    """Compare rounds of `work`, which writes through the engine, with raw transactions of 32 rows each."""
    floor = SqliteFloor(folder / "floor.db")
    numbers, floor_numbers = itertools.count(), itertools.count()
    with open_tables(folder / "tables.db") as tables:
        tables.run_blocking(CreateTable(items.build_definition(with_index=True, with_stream=True)))

        def ours() -> float:
            started = time.perf_counter()
            work(tables, numbers)
            return WRITES / (time.perf_counter() - started)

        def by_hand() -> float:
            started = time.perf_counter()
            for _ in range(WRITES // WRITERS):
                floor.insert_with_index_and_log(
                    items.build_item(number) for number in itertools.islice(floor_numbers, WRITERS)
                )
            return WRITES / (time.perf_counter() - started)

        figure = compare(name, ours, by_hand, must_reach)
    floor.close()
    return figure


def _measure_fsync_sharing(folder: Path) -> Figure:
    """Return how many acknowledged writes share one fsync, next to the required ten."""
    writes = 1 / _count_syncs_per_write(folder, _write_by_tasks)
    ratio = writes / MIN_WRITES_PER_SYNC
    return Figure("writes per fsync, 32 tasks", writes, MIN_WRITES_PER_SYNC, ratio, ratio, ratio, 1.0)


def _build_put(number: int) -> PutItem:
    """Return a put of the item with this number, on the condition that it does not exist."""
    return PutItem(items.TABLE, items.build_item(number), ITEM_IS_ABSENT)


def _write_by_tasks(tables: EmbeddedTables, numbers: Iterator[int]) -> None:
    """Put all items of a round with 32 asyncio tasks."""

    async def writer() -> None:
        for _ in range(WRITES // WRITERS):
            await tables.run(_build_put(next(numbers)))

    async def all_writers() -> None:
        await asyncio.gather(*(writer() for _ in range(WRITERS)))

    asyncio.run(all_writers())


def _write_by_threads(tables: EmbeddedTables, numbers: Iterator[int]) -> None:
    """Put all items of a round with 32 threads."""

    def writer() -> None:
        for _ in range(WRITES // WRITERS):
            tables.run_blocking(_build_put(next(numbers)))

    threads = [threading.Thread(target=writer) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _count_syncs_per_write(folder: Path, work: Round) -> float:
    """Return fsyncs per write, counted outside of the timed rounds, because counting costs time."""
    with (
        count_syncs() as syncs,
        open_tables(folder / "counted.db", tuning=Tuning(vfs=syncs.vfs)) as tables,
    ):
        tables.run_blocking(CreateTable(items.build_definition(with_index=True, with_stream=True)))
        before = syncs.count
        work(tables, itertools.count())
        return (syncs.count - before) / WRITES
