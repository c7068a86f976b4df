"""Streams and the change log that they are ranges of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import apsw
import msgspec

from holdfast.stores.tables.embedded.records import StreamRecord

Row = tuple[int, int, int, int, bytes | None, bytes | None, bytes | None]
"""A change: seq, at_ms, event, by_service, key (None where an image has it), old, new."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(StreamRecord)


def save(connection: apsw.Connection, stream: StreamRecord) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO streams VALUES (?, ?, ?, ?)",
        (stream.table, stream.label, stream.number, _ENCODER.encode(stream)),
    )


def find(connection: apsw.Connection, table: str, label: str) -> StreamRecord | None:
    row = connection.execute(
        "SELECT record FROM streams WHERE name = ? AND label = ?", (table, label)
    ).fetchone()
    return None if row is None else _DECODER.decode(row[0])


def listed(
    connection: apsw.Connection, table: str | None, after: tuple[str, str] | None, limit: int
) -> list[StreamRecord]:
    sql, bindings = "SELECT record FROM streams WHERE (name, label) > (?, ?)", list[Any](after or ("", ""))
    if table is not None:
        sql += " AND name = ?"
        bindings.append(table)
    rows = connection.execute(sql + " ORDER BY name, label LIMIT ?", (*bindings, limit))
    return [_DECODER.decode(record) for (record,) in rows]


def of_number(connection: apsw.Connection, number: int) -> list[StreamRecord]:
    rows = connection.execute("SELECT record FROM streams WHERE number = ?", (number,))
    return [_DECODER.decode(record) for (record,) in rows]


def every(connection: apsw.Connection) -> list[StreamRecord]:
    return [_DECODER.decode(record) for (record,) in connection.execute("SELECT record FROM streams")]


def remove(connection: apsw.Connection, stream: StreamRecord) -> None:
    connection.execute("DELETE FROM streams WHERE name = ? AND label = ?", (stream.table, stream.label))


def changes(
    connection: apsw.Connection, number: int, first: int, last: int | None, since_ms: int, limit: int
) -> Iterator[Row]:
    return connection.execute(
        f"SELECT seq, at_ms, event, by_service, key, old, new FROM changes_{number}"
        " WHERE seq >= ? AND seq <= ? AND at_ms > ? ORDER BY seq LIMIT ?",
        (first, 2**62 if last is None else last, since_ms, limit),
    )


def trim(connection: apsw.Connection, number: int, before_ms: int, limit: int) -> None:
    """Delete the oldest changes up to a time, a bounded number of them."""
    connection.execute(
        f"DELETE FROM changes_{number} WHERE seq IN (SELECT seq FROM"
        f" (SELECT seq, at_ms FROM changes_{number} ORDER BY seq LIMIT ?) WHERE at_ms <= ?)",
        (limit, before_ms),
    )


def has_older(connection: apsw.Connection, number: int, before_ms: int) -> bool:
    """Return whether the log has records from before the time. The log is in time order, so the first is the
    oldest.
    """
    row = connection.execute(f"SELECT at_ms FROM changes_{number} ORDER BY seq LIMIT 1").fetchone()
    return row is not None and row[0] <= before_ms


def first_after(connection: apsw.Connection, number: int, at_ms: int, last: int, first: int = 1) -> int:
    """Return the number of the first change after a time, from `first` on, or the number that will follow
    `last`.

    This is a binary search: the log is in time order. Trimmed records are older than any time requested.
    """
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        row = _at_or_after(connection, number, middle)
        if row is None or row[1] > at_ms:
            high = middle
        else:
            low = middle + 1
    row = _at_or_after(connection, number, low)
    return last + 1 if row is None else min(row[0], last + 1)


def _at_or_after(connection: apsw.Connection, number: int, seq: int) -> tuple[int, int] | None:
    return connection.execute(
        f"SELECT seq, at_ms FROM changes_{number} WHERE seq >= ? ORDER BY seq LIMIT 1", (seq,)
    ).fetchone()
