"""One unit of work inside the committer's transaction: reads items and applies changes."""

from __future__ import annotations

import apsw
import msgspec

from holdfast.core.errors import NotFound
from holdfast.stores.sqlite import Batch
from holdfast.stores.tables.embedded.plan.change import Change, IndexEdit, Stored
from holdfast.stores.tables.embedded.storage import codec, counts, statements
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.storage.shared import Shared, Tallies
from holdfast.stores.tables.embedded.table import Place, Table

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
            batch.shared = shared = Shared(connection)
            batch.before_commit(shared.write_down)
        self._shared: Shared = batch.shared

    @property
    def catalog(self) -> Catalog:
        """Return the tables as they are in this transaction: loaded once, and again after a change."""
        catalog = self._shared.catalog
        if catalog is None:
            self._shared.catalog = catalog = self._cache.current(self.connection)
        return catalog

    def forget_catalog(self) -> None:
        self._shared.catalog = None

    def table(self, name: str) -> Table:
        """Return the table. Raise if its items are not writable."""
        table = self.catalog.tables.get(name)
        if table is None or table.record.status == "CREATING":
            raise NotFound("Requested resource not found")
        return table

    def read(self, table: Table, place: Place) -> Stored | None:
        row = self.connection.execute(statements.of_items(table.number).read, place).fetchone()
        return None if row is None else Stored(row[0], codec.decode(row[1]), row[2])

    def apply(self, change: Change) -> None:
        blob = None if change.new is None else codec.encode(change.new)
        row = self._apply_item(change, blob)
        for edit in change.edits:
            self._apply_edit(edit, change, row)
        if change.logged:
            self._log(change, blob)

    def _apply_item(self, change: Change, blob: bytes | None) -> int:
        table, old, new = change.table, change.old, change.new
        sql = statements.of_items(table.number)
        if new is None:
            assert old is not None
            self.connection.execute(sql.delete, (old.id,))
            self.tally(table.number, 0, -1, -old.size)
            return old.id
        expires = table.end_of_life(new)
        if old is not None:
            self.connection.execute(sql.update, (change.new_size, expires, blob, old.id))
            self.tally(table.number, 0, 0, change.new_size - old.size)
            return old.id
        self.connection.execute(sql.insert, (*change.place, change.new_size, expires, blob))
        self.tally(table.number, 0, 1, change.new_size)
        return self.connection.last_insert_rowid()

    def _apply_edit(self, edit: IndexEdit, change: Change, row: int) -> None:
        number, slot = change.table.number, edit.index.slot
        sql = statements.of_index(number, slot)
        if edit.index.record.backfilling and edit.old is not None and not self._has(sql, edit.old, change):
            # The backfill has not reached this item yet: the index neither holds nor counts it.
            edit = msgspec.structs.replace(edit, old=None, old_size=0)
        whole = edit.index.projected is None
        if edit.old is not None and edit.old != edit.new:
            self.connection.execute(sql.delete, edit.old + change.place)
        if edit.new is not None and (edit.old != edit.new or (not whole and edit.old_size != edit.new_size)):
            size = None if whole else edit.new_size
            self.connection.execute(sql.put, (*edit.new, *change.place, row, size))
        items = (edit.new is not None) - (edit.old is not None)
        self.tally(number, slot, items, edit.new_size - edit.old_size)

    def _has(self, sql: statements.IndexStatements, place: Place, change: Change) -> bool:
        return self.connection.execute(sql.has, place + change.place).fetchone() is not None

    def _log(self, change: Change, blob: bytes | None) -> None:
        """Add the change to the log. The key is stored only if no stored image contains it."""
        table, old, new = change.table, change.old, change.new
        before = codec.encode(old.item) if table.logs_old and old else None
        after = blob if table.logs_new else None
        key = None
        if before is None and after is None:
            key = codec.encode(table.key_of(new if new is not None else old.item))  # type: ignore[union-attr]
        self.connection.execute(
            statements.of_items(table.number).log,
            (
                self._shared.next_sequence(table.number),
                int(self.now * 1000),
                INSERT if old is None else REMOVE if new is None else MODIFY,
                change.by_service,
                *change.place,
                key,
                before,
                after,
            ),
        )

    def tally(self, number: int, slot: int, items: int, size: int) -> None:
        if not items and not size:
            return
        tally = self._tallies.get((number, slot))
        if tally is None:
            self._tallies[number, slot] = [items, size]
        else:
            tally[0] += items
            tally[1] += size

    def counts(self, number: int) -> dict[int, tuple[int, int]]:
        """Return items and bytes by slot, including the changes of this transaction and this unit so far."""
        return {
            slot: self._with(number, slot, *kept)
            for slot, kept in counts.of_table(self.connection, number).items()
        }

    def _with(self, number: int, slot: int, items: int, size: int) -> tuple[int, int]:
        for tallies in (self._shared.tallies, self._tallies):
            more = tallies.get((number, slot), (0, 0))
            items, size = items + more[0], size + more[1]
        return items, size

    def last_sequence(self, number: int) -> int:
        """Return the last number used in a table's change log, including this transaction."""
        return self._shared.last_sequence(number)

    def finish(self) -> None:
        """Add the unit's counts to the transaction. Called after the last change of the unit."""
        self._shared.add(self._tallies)
        self._tallies = {}
