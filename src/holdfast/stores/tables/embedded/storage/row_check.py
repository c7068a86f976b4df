"""Deep check of the rows of a tables file: every item is decoded, and compared with its key and checksum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.stores.sqlite.file_check import FileContents
from holdfast.stores.tables.embedded.records import BackupRecord, TableRecord
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.row_sums import compute_sum
from holdfast.stores.tables.embedded.table import Table


def check_items(connection: apsw.Connection) -> FileContents:
    """Read every item of every table and backup. A file without checksums, of an older version, has only its
    items decoded.
    """
    counts: dict[str, int] = {}
    damages: list[str] = []
    for name, table, number in _list_tables(connection):
        counts[name] = 0
        for damage in _read_items(connection, table, number):
            counts[name] += 1
            if damage is not None:
                damages.append(f"{damage} of {name}")
    return FileContents(counts, tuple(damages))


def _list_tables(connection: apsw.Connection) -> Iterator[tuple[str, Table, int]]:
    """Yield the name of each table and backup, its definition, and the number of its rows."""
    tables: list[Any] = connection.execute("SELECT record FROM tables ORDER BY name").fetchall()
    for (blob,) in tables:
        table = Table(msgspec.msgpack.decode(blob, type=TableRecord))
        yield table.name, table, table.number
    backups: list[Any] = connection.execute("SELECT record FROM backups ORDER BY id").fetchall()
    for (blob,) in backups:
        backup = msgspec.msgpack.decode(blob, type=BackupRecord)
        yield f"{backup.summary.table}/backup/{backup.summary.id}", Table(backup.source), backup.number


def _read_items(connection: apsw.Connection, table: Table, number: int) -> Iterator[str | None]:
    """Yield for each item None, or what is damaged."""
    columns = {row[1] for row in connection.execute(f"PRAGMA table_info(items_{number})")}
    has_sums = "sum" in columns
    rows = connection.execute(
        f"SELECT pk, sk, size, item, {'sum' if has_sums else 'NULL'} FROM items_{number}"
    )
    for pk, sk, size, item, expected in rows:
        is_right = not has_sums or compute_sum((pk, sk), size, item) == expected
        yield (
            None if is_right and _has_key(table, item, (pk, sk)) else f"the item {table.decode_key((pk, sk))}"
        )


def _has_key(table: Table, stored: bytes, key: tuple[bytes, bytes]) -> bool:
    """Return whether the stored bytes are an item with this key."""
    try:
        return table.encode_key(codec.decode(stored)) == key
    except (StoreFileError, LookupError, TypeError, ValueError):
        return False
