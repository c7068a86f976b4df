"""The floor of the tables benchmarks: raw SQLite with the same driver, durability and rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import msgspec

from holdfast.operations.values import Item

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

SCHEMA = """
CREATE TABLE items (id INTEGER PRIMARY KEY, pk BLOB NOT NULL, sk BLOB NOT NULL, size INTEGER NOT NULL,
                    item BLOB NOT NULL);
CREATE UNIQUE INDEX items_key ON items (pk, sk);
CREATE TABLE by_status (ipk BLOB NOT NULL, isk BLOB NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (ipk, isk, id))
                    WITHOUT ROWID;
CREATE TABLE log (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
                  new BLOB NOT NULL);
"""


class SqliteFloor:
    """Items in a SQLite file, with an index and a change log if wanted, without an engine."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.pragma("page_size", 8192)
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "full")
        self.connection.execute(SCHEMA)

    def insert(self, items: Iterable[Item]) -> None:
        """Insert the items in one transaction."""
        with self.connection:
            for item in items:
                self._insert(item, encode(item))

    def insert_with_index_and_log(self, items: Iterable[Item]) -> None:
        """Insert each item with its index row and its log row, all in one transaction."""
        with self.connection:
            for item in items:
                blob = encode(item)
                row = self._insert(item, blob)
                status, pk, sk = _to_bytes(item["status"]), _to_bytes(item["pk"]), _to_bytes(item["sk"])
                self.connection.execute("INSERT INTO by_status VALUES (?, ?, ?)", (status, sk, row))
                self.connection.execute(
                    "INSERT INTO log (at_ms, pk, sk, new) VALUES (?, ?, ?, ?)", (row, pk, sk, blob)
                )

    def _insert(self, item: Item, blob: bytes) -> int:
        """Insert one item and return its row id; `blob` is the encoded item."""
        self.connection.execute(
            "INSERT INTO items (pk, sk, size, item) VALUES (?, ?, ?, ?)",
            (_to_bytes(item["pk"]), _to_bytes(item["sk"]), len(blob), blob),
        )
        return self.connection.last_insert_rowid()

    def get(self, pk: bytes, sk: bytes) -> Any:
        """Return the decoded item with this key."""
        row = self.connection.execute("SELECT item FROM items WHERE pk = ? AND sk = ?", (pk, sk)).fetchone()
        return decode(row[0])  # type: ignore[index]

    def query(self, pk: bytes) -> list[Any]:
        """Return the decoded items of a partition, in the order of the sort key."""
        rows = self.connection.execute("SELECT item FROM items WHERE pk = ? ORDER BY sk", (pk,))
        return [decode(blob) for (blob,) in rows]

    def close(self) -> None:
        self.connection.close()


def _to_bytes(text: Any) -> bytes:
    return str(text).encode()
