"""An import by BatchWriteItem in process, beside raw inserts in one transaction per batch."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from benchmarks import sample
from benchmarks.floor import Floor
from benchmarks.measure import Figure, compared
from holdfast.operations.tables import BatchWriteItem, CreateTable, Put
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

ITEMS = 100_000
BATCH = 25


def load(tables: EmbeddedTables, count: int) -> None:
    tables.run_blocking(CreateTable(sample.definition()))
    for start in range(0, count, BATCH):
        put_batch(tables, range(start, min(start + BATCH, count)))


def put_batch(tables: EmbeddedTables, numbers: range) -> None:
    writes = tuple(Put(sample.TABLE, sample.item(number)) for number in numbers)
    tables.run_blocking(BatchWriteItem(writes))


def run(folder: Path) -> Figure:
    """100,000 items in all, in alternating rounds of as many each."""
    each = ITEMS // 8
    floor = Floor(folder / "floor.db")
    starts = itertools.count(step=each), itertools.count(step=each)
    with open_tables(folder / "tables.db") as tables:
        load(tables, 0)

        def ours() -> float:
            first = next(starts[0])
            begun = time.perf_counter()
            for start in range(first, first + each, BATCH):
                put_batch(tables, range(start, start + BATCH))
            return each / (time.perf_counter() - begun)

        def theirs() -> float:
            first = next(starts[1])
            begun = time.perf_counter()
            for start in range(first, first + each, BATCH):
                floor.insert(sample.item(number) for number in range(start, start + BATCH))
            return each / (time.perf_counter() - begun)

        figure = compared("import by BatchWriteItem", ours, theirs, 0.25)
    floor.close()
    return figure
