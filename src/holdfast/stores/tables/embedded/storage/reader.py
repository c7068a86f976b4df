"""The reader of one read operation: its connections, the catalog as they see it, and the time.

A verifying connection compares the checksums of pages: what it returns is right, and what it does not find is
not there. An unverified one does not, which saves a tenth of a keyed read: each item that it returns is
compared with the checksum of its row, and an item that it does not find is looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import apsw

from holdfast.core.clock import Clock
from holdfast.core.errors import NotFound
from holdfast.operations.values import Item
from holdfast.stores.sqlite import Reader as RowReader
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import codec, statements, walk
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.storage.damage import damage_reported, report_damaged_item
from holdfast.stores.tables.embedded.storage.row_sums import compute_sum
from holdfast.stores.tables.embedded.table import KeyBytes, Table


class Reader:
    """The access of one read operation to the storage."""

    __slots__ = ("_clock", "cache", "connection", "reads_rows_alone", "unverified")

    def __init__(
        self,
        connection: apsw.Connection,
        unverified: RowReader,
        cache: CatalogCache,
        clock: Clock,
        reads_rows_alone: bool = False,
    ) -> None:
        """`reads_rows_alone` is set after a damaged page was found: then only damaged items fail."""
        self.connection, self.unverified = connection, unverified
        self.cache = cache
        self._clock = clock
        self.reads_rows_alone = reads_rows_alone

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
        if self.reads_rows_alone:
            return walk.select_rows_alone(self.connection, self.unverified, span)
        return walk.select_rows(self.connection, span, limit)


def require_readable(catalog: Catalog, name: str) -> Table:
    """Return the table. Raise `NotFound` if it does not exist or is still being restored."""
    table = catalog.tables.get(name)
    if table is None or table.record.status == "CREATING":
        raise NotFound("Requested resource not found")
    return table


def read_item(reader: Reader, table: Table, key_bytes: KeyBytes) -> tuple[int, Item | None, int]:
    """Return the catalog's generation, the item (None if there is none) and its size.

    Raise `DataDamaged` if the item is damaged, or if damage hides whether there is one.
    """
    try:
        row = reader.unverified.execute(
            statements.get_item_statements(table.number).get, key_bytes
        ).fetchone()
        if row is None:
            return _confirm_absence(reader, table, key_bytes)
        generation, stored, size, row_sum = row
        is_right = crc32(stored, crc32(key_bytes[0] + key_bytes[1], size)) == row_sum
    except (apsw.CorruptError, TypeError) as error:
        raise report_damaged_item(table, key_bytes) from error
    if not is_right:
        raise report_damaged_item(table, key_bytes)
    return generation, codec.decode(stored), size


def read_item_in_snapshot(reader: Reader, table: Table, key_bytes: KeyBytes) -> tuple[Item | None, int]:
    """Return the item (None if there is none) and its size, as the reader's verifying connection sees it."""
    with damage_reported(table, key_bytes):
        row = reader.connection.execute(
            statements.get_item_statements(table.number).get, key_bytes
        ).fetchone()
    if row is None:
        return None, 0
    _, stored, size, row_sum = row
    if compute_sum(key_bytes, size, stored) != row_sum:
        raise report_damaged_item(table, key_bytes)
    return codec.decode(stored), size


def _confirm_absence(reader: Reader, table: Table, key_bytes: KeyBytes) -> tuple[int, Item | None, int]:
    """Look an item up that was not found, with verified pages; it may also have been written meanwhile."""
    sql = statements.get_item_statements(table.number)
    with damage_reported(table, key_bytes):
        found: Any = reader.connection.execute(sql.exists, key_bytes).fetchone()
    generation, exists = found
    return (generation, *(read_item_in_snapshot(reader, table, key_bytes) if exists else (None, 0)))
