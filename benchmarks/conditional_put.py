"""Conditional puts by 32 concurrent writers, fsynced, with a GSI and a log, beside raw transactions of 32."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import sample
from benchmarks.floor import Floor
from benchmarks.measure import Figure, compared
from benchmarks.syncs import counted_syncs
from holdfast.operations.expressions.nodes import AttributeNotExists
from holdfast.operations.expressions.nodes import Path as AttributePath
from holdfast.operations.tables import CreateTable, PutItem
from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

WRITERS = 32
WRITES = 3_200
WRITES_PER_SYNC_MIN = 10
ABSENT = AttributeNotExists(AttributePath("pk"))

Round = Callable[[EmbeddedTables, Iterator[int]], None]


def run_tasks(folder: Path) -> list[Figure]:
    return [_run(folder, "conditional put, 32 tasks", _by_tasks, 0.40), _sharing(folder)]


def run_threads(folder: Path) -> Figure:
    """Told beside it: each write costs a thread's sleep and waking, which the floor's single thread never pays."""
    return _run(folder, "conditional put, 32 threads", _by_threads, None)


def _run(folder: Path, name: str, work: Round, must_reach: float | None) -> Figure:
    floor = Floor(folder / "floor.db")
    numbers, theirs_numbers = itertools.count(), itertools.count()
    with open_tables(folder / "tables.db") as tables:
        tables.run_blocking(CreateTable(sample.definition(with_index=True, with_stream=True)))

        def ours() -> float:
            begun = time.perf_counter()
            work(tables, numbers)
            return WRITES / (time.perf_counter() - begun)

        def theirs() -> float:
            begun = time.perf_counter()
            for _ in range(WRITES // WRITERS):
                floor.insert_with_index_and_log(
                    sample.item(number) for number in itertools.islice(theirs_numbers, WRITERS)
                )
            return WRITES / (time.perf_counter() - begun)

        figure = compared(name, ours, theirs, must_reach)
    floor.close()
    return figure


def _sharing(folder: Path) -> Figure:
    """How many acknowledged writes share one fsync, beside the ten that must."""
    writes = 1 / _syncs_per_write(folder, _by_tasks)
    ratio = writes / WRITES_PER_SYNC_MIN
    return Figure("writes per fsync, 32 tasks", writes, WRITES_PER_SYNC_MIN, ratio, ratio, ratio, 1.0)


def _put(number: int) -> PutItem:
    return PutItem(sample.TABLE, sample.item(number), ABSENT)


def _by_tasks(tables: EmbeddedTables, numbers: Iterator[int]) -> None:
    async def writer() -> None:
        for _ in range(WRITES // WRITERS):
            await tables.run(_put(next(numbers)))

    async def all_writers() -> None:
        await asyncio.gather(*(writer() for _ in range(WRITERS)))

    asyncio.run(all_writers())


def _by_threads(tables: EmbeddedTables, numbers: Iterator[int]) -> None:
    def writer() -> None:
        for _ in range(WRITES // WRITERS):
            tables.run_blocking(_put(next(numbers)))

    threads = [threading.Thread(target=writer) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _syncs_per_write(folder: Path, work: Round) -> float:
    """Counted apart from the timed rounds, because counting costs time."""
    with (
        counted_syncs() as syncs,
        open_tables(folder / "counted.db", tuning=Tuning(vfs=syncs.vfs)) as tables,
    ):
        tables.run_blocking(CreateTable(sample.definition(with_index=True, with_stream=True)))
        before = syncs.count
        work(tables, itertools.count())
        return (syncs.count - before) / WRITES
