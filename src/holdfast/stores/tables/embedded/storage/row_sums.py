"""Checksums of stored items: each row has one, over its size and the stored item, which contains its key.

A keyed read compares it, so that such a read need not verify pages. If a page is damaged, it shows which of
the page's items are still right.
"""

from __future__ import annotations

from zlib import crc32

import apsw

_FUNCTION = "holdfast_row_sum"


def compute_sum(size: int, item: bytes) -> int:
    """Return the checksum of a row of a table's items."""
    return crc32(item, size)


def add_sums(connection: apsw.Connection) -> None:
    """Give the rows of every table and backup their checksums: the migration of a file that has none."""
    connection.create_scalar_function(_FUNCTION, compute_sum, 2, deterministic=True)
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'items_[0-9]*'"
    ).fetchall()
    for (name,) in names:
        connection.execute(f"ALTER TABLE {name} ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
        connection.execute(f"UPDATE {name} SET sum = {_FUNCTION}(size, item)")
    connection.create_scalar_function(_FUNCTION, None)
