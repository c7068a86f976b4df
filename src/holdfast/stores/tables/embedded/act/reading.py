"""What a read needs: a connection, the tables as this connection sees them, and the time."""

from __future__ import annotations

import apsw

from holdfast.errors import NotFound
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.table import Table


class Reading:
    __slots__ = ("cache", "connection", "now")

    def __init__(self, connection: apsw.Connection, cache: CatalogCache, now: float) -> None:
        self.connection = connection
        self.cache = cache
        self.now = now

    @property
    def catalog(self) -> Catalog:
        return self.cache.current(self.connection)

    def table(self, name: str) -> Table:
        return readable(self.catalog, name)


def readable(catalog: Catalog, name: str) -> Table:
    """The table, if its items can be read."""
    table = catalog.tables.get(name)
    if table is None or table.record.status == "CREATING":
        raise NotFound("Requested resource not found")
    return table
