"""The context of a read: a connection, the tables as this connection sees them, and the time."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.core.clock import Clock
from holdfast.core.errors import NotFound
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import statements, walk
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache, generation_of
from holdfast.stores.tables.embedded.table import Place, Table


class Reading:
    __slots__ = ("_clock", "cache", "connection")

    def __init__(self, connection: apsw.Connection, cache: CatalogCache, clock: Clock) -> None:
        self.connection = connection
        self.cache = cache
        self._clock = clock

    @property
    def now(self) -> float:
        return self._clock.now()

    @property
    def catalog(self) -> Catalog:
        return self.cache.current(self.connection)

    def table(self, name: str) -> Table:
        return readable(self.catalog, name)

    def rows(self, span: Span, limit: int | None) -> Iterator[walk.Row]:
        return walk.rows(self.connection, span, limit)


def readable(catalog: Catalog, name: str) -> Table:
    """Return the table. Raise if its items are not readable."""
    table = catalog.tables.get(name)
    if table is None or table.record.status == "CREATING":
        raise NotFound("Requested resource not found")
    return table


def keyed(connection: apsw.Connection, table: Table, place: Place) -> tuple[int, bytes | None, int]:
    """Return the catalog's generation, the stored item (None if there is none) and its size."""
    row = connection.execute(statements.of_items(table.number).get, place).fetchone()
    return (generation_of(connection), None, 0) if row is None else row
