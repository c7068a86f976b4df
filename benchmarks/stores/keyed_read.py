"""Benchmark: keyed reads per second in process, compared with a raw SQLite select and JSON decode.

A read decodes an item of 1 KB to plain Python values.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from benchmarks.harness.measurement import Figure, compare, measure_rate
from benchmarks.stores import items
from benchmarks.stores.batch_import import load_items
from benchmarks.stores.sqlite_floor import SqliteFloor
from holdfast.operations.tables import GetItem
from holdfast.stores.tables.embedded import open_tables

ITEMS = 10_000
READS = 5_000
STEP = 7919  # coprime with the number of items: the reads cover all of them


def run(folder: Path) -> Figure:
    floor = SqliteFloor(folder / "floor.db")
    floor.insert(items.build_item(number) for number in range(ITEMS))
    keys = itertools.cycle(items.build_item(number * STEP % ITEMS) for number in range(ITEMS))
    with open_tables(folder / "tables.db") as tables:
        load_items(tables, ITEMS)

        def ours() -> object:
            item = next(keys)
            return tables.run_blocking(GetItem(items.TABLE, {"pk": item["pk"], "sk": item["sk"]})).item

        def by_hand() -> object:
            item = next(keys)
            return floor.get(item["pk"].encode(), item["sk"].encode())  # type: ignore[union-attr]

        figure = compare(
            "keyed read", lambda: measure_rate(ours, READS), lambda: measure_rate(by_hand, READS), 0.40
        )
    floor.close()
    return figure
