"""Benchmark: items imported per second by BatchWriteItem in process, compared with raw inserts.

The raw inserts use one transaction per batch.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from benchmarks.harness.measurement import Figure, compare
from benchmarks.stores import items
from benchmarks.stores.sqlite_floor import SqliteFloor
from holdfast.operations.tables import BatchWriteItem, CreateTable, Put
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

ITEMS = 100_000
BATCH = 25


def load_items(tables: EmbeddedTables, count: int) -> None:
    """Create the benchmark's table and put this many items, in batches."""
    tables.run_blocking(CreateTable(items.build_definition()))
    for start in range(0, count, BATCH):
        put_batch(tables, range(start, min(start + BATCH, count)))


def put_batch(tables: EmbeddedTables, numbers: range) -> None:
    """Put the items with these numbers in one BatchWriteItem."""
    writes = tuple(Put(items.TABLE, items.build_item(number)) for number in numbers)
    tables.run_blocking(BatchWriteItem(writes))


def run(folder: Path) -> Figure:
    """Import 100,000 items in total, in alternating rounds of equal size."""
    each = ITEMS // 8
    floor = SqliteFloor(folder / "floor.db")
    starts = itertools.count(step=each), itertools.count(step=each)
    with open_tables(folder / "tables.db") as tables:
        load_items(tables, 0)

        def ours() -> float:
            first = next(starts[0])
            started = time.perf_counter()
            for start in range(first, first + each, BATCH):
                put_batch(tables, range(start, start + BATCH))
            return each / (time.perf_counter() - started)

        def by_hand() -> float:
            first = next(starts[1])
            started = time.perf_counter()
            for start in range(first, first + each, BATCH):
                floor.insert(items.build_item(number) for number in range(start, start + BATCH))
            return each / (time.perf_counter() - started)

        figure = compare("import by BatchWriteItem", ours, by_hand, 0.25)
    floor.close()
    return figure
