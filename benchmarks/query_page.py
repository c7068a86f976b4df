"""A Query of 50 items in process, to plain Python values, beside the raw select and decode."""

from __future__ import annotations

import itertools
from pathlib import Path

from benchmarks import sample
from benchmarks.batch_import import load
from benchmarks.floor import Floor
from benchmarks.measure import Figure, compared, rate
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import Query
from holdfast.stores.tables.embedded import open_tables

ITEMS = 10_000
QUERIES = 300


def run(folder: Path) -> Figure:
    floor = Floor(folder / "floor.db")
    floor.insert(sample.item(number) for number in range(ITEMS))
    partitions = itertools.cycle(
        str(sample.item(number)["pk"]) for number in range(0, ITEMS, sample.ITEMS_PER_PARTITION)
    )
    with open_tables(folder / "tables.db") as tables:
        load(tables, ITEMS)

        def ours() -> object:
            page = tables.run_blocking(Query(sample.TABLE, (KeyTest("pk", "=", (next(partitions),)),)))
            assert page.count == sample.ITEMS_PER_PARTITION
            return page.items

        def theirs() -> object:
            return floor.query(next(partitions).encode())

        figure = compared(
            "query of 50 items", lambda: rate(ours, QUERIES), lambda: rate(theirs, QUERIES), 0.50
        )
    floor.close()
    return figure
