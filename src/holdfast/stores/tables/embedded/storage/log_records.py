"""Single records of a change log, read, removed and cleared for erasure.

`streams.py` reads the records of streams.
"""

from __future__ import annotations

from typing import NamedTuple

import apsw

from holdfast.stores.tables.embedded.storage.row_sums import compute_change_sum
from holdfast.stores.tables.embedded.storage.rows import limit_to_step, verify_changes
from holdfast.stores.tables.embedded.table import KeyBytes


class LogRecord(NamedTuple):
    """One record of a change log. `key` is None if an image contains the key."""

    seq: int
    pk: bytes
    sk: bytes
    key: bytes | None
    old: bytes | None
    new: bytes | None


def read_after(connection: apsw.Connection, number: int, seq: int, limit: int) -> list[LogRecord]:
    """Return records after `seq` from the log of the table with this number: up to `limit`, or until a step's
    bytes are used.
    """
    found = connection.execute(
        f"SELECT seq, pk, sk, key, old, new, sum FROM changes_{number} WHERE seq > ? ORDER BY seq LIMIT ?",
        (seq, limit),
    )
    return limit_to_step(
        (LogRecord(*one) for one in verify_changes(number, found)),
        lambda one: len(one.old or b"") + len(one.new or b""),
    )


class ItemLogRecord(NamedTuple):
    """One change of an item. `event` is its place among INSERT, MODIFY and REMOVE."""

    seq: int
    at_ms: int
    event: int
    by_service: int
    key: bytes | None
    old: bytes | None
    new: bytes | None


def read_of_item(
    connection: apsw.Connection,
    number: int,
    key_bytes: KeyBytes,
    span: tuple[int, int],
    limit: int,
    *,
    newest_first: bool = False,
) -> list[ItemLogRecord]:
    """Return up to `limit` changes of the item, with sequence numbers in the span, both ends included.

    The log has no index by item: SQLite reads every record of the span.
    """
    found = connection.execute(
        f"SELECT seq, at_ms, event, by_service, key, old, new, sum FROM changes_{number}"
        " WHERE seq BETWEEN ? AND ? AND pk = ? AND sk = ?"
        f" ORDER BY seq {'DESC' if newest_first else 'ASC'} LIMIT ?",
        (*span, *key_bytes, limit),
    )
    return [ItemLogRecord(*one) for one in verify_changes(number, found)]


def read_first(connection: apsw.Connection, number: int, seq: int) -> tuple[int, int] | None:
    """Return the sequence number and the time in milliseconds of the first record from `seq` on."""
    return connection.execute(
        f"SELECT seq, at_ms FROM changes_{number} WHERE seq >= ? ORDER BY seq LIMIT 1", (seq,)
    ).fetchone()


def remove(connection: apsw.Connection, number: int, seq: int) -> None:
    """Delete the record with this sequence number from the log of the table with this number."""
    connection.execute(f"DELETE FROM changes_{number} WHERE seq = ?", (seq,))


def erase_images(connection: apsw.Connection, number: int, seq: int, key: bytes) -> None:
    """Remove the record's images. The record still names the item that changed."""
    connection.execute(
        f"UPDATE changes_{number} SET old = NULL, new = NULL, key = ?, sum = ? WHERE seq = ?",
        (key, compute_change_sum(key, None, None), seq),
    )
