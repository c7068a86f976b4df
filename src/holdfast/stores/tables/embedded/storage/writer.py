"""One unit of work inside the committer's transaction: items read and changes applied.

Counts and log numbers are kept in memory while the unit runs and written once at its end (`finish`), so that
a batch of 25 puts touches the counter row once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import apsw
import msgspec

from holdfast.errors import NotFound
from holdfast.stores.tables.embedded.plan.change import Change, IndexEdit, Stored
from holdfast.stores.tables.embedded.storage import codec, statements
from holdfast.stores.tables.embedded.storage.catalog import Catalog, CatalogCache
from holdfast.stores.tables.embedded.table import Place, Table

INSERT, MODIFY, REMOVE = 0, 1, 2

_TALLY: Final = "UPDATE counts SET items = items + ?, bytes = bytes + ? WHERE number = ? AND slot = ?"


class Writer:
    """`now` is the moment of the unit, the same for all it writes; `after_commit` is for what may follow."""

    def __init__(
        self,
        connection: apsw.Connection,
        cache: CatalogCache,
        now: float,
        after_commit: Callable[[Callable[[], None]], None],
    ) -> None:
        self.connection = connection
        self.now = now
        self.after_commit = after_commit
        self._cache = cache
        self._tallies: dict[tuple[int, int], list[int]] = {}
        self._sequences: dict[int, int] = {}

    @property
    def catalog(self) -> Catalog:
        return self._cache.current(self.connection)

    def table(self, name: str) -> Table:
        """The table, if items can be written to it."""
        table = self.catalog.tables.get(name)
        if table is None or table.record.status == "CREATING":
            raise NotFound("Requested resource not found")
        return table

    def read(self, table: Table, place: Place) -> Stored | None:
        row = self.connection.execute(statements.of_items(table.number).read, place).fetchone()
        return None if row is None else Stored(row[0], codec.decode(row[1]), row[2])

    def apply(self, change: Change) -> None:
        row = self._apply_item(change)
        for edit in change.edits:
            self._apply_edit(edit, change, row)
        if change.logged:
            self._log(change)

    def _apply_item(self, change: Change) -> int:
        table, old, new = change.table, change.old, change.new
        sql = statements.of_items(table.number)
        if new is None:
            assert old is not None
            self.connection.execute(sql.delete, (old.id,))
            self.tally(table.number, 0, -1, -old.size)
            return old.id
        expires = table.end_of_life(new)
        blob = codec.encode(new)
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
            # The backfill has not come to this item yet: the index neither holds nor counts it.
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

    def _log(self, change: Change) -> None:
        table, old, new = change.table, change.old, change.new
        event = INSERT if old is None else REMOVE if new is None else MODIFY
        shown = new if new is not None else old.item  # type: ignore[union-attr]
        seq = self._next_sequence(table.number)
        self.connection.execute(
            statements.of_items(table.number).log,
            (
                seq,
                int(self.now * 1000),
                event,
                change.by_service,
                *change.place,
                (old.size if old else 0) + change.new_size,
                codec.encode(table.key_of(shown)),
                codec.encode(old.item) if table.logs_old and old else None,
                codec.encode(new) if table.logs_new and new is not None else None,
            ),
        )

    def _next_sequence(self, number: int) -> int:
        seq = self._sequences.get(number)
        if seq is None:
            seq = self.connection.execute(
                "SELECT seq FROM counts WHERE number = ? AND slot = 0", (number,)
            ).get
        self._sequences[number] = seq = seq + 1
        return seq

    def tally(self, number: int, slot: int, items: int, size: int) -> None:
        if not items and not size:
            return
        tally = self._tallies.get((number, slot))
        if tally is None:
            self._tallies[number, slot] = [items, size]
        else:
            tally[0] += items
            tally[1] += size

    def finish(self) -> None:
        """Write down what was counted. Called once, after the last change of the unit."""
        for (number, slot), (items, size) in self._tallies.items():
            self.connection.execute(_TALLY, (items, size, number, slot))
        for number, seq in self._sequences.items():
            self.connection.execute("UPDATE counts SET seq = ? WHERE number = ? AND slot = 0", (seq, number))
