"""The texts of the SQL statements for the rows of one table or index, built once and cached.

The driver caches prepared statements by their text.
"""

from __future__ import annotations

from functools import lru_cache


class ItemStatements:
    """SQL for the rows of one table."""

    __slots__ = ("delete", "exists", "get", "insert", "log", "read", "update")

    def __init__(self, number: int) -> None:
        rows = f"items_{number}"
        # The generation is read with the item, so that a keyed read is one statement and still detects that
        # the catalog has changed. (As a join it would take twice as long.)
        self.get = (
            f"SELECT (SELECT generation FROM meta), item, size, sum FROM {rows} WHERE pk = ? AND sk = ?"
        )
        self.exists = f"SELECT generation, EXISTS (SELECT 1 FROM {rows} WHERE pk = ? AND sk = ?) FROM meta"
        self.read = f"SELECT id, item, size, sum FROM {rows} WHERE pk = ? AND sk = ?"
        self.insert = f"INSERT INTO {rows} (pk, sk, size, expires, item, sum) VALUES (?, ?, ?, ?, ?, ?)"
        self.update = f"UPDATE {rows} SET size = ?, expires = ?, item = ?, sum = ? WHERE id = ?"
        self.delete = f"DELETE FROM {rows} WHERE id = ?"
        self.log = (
            f"INSERT INTO changes_{number} (seq, at_ms, event, by_service, pk, sk, key, old, new, sum)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )


class IndexStatements:
    """SQL for the rows of one index."""

    __slots__ = ("delete", "has", "put")

    def __init__(self, number: int, slot: int) -> None:
        rows = f"index_{number}_{slot}"
        self.put = f"INSERT OR REPLACE INTO {rows} (ipk, isk, pk, sk, id, size) VALUES (?, ?, ?, ?, ?, ?)"
        self.delete = f"DELETE FROM {rows} WHERE ipk = ? AND isk = ? AND pk = ? AND sk = ?"
        self.has = f"SELECT 1 FROM {rows} WHERE ipk = ? AND isk = ? AND pk = ? AND sk = ?"


@lru_cache(maxsize=4096)
def get_item_statements(number: int) -> ItemStatements:
    return ItemStatements(number)


@lru_cache(maxsize=16384)
def get_index_statements(number: int, slot: int) -> IndexStatements:
    return IndexStatements(number, slot)
