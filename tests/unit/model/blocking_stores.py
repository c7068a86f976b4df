"""Blocking wrapper of in-memory stores, for the synchronous tests of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast import Page, Stores, System, Table, Write, open_memory_stores
from holdfast.core.clock import Clock
from holdfast.model.entities import PagedRead
from holdfast.model.operations import Operation
from holdfast.operations.tables import GetItem, PutItem
from holdfast.operations.values import Item
from holdfast.runtime import create_tables

R = TypeVar("R")
P = TypeVar("P")


class BlockingStores:
    """Stores whose calls block, with access to items as they are stored."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self.stores.run(operation))

    def all(self, query: PagedRead[Any, P]) -> Page[P]:
        return asyncio.run(self.stores.all(query))

    def each(self, query: PagedRead[Any, P]) -> list[P]:
        """Return all items of the query or scan as a list."""

        async def collect() -> list[P]:
            return [item async for item in self.stores.each(query)]

        return asyncio.run(collect())

    def transact(self, *writes: Write[Any], token: str | None = None) -> None:
        asyncio.run(self.stores.transact(*writes, token=token))

    def get_item(self, table: Table, **key: Any) -> Item | None:
        """Return the item as it is stored."""
        request = GetItem(self.stores.physical_name(table), key, consistent=True)
        return asyncio.run(self.stores.tables.run(request)).item

    def put_item(self, table: Table, item: Item) -> None:
        """Store an item as other code might have stored it."""
        asyncio.run(self.stores.tables.run(PutItem(self.stores.physical_name(table), item)))


@contextmanager
def open_blocking_stores(
    *tables: Table, system: System | None = None, clock: Clock | None = None
) -> Iterator[BlockingStores]:
    """Open in-memory stores with these tables, and close them at the end of the block."""
    stores = open_memory_stores(system, clock=clock)
    try:
        asyncio.run(create_tables(stores, tables))
        yield BlockingStores(stores)
    finally:
        asyncio.run(stores.close())
