"""Count the partition keys of global indexes in the data that patterns are measured on."""

from __future__ import annotations

from typing import Final

from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations import tables as requests
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.values import Item
from holdfast.reports.measurement.pattern_measures import Target
from holdfast.runtime import Stores

# From so many items per key on, the sample is taken to have every key there is.
MIN_ITEMS_PER_KEY: Final = 2


async def count_index_keys(stores: Stores, system: System) -> dict[Target, int]:
    """Count the partition keys of each global index that has at least two items per key on average.

    If nearly every item has its own key, the count only reflects the size of the sample, so it is left out.
    """
    found = {}
    for table in system.tables:
        items = await _read_index_keys(stores, table)
        for index in table.global_indexes:
            values = [item[index.partition] for item in items if index.partition in item]
            if len(values) >= MIN_ITEMS_PER_KEY * len(set(values)) > 0:
                found[Target(table.name, index.name)] = len(set(values))
    return found


async def _read_index_keys(stores: Stores, table: Table) -> list[Item]:
    """Scan a whole table and return, for each item, the partition keys of its global indexes."""
    names = dict.fromkeys(index.partition for index in table.global_indexes)
    if not names:
        return []
    found: list[Item] = []
    after = None
    while True:
        page = await stores.tables.run(
            requests.Scan(stores.physical_name(table), projection=tuple(map(Path, names)), start_key=after)
        )
        found += page.items or []
        after = page.last_key
        if after is None:
            return found
