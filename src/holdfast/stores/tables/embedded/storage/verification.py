"""Verification of the rows of a tables file, for `holdfast doctor --deep` and backups.

Each item is compared with its checksum, each row of an index with its item, and each logged change with its
checksum. Keys come from verified pages; items are read without verifying their page, so that the sound items
of a damaged page are told from the damaged ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import apsw
import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.core.progress import Progress
from holdfast.operations.values import Item
from holdfast.stores.sqlite.checksums import checksums_ignored
from holdfast.stores.sqlite.schema import is_blank
from holdfast.stores.sqlite.verification import damage_caught, open_snapshot, verify_file
from holdfast.stores.tables.embedded.records import BackupRecord
from holdfast.stores.tables.embedded.storage import backups, codec, counts
from holdfast.stores.tables.embedded.storage.catalog import CatalogCache
from holdfast.stores.tables.embedded.storage.row_sums import compute_change_sum, is_item_sound
from holdfast.stores.tables.embedded.storage.schema import SCHEMA
from holdfast.stores.tables.embedded.table import Index, KeyBytes, Table

BATCH_ROWS: Final = 1000
Row = tuple[Any, ...]


def verify_tables(path: str, progress: Progress, *, is_in_use: bool = True) -> list[str]:
    """Return everything that is wrong with a tables file, one line each; nothing for a sound one."""
    return verify_file(path, SCHEMA, _verify_rows, progress, is_in_use=is_in_use)


def count_items(path: str) -> dict[str, int]:
    """Return the number of items of each table and backup in a file that no process uses."""
    with open_snapshot(path, SCHEMA, is_in_use=False) as connection:
        if is_blank(connection):
            return {}
        numbers = {table.name: table.number for table in CatalogCache().load(connection).tables.values()}
        for each in backups.list_all(connection):
            numbers[f"{each.summary.table}/backup/{each.summary.id}"] = each.number
        return {name: _count_rows(connection, number) for name, number in numbers.items()}


def _count_rows(connection: apsw.Connection, number: int) -> int:
    count: int = connection.execute(f"SELECT count(*) FROM items_{number}").get
    return count


def _verify_rows(connection: apsw.Connection, progress: Progress) -> list[str]:
    """Verify the rows of every table, backup and change log."""
    problems: list[str] = []
    # A file of an older version has no checksums yet: it gets them at its next start.
    has_sums = connection.pragma("user_version") >= SCHEMA.version
    with damage_caught(problems, "the catalog of the tables"):
        try:
            tables = CatalogCache().load(connection).tables
            copies = backups.list_all(connection)
        except msgspec.MsgspecError as error:
            return [f"the catalog of the tables is unreadable ({error})"]
        for table in tables.values():
            problems += TableVerifier(connection, table, table.name, has_sums, progress).verify()
        for each in copies:
            label = f"the backup {each.summary.name} of {each.summary.table}"
            problems += TableVerifier(connection, _build_table(each), label, has_sums, progress).verify()
        if has_sums:
            problems += _verify_changes(connection, {each.number: name for name, each in tables.items()})
    return problems


def _build_table(backup: BackupRecord) -> Table:
    """Return the table whose items a backup has: it has no indexes."""
    replace = msgspec.structs.replace
    definition = replace(backup.source.definition, global_indexes=(), local_indexes=())
    return Table(replace(backup.source, number=backup.number, definition=definition, indexes={}))


class TableVerifier:
    """The verification of one table's items and indexes, or of a backup's items."""

    def __init__(
        self, connection: apsw.Connection, table: Table, label: str, has_sums: bool, progress: Progress
    ) -> None:
        self._connection, self._table, self._label = connection, table, label
        self._has_sums, self._progress = has_sums, progress
        self._indexes = [each for each in table.indexes if each.is_readable]
        self._index_rows = dict.fromkeys((each.slot for each in self._indexes), 0)
        self._problems: list[str] = []

    def verify(self) -> list[str]:
        """Return what is wrong, one line each."""
        expected = counts.read_counts(self._connection, self._table.number).get(0, (0, 0))[0]
        found = 0
        with damage_caught(self._problems, f"a key of {self._label}"):
            for batch in self._iterate_keys():
                for row, item in self._read_items(batch):
                    self._verify_index_rows(row[1:], row[0], item)
                found += len(batch)
                self._progress(f"{self._label} (items)", found, max(found, expected))
            if found != expected:
                self._problems.append(f"{self._label} has {found:,} items and counts {expected:,}")
        for index in self._indexes:
            with damage_caught(self._problems, f"a key of {self._label}.{index.name}"):
                self._find_surplus_rows(index)
        return self._problems

    def _iterate_keys(self) -> Iterator[list[Row]]:
        """Yield the row id and the key of all items in batches, from SQLite's index of keys."""
        name = f"items_{self._table.number}"
        sql = f"SELECT id, pk, sk FROM {name} INDEXED BY {name}_key"
        batch: list[Row] = self._connection.execute(f"{sql} ORDER BY pk, sk LIMIT {BATCH_ROWS}").fetchall()
        while batch:
            yield batch
            batch = self._connection.execute(
                f"{sql} WHERE (pk, sk) > (?, ?) ORDER BY pk, sk LIMIT {BATCH_ROWS}", batch[-1][1:]
            ).fetchall()

    def _read_items(self, batch: list[Row]) -> list[tuple[Row, Item]]:
        """Return the sound items of a batch of keys."""
        found = []
        with checksums_ignored(self._connection):
            for row in batch:
                item = self._read_item(row[0], row[1:])
                if item is None:
                    key = self._table.decode_key(row[1:])
                    self._problems.append(f"the item {key} of {self._label} is damaged")
                else:
                    found.append((row, item))
        return found

    def _read_item(self, id: int, key_bytes: KeyBytes) -> Item | None:
        """Return an item, or None if it is damaged."""
        row_sum = "sum" if self._has_sums else "NULL"
        sql = f"SELECT size, item, {row_sum} FROM items_{self._table.number} WHERE id = ?"
        try:
            row: Any = self._connection.execute(sql, (id,)).fetchone()
            if row is None or (self._has_sums and not is_item_sound(key_bytes, *row)):
                return None
            item = codec.decode(row[1])
            return item if self._table.encode_key(item) == key_bytes else None
        except (apsw.CorruptError, StoreFileError, LookupError, TypeError, AttributeError, ValueError):
            return None

    def _verify_index_rows(self, key_bytes: KeyBytes, id: int, item: Item) -> None:
        """Check that each index has the row of an item."""
        for index in self._indexes:
            index_key = index.encode_key(item)
            if index_key is None:
                continue
            sql = (
                f"SELECT id FROM index_{self._table.number}_{index.slot}"
                " WHERE ipk = ? AND isk = ? AND pk = ? AND sk = ?"
            )
            row = self._connection.execute(sql, index_key + key_bytes).fetchone()
            if row is None or row[0] != id:
                key = self._table.decode_key(key_bytes)
                self._problems.append(f"the index {self._label}.{index.name} lacks the item {key}")
            else:
                self._index_rows[index.slot] += 1

    def _find_surplus_rows(self, index: Index) -> None:
        """Report rows of an index that belong to no item. Rows of damaged items are not looked at."""
        name = f"index_{self._table.number}_{index.slot}"
        if self._connection.execute(f"SELECT count(*) FROM {name}").get == self._index_rows[index.slot]:
            return
        for ipk, isk, pk, sk, id in self._connection.execute(f"SELECT ipk, isk, pk, sk, id FROM {name}"):
            with checksums_ignored(self._connection):
                exists = self._connection.execute(
                    f"SELECT 1 FROM items_{self._table.number} WHERE id = ?", (id,)
                ).get
                item = self._read_item(id, (pk, sk)) if exists else None
            if not exists or (item is not None and index.encode_key(item) != (ipk, isk)):
                key = self._table.decode_key((pk, sk))
                self._problems.append(f"the index {self._label}.{index.name} has a wrong row for {key}")


def _verify_changes(connection: apsw.Connection, names: dict[int, str]) -> list[str]:
    """Verify every change log, also those of deleted tables whose streams can still be read."""
    problems: list[str] = []
    logs: list[Any] = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'changes_[0-9]*'"
    ).fetchall()
    for (log,) in logs:
        number = int(log.removeprefix("changes_"))
        label = names.get(number, f"the deleted table {number}")
        with damage_caught(problems, f"the change log of {label}"), checksums_ignored(connection):
            problems += [
                f"the change {seq} in the log of {label} is damaged"
                for (seq,) in connection.execute(f"SELECT seq FROM {log} ORDER BY seq")
                if not _is_change_sound(connection, log, seq)
            ]
    return problems


def _is_change_sound(connection: apsw.Connection, log: str, seq: Any) -> bool:
    sql = f"SELECT key, old, new, sum FROM {log} WHERE seq = ?"
    try:
        key, old, new, row_sum = connection.execute(sql, (seq,)).get
        return bool(compute_change_sum(key, old, new) == row_sum)
    except (apsw.CorruptError, TypeError, UnicodeDecodeError):
        return False
