"""A keyed read in process, a 1 KB item to plain Python values, beside a raw select and JSON decode."""

from __future__ import annotations

import itertools
from pathlib import Path

from benchmarks import sample
from benchmarks.batch_import import load
from benchmarks.floor import Floor
from benchmarks.measure import Figure, compared, rate
from holdfast.operations.tables import GetItem
from holdfast.stores.tables.embedded import open_tables

ITEMS = 10_000
READS = 5_000
STEP = 7919  # prime to the number of items: the reads wander over all of them


def run(folder: Path) -> Figure:
    floor = Floor(folder / "floor.db")
    floor.insert(sample.item(number) for number in range(ITEMS))
    keys = itertools.cycle(sample.item(number * STEP % ITEMS) for number in range(ITEMS))
    with open_tables(folder / "tables.db") as tables:
        load(tables, ITEMS)

        def ours() -> object:
            item = next(keys)
            return tables.run_blocking(GetItem(sample.TABLE, {"pk": item["pk"], "sk": item["sk"]})).item

        def theirs() -> object:
            item = next(keys)
            return floor.get(item["pk"].encode(), item["sk"].encode())  # type: ignore[union-attr]

        figure = compared("keyed read", lambda: rate(ours, READS), lambda: rate(theirs, READS), 0.40)
    floor.close()
    return figure
