"""The reader of one read operation: its connection, the catalog as that connection sees it, and the time."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.core.clock import Clock
from holdfast.core.errors import NotFound
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import statements, walk
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache, read_generation
from holdfast.stores.tables.embedded.table import KeyBytes, Table


class Reader:
    """The access of one read operation to the storage."""

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
        """Return the catalog as this connection sees it; checks its generation on every access."""
        return self.cache.get_current(self.connection)

    def get_table(self, name: str) -> Table:
        """Return the table. Raise `NotFound` if it does not exist or is still being restored."""
        return require_readable(self.catalog, name)

    def select_rows(self, span: Span, limit: int | None) -> Iterator[walk.SpanRow]:
        """Iterate over the rows of a span, in its order."""
        return walk.select_rows(self.connection, span, limit)


def require_readable(catalog: Catalog, name: str) -> Table:
    """Return the table. Raise `NotFound` if it does not exist or is still being restored."""
    table = catalog.tables.get(name)
    if table is None or table.record.status == "CREATING":
        raise NotFound("Requested resource not found")
    return table


def read_item(
    connection: apsw.Connection, table: Table, key_bytes: KeyBytes
) -> tuple[int, bytes | None, int]:
    """Return the catalog's generation, the stored item (None if there is none) and its size."""
    row = connection.execute(statements.get_item_statements(table.number).get, key_bytes).fetchone()
    return (read_generation(connection), None, 0) if row is None else row
