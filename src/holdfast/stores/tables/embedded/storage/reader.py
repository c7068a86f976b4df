"""The reader of one read operation: its connection, the catalog as it sees it, and the time.

A verifying connection compares the checksums of pages: what it returns is right, and what it does not find is
not there. An unverified one does not, which saves a tenth of a keyed read: each item that it returns is
compared with the checksum of its row, and an item that it does not find is looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import apsw
from isal.isal_zlib import crc32

from holdfast.core.clock import Clock
from holdfast.core.errors import NotFound
from holdfast.operations.values import Item
from holdfast.stores.sqlite import Database
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import codec, statements, walk
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.storage.damage import damage_reported, report_damaged_item
from holdfast.stores.tables.embedded.storage.row_sums import is_item_sound
from holdfast.stores.tables.embedded.table import KeyBytes, Table


class Reader:
    """The access of one read operation to the storage."""

    __slots__ = ("_clock", "_database", "cache", "connection")

    def __init__(
        self, connection: apsw.Connection, cache: CatalogCache, clock: Clock, database: Database
    ) -> None:
        self.connection = connection
        self.cache = cache
        self._clock, self._database = clock, database

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

    def select_rows(self, span: Span, limit: int | None) -> Iterator[walk.Rows]:
        """Iterate over the rows of a span, in its order. The snapshot has begun with its first statement."""
        trusts_pages = self._database.has_only_verified_pages(self.connection)
        return walk.select_rows(self.connection, span, limit, trusts_pages=trusts_pages)


class KeyedReader(Reader):
    """A reader of single items by their keys. It reads unverified pages, and compares the sum of each row."""

    __slots__ = ("unverified",)

    def __init__(
        self, unverified: apsw.Connection, cache: CatalogCache, clock: Clock, database: Database
    ) -> None:
        self.unverified, self._database = unverified, database
        self.cache = cache
        self._clock = clock

    @property
    def connection(self) -> apsw.Connection:  # type: ignore[override]
        """Return the connection with verified pages, for the catalog, and for items that were not found."""
        # Without checksums there is no such difference, and memory has a single connection, which is locked.
        if not self._database.has_checksums:
            return self.unverified
        return cast(apsw.Connection, self._database.reader())

    def read_item(self, table: Table, key_bytes: KeyBytes) -> tuple[int, Item | None, int]:
        """Return the catalog's generation, the item (None if there is none) and its size.

        Raise `DataDamaged` if the item is damaged, or if damage hides whether there is one.
        """
        sql = statements.get_item_statements(table.number)
        try:
            row = self.unverified.execute(sql.get, key_bytes).fetchone()
            if row is None:
                return self._confirm_absence(table, key_bytes)
            generation, stored, size, row_sum = row
            is_right = crc32(stored, crc32(key_bytes[0] + key_bytes[1], size)) == row_sum
        except (apsw.CorruptError, TypeError, UnicodeDecodeError) as error:
            raise report_damaged_item(table, key_bytes) from error
        if not is_right:
            raise report_damaged_item(table, key_bytes)
        return generation, codec.decode(stored), size

    def _confirm_absence(self, table: Table, key_bytes: KeyBytes) -> tuple[int, Item | None, int]:
        """Look an item up again that was not found, with verified pages; it may be there now."""
        sql = statements.get_item_statements(table.number)
        self._database.require_whole_pages()
        with damage_reported(table, key_bytes):
            found: Any = self.connection.execute(sql.exists, key_bytes).fetchone()
        generation, exists = found
        return (generation, *(read_item_in_snapshot(self, table, key_bytes) if exists else (None, 0)))


class SalvageReader(Reader):
    """A reader of a file with damaged pages: it reads each row of a span alone, and fails only at its own."""

    __slots__ = ("_unverified",)

    def __init__(
        self,
        connection: apsw.Connection,
        unverified: apsw.Connection,
        cache: CatalogCache,
        clock: Clock,
        database: Database,
    ) -> None:
        super().__init__(connection, cache, clock, database)
        self._unverified = unverified

    def select_rows(self, span: Span, limit: int | None) -> Iterator[walk.Rows]:
        return walk.select_rows_alone(self.connection, self._unverified, span)


def require_readable(catalog: Catalog, name: str) -> Table:
    """Return the table. Raise `NotFound` if it does not exist or is still being restored."""
    table = catalog.tables.get(name)
    if table is None or table.record.status == "CREATING":
        raise NotFound("Requested resource not found")
    return table


def read_item_in_snapshot(reader: Reader, table: Table, key_bytes: KeyBytes) -> tuple[Item | None, int]:
    """Return the item (None if there is none) and its size, as the reader's verifying connection sees it."""
    with damage_reported(table, key_bytes):
        row = reader.connection.execute(
            statements.get_item_statements(table.number).get, key_bytes
        ).fetchone()
    if row is None:
        return None, 0
    _, stored, size, row_sum = row
    if not is_item_sound(key_bytes, size, stored, row_sum):
        raise report_damaged_item(table, key_bytes)
    return codec.decode(stored), size
