"""Storage of stream records, and reads and trims of the change logs whose ranges streams are.

`number` is always a table's number, which names its change log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import apsw
import msgspec

from holdfast.stores.tables.embedded.records import StreamRecord
from holdfast.stores.tables.embedded.storage import rows

LogRow = tuple[int, int, int, int, bytes | None, bytes | None, bytes | None]
"""A change: seq, at_ms, event, by_service, key (None if an image contains it), old, new."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(StreamRecord)


def save(connection: apsw.Connection, stream: StreamRecord) -> None:
    """Insert or replace a stream's record."""
    connection.execute(
        "INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?)",
        (stream.table, stream.label, stream.number, _ENCODER.encode(stream)),
    )


def find(connection: apsw.Connection, table: str, label: str) -> StreamRecord | None:
    """Return the stream of this table with this label, or None."""
    row = connection.execute(
        "SELECT record FROM streams WHERE name = ? AND label = ?", (table, label)
    ).fetchone()
    return None if row is None else _DECODER.decode(row[0])


def list_page(
    connection: apsw.Connection, table: str | None, after: tuple[str, str] | None, limit: int
) -> list[StreamRecord]:
    """Return up to `limit` streams, of one table or of all, in the order of table and label, after the given
    pair.
    """
    sql, bindings = "SELECT record FROM streams WHERE (name, label) > (?, ?)", list[Any](after or ("", ""))
    if table is not None:
        sql += " AND name = ?"
        bindings.append(table)
    rows = connection.execute(sql + " ORDER BY name, label LIMIT ?", (*bindings, limit))
    return [_DECODER.decode(record) for (record,) in rows]


def find_by_number(connection: apsw.Connection, number: int) -> list[StreamRecord]:
    """Return the streams of the table with this number."""
    rows = connection.execute("SELECT record FROM streams WHERE number = ?", (number,))
    return [_DECODER.decode(record) for (record,) in rows]


def list_all(connection: apsw.Connection) -> list[StreamRecord]:
    """Return the streams of all tables, in no fixed order."""
    return [_DECODER.decode(record) for (record,) in connection.execute("SELECT record FROM streams")]


def remove(connection: apsw.Connection, stream: StreamRecord) -> None:
    connection.execute("DELETE FROM streams WHERE name = ? AND label = ?", (stream.table, stream.label))


def read_changes(
    connection: apsw.Connection, number: int, first: int, last: int | None, since_ms: int, limit: int
) -> Iterator[LogRow]:
    """Iterate over up to `limit` changes with sequence numbers from `first` to `last` (None: no end), logged
    after `since_ms`. Raise `DataDamaged` at a damaged one.
    """
    found = connection.execute(
        f"SELECT seq, at_ms, event, by_service, key, old, new, sum FROM changes_{number}"
        " WHERE seq >= ? AND seq <= ? AND at_ms > ? ORDER BY seq LIMIT ?",
        (first, 2**62 if last is None else last, since_ms, limit),
    )
    return cast(Iterator[LogRow], rows.verify_changes(number, found))


def trim(connection: apsw.Connection, number: int, before_ms: int, limit: int) -> None:
    """Delete those of the oldest `limit` changes that were logged up to `before_ms`."""
    connection.execute(
        f"DELETE FROM changes_{number} WHERE seq IN (SELECT seq FROM"
        f" (SELECT seq, at_ms FROM changes_{number} ORDER BY seq LIMIT ?) WHERE at_ms <= ?)",
        (limit, before_ms),
    )


def has_older(connection: apsw.Connection, number: int, before_ms: int) -> bool:
    """Return whether the log has records from up to `before_ms`. The first record is the oldest."""
    row = connection.execute(f"SELECT at_ms FROM changes_{number} ORDER BY seq LIMIT 1").fetchone()
    return row is not None and row[0] <= before_ms


def find_first_after(connection: apsw.Connection, number: int, at_ms: int, last: int, first: int = 1) -> int:
    """Return the sequence number of the first change after `at_ms`, from `first` on, or `last + 1` if there
    is none.

    This is a binary search: the log is in time order. Trimmed records are older than any time requested.
    """
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        row = _find_at_or_after(connection, number, middle)
        if row is None or row[1] > at_ms:
            high = middle
        else:
            low = middle + 1
    row = _find_at_or_after(connection, number, low)
    return last + 1 if row is None else min(row[0], last + 1)


def _find_at_or_after(connection: apsw.Connection, number: int, seq: int) -> tuple[int, int] | None:
    """Return sequence number and time of the first record from `seq` on, or None."""
    return connection.execute(
        f"SELECT seq, at_ms FROM changes_{number} WHERE seq >= ? ORDER BY seq LIMIT 1", (seq,)
    ).fetchone()
