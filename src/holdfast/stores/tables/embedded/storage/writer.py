"""The writer of one unit of work in the committer's transaction: reads items and applies changes."""

from __future__ import annotations

import apsw
import msgspec

from holdfast.core.errors import NotFound
from holdfast.stores.sqlite import Batch
from holdfast.stores.sqlite.checksums import is_checksum_error
from holdfast.stores.tables.embedded.plan.change import Change, IndexEdit, StoredItem
from holdfast.stores.tables.embedded.storage import codec, counts, statements
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.storage.damage import report_damaged_item
from holdfast.stores.tables.embedded.storage.row_sums import compute_change_sum, compute_sum, is_item_sound
from holdfast.stores.tables.embedded.storage.transaction_state import Tallies, TransactionState
from holdfast.stores.tables.embedded.table import KeyBytes, Table

INSERT, MODIFY, REMOVE = 0, 1, 2


class Writer:
    """A unit of work. `now` is its time, the same for everything it writes."""

    __slots__ = ("_cache", "_shared", "_tallies", "connection", "now")

    def __init__(self, connection: apsw.Connection, batch: Batch, cache: CatalogCache, now: float) -> None:
        self.connection = connection
        self.now = now
        self._cache = cache
        self._tallies: Tallies = {}
        if batch.shared is None:
            batch.shared = shared = TransactionState(connection)
            batch.before_commit(shared.flush)
        self._shared: TransactionState = batch.shared

    @property
    def catalog(self) -> Catalog:
        """Return the tables as they are in this transaction: loaded once, and again after a change."""
        catalog = self._shared.catalog
        if catalog is None:
            self._shared.catalog = catalog = self._cache.get_current(self.connection)
        return catalog

    def invalidate_catalog(self) -> None:
        """Make the transaction load the catalog again at the next access."""
        self._shared.catalog = None

    def get_table(self, name: str) -> Table:
        """Return the table. Raise `NotFound` if it does not exist or is still being restored."""
        table = self.catalog.tables.get(name)
        if table is None or table.record.status == "CREATING":
            raise NotFound("Requested resource not found")
        return table

    def read(self, table: Table, key_bytes: KeyBytes) -> StoredItem | None:
        """Return the item with this key as it is in this transaction, or None.

        Raise `DataDamaged` if it is damaged, or on a damaged page.
        """
        sql = statements.get_item_statements(table.number).read
        try:
            row = self.connection.execute(sql, key_bytes).fetchone()
        except (apsw.IOError, UnicodeDecodeError) as error:
            if isinstance(error, apsw.IOError) and not is_checksum_error(error):
                raise
            raise report_damaged_item(table, key_bytes) from error
        if row is None:
            return None
        row_id, stored, size, row_sum = row
        if not is_item_sound(key_bytes, size, stored, row_sum):
            raise report_damaged_item(table, key_bytes)
        return StoredItem(row_id, codec.decode(stored), size)

    def apply(self, change: Change) -> None:
        """Write a change: the item, its index rows, the counts and the log."""
        blob = None if change.new is None else codec.encode(change.new)
        row = self._apply_item(change, blob)
        for edit in change.edits:
            self._apply_edit(edit, change, row)
        if change.is_logged:
            self._log(change, blob)

    def _apply_item(self, change: Change, blob: bytes | None) -> int:
        """Insert, update or delete the item's row and return its id."""
        table, old, new = change.table, change.old, change.new
        sql = statements.get_item_statements(table.number)
        if new is None:
            assert old is not None
            self.connection.execute(sql.delete, (old.id,))
            self.tally(table.number, 0, -1, -old.size)
            return old.id
        assert blob is not None
        expires, size = table.get_end_of_life(new), change.new_size
        row_sum = compute_sum(change.key_bytes, size, blob)
        if old is not None:
            self.connection.execute(sql.update, (size, expires, blob, row_sum, old.id))
            self.tally(table.number, 0, 0, size - old.size)
            return old.id
        self.connection.execute(sql.insert, (*change.key_bytes, size, expires, blob, row_sum))
        self.tally(table.number, 0, 1, size)
        return self.connection.last_insert_rowid()

    def _apply_edit(self, edit: IndexEdit, change: Change, row: int) -> None:
        """Update the item's row in one index. `row` is the id of the item's row."""
        number, slot = change.table.number, edit.index.slot
        sql = statements.get_index_statements(number, slot)
        if (
            edit.index.record.backfilling
            and edit.old is not None
            and not self._has_index_row(sql, edit.old, change)
        ):
            # The backfill has not reached this item yet: the index neither holds nor counts it.
            edit = msgspec.structs.replace(edit, old=None, old_size=0)
        whole = edit.index.projected is None
        if edit.old is not None and edit.old != edit.new:
            self.connection.execute(sql.delete, edit.old + change.key_bytes)
        if edit.new is not None and (edit.old != edit.new or (not whole and edit.old_size != edit.new_size)):
            size = None if whole else edit.new_size
            self.connection.execute(sql.put, (*edit.new, *change.key_bytes, row, size))
        items = (edit.new is not None) - (edit.old is not None)
        self.tally(number, slot, items, edit.new_size - edit.old_size)

    def _has_index_row(self, sql: statements.IndexStatements, key_bytes: KeyBytes, change: Change) -> bool:
        """Return whether the index holds the item under this key."""
        return self.connection.execute(sql.has, key_bytes + change.key_bytes).fetchone() is not None

    def _log(self, change: Change, blob: bytes | None) -> None:
        """Add the change to the log. The key is stored only if no stored image contains it."""
        table, old, new = change.table, change.old, change.new
        before = codec.encode(old.item) if table.logs_old and old else None
        after = blob if table.logs_new else None
        key = None
        if before is None and after is None:
            key = codec.encode(table.extract_key(new if new is not None else old.item))  # type: ignore[union-attr]
        self.connection.execute(
            statements.get_item_statements(table.number).log,
            (
                self._shared.allocate_sequence(table.number),
                int(self.now * 1000),
                INSERT if old is None else REMOVE if new is None else MODIFY,
                change.by_service,
                *change.key_bytes,
                key,
                before,
                after,
                compute_change_sum(key, before, after),
            ),
        )

    def tally(self, number: int, slot: int, items: int, size: int) -> None:
        """Count items and bytes that this unit adds to a table or index."""
        if not items and not size:
            return
        tally = self._tallies.get((number, slot))
        if tally is None:
            self._tallies[number, slot] = [items, size]
        else:
            tally[0] += items
            tally[1] += size

    def read_counts(self, number: int) -> dict[int, tuple[int, int]]:
        """Return items and bytes by slot, including the changes of this transaction and this unit."""
        return {
            slot: self._add_tallies(number, slot, *stored)
            for slot, stored in counts.read_counts(self.connection, number).items()
        }

    def _add_tallies(self, number: int, slot: int, items: int, size: int) -> tuple[int, int]:
        """Return the counts plus what this transaction and this unit have added."""
        for tallies in (self._shared.tallies, self._tallies):
            more = tallies.get((number, slot), (0, 0))
            items, size = items + more[0], size + more[1]
        return items, size

    def get_last_sequence(self, number: int) -> int:
        """Return the last sequence number used in a table's change log, including this transaction."""
        return self._shared.get_last_sequence(number)

    def finish(self) -> None:
        """Add the unit's counts to the transaction. Call it after the last change of the unit."""
        self._shared.add_tallies(self._tallies)
        self._tallies = {}
