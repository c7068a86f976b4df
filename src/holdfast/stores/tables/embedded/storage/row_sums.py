"""Checksums of stored rows: an item's covers its key, its size and the item, a logged change's its images.

A keyed read compares it, so that such a read need not verify pages; no item has to be decoded for it. If a
page is damaged, it shows which of the page's rows are still right.
"""

from __future__ import annotations

from typing import Any

import apsw
from isal.isal_zlib import crc32

from holdfast.stores.tables.embedded.table import KeyBytes

_ITEM_FUNCTION = "holdfast_item_sum"
_CHANGE_FUNCTION = "holdfast_change_sum"


def compute_sum(key_bytes: KeyBytes, size: int, item: bytes) -> int:
    """Return the checksum of an item's row."""
    return crc32(item, crc32(key_bytes[0] + key_bytes[1], size))


def is_item_sound(key_bytes: KeyBytes, size: Any, item: Any, row_sum: Any) -> bool:
    """Return whether a row matches its checksum. Damage can make its columns values of other types."""
    try:
        return bool(compute_sum(key_bytes, size, item) == row_sum)
    except TypeError:
        return False


def compute_change_sum(key: bytes | None, old: bytes | None, new: bytes | None) -> int:
    """Return the checksum of a logged change."""
    return crc32(new or b"", crc32(old or b"", crc32(key or b"")))


def add_sums(connection: apsw.Connection) -> None:
    """Give the rows of every table, backup and log their checksums: the migration of a file that has none."""

    def sum_item(*row: Any) -> int:
        return compute_sum(row[:2], *row[2:])

    def sum_change(*row: Any) -> int:
        return compute_change_sum(*row)

    connection.create_scalar_function(_ITEM_FUNCTION, sum_item, 4, deterministic=True)
    connection.create_scalar_function(_CHANGE_FUNCTION, sum_change, 3, deterministic=True)
    _add_sums_to(connection, "items", f"{_ITEM_FUNCTION}(pk, sk, size, item)")
    _add_sums_to(connection, "changes", f"{_CHANGE_FUNCTION}(key, old, new)")
    connection.create_scalar_function(_ITEM_FUNCTION, None)
    connection.create_scalar_function(_CHANGE_FUNCTION, None)


def _add_sums_to(connection: apsw.Connection, kind: str, expression: str) -> None:
    """Add the column to all tables of the file whose names begin with `kind`, and fill it."""
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?", (f"{kind}_[0-9]*",)
    ).fetchall()
    for (name,) in names:
        connection.execute(f"ALTER TABLE {name} ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
        connection.execute(f"UPDATE {name} SET sum = {expression}")
