"""Benchmark: queries of 50 items per second in process, compared with a raw SQLite select and decode."""

from __future__ import annotations

import itertools
from pathlib import Path

from benchmarks.harness.measurement import Figure, compare, measure_rate
from benchmarks.stores import items
from benchmarks.stores.batch_import import load_items
from benchmarks.stores.sqlite_floor import SqliteFloor
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import Query
from holdfast.stores.tables.embedded import open_tables

ITEMS = 10_000
QUERIES = 300


def run(folder: Path) -> Figure:
    floor = SqliteFloor(folder / "floor.db")
    floor.insert(items.build_item(number) for number in range(ITEMS))
    partitions = itertools.cycle(
        str(items.build_item(number)["pk"]) for number in range(0, ITEMS, items.ITEMS_PER_PARTITION)
    )
    with open_tables(folder / "tables.db") as tables:
        load_items(tables, ITEMS)

        def ours() -> object:
            page = tables.run_blocking(Query(items.TABLE, (KeyTest("pk", "=", (next(partitions),)),)))
            assert page.count == items.ITEMS_PER_PARTITION
            return page.items

        def by_hand() -> object:
            return floor.query(next(partitions).encode())

        figure = compare(
            "query of 50 items",
            lambda: measure_rate(ours, QUERIES),
            lambda: measure_rate(by_hand, QUERIES),
            0.50,
        )
    floor.close()
    return figure
