"""The messages of a lot: insert, find due ones, hold, remove. A FIFO group always has exactly one head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import apsw
import msgspec

from holdfast.operations.queues import Incoming

# With this condition and the order (due, place), the index `messages_due` needs no sort.
_COLUMNS: Final = 'place, lot, id, "group", deduplication, sent_at, available_at, due, receives, token, died_in, attributes, body'
DUE: Final = f"SELECT {_COLUMNS} FROM messages WHERE lot = ? AND due <= ? ORDER BY due, place LIMIT ?"
OLDEST: Final = f"""SELECT {_COLUMNS} FROM messages WHERE lot = ?1 AND (sent_at, place) > (?2, ?3)
                    ORDER BY sent_at, place LIMIT ?4"""
LAST_PLACE: Final = 2**63 - 1
NEXT_DUE: Final = "SELECT min(due) FROM messages WHERE lot = ? AND due IS NOT NULL"
HEAD: Final = 'SELECT place, due FROM messages WHERE lot = ? AND "group" = ? ORDER BY place LIMIT 1'
_INSERT: Final = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, died_in, attributes, body, receives)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# A message behind the head of its group is not due, however long it has waited.
_INSERT_IN_GROUP: Final = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, died_in, attributes, body, receives)
VALUES (?1, ?2, ?3, ?4, ?5, ?6,
        CASE WHEN EXISTS (SELECT 1 FROM messages WHERE lot = ?1 AND "group" = ?3) THEN NULL ELSE ?6 END,
        ?7, ?8, ?9, ?10)"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


class MessageRow(NamedTuple):
    """A row of a message. `due` is None behind the head of a group; `token` is the current receipt's."""

    place: int
    lot: int
    id: str
    group: str | None
    deduplication: str | None
    sent_at: float
    available_at: float
    due: float | None
    receives: int
    token: str | None
    died_in: str | None
    attributes: bytes
    body: str


class NewMessage(NamedTuple):
    id: str
    group: str | None
    deduplication: str | None
    sent_at: float
    available_at: float
    died_in: str | None
    attributes: bytes
    body: str
    receives: int = 0


class Counts(NamedTuple):
    visible: int
    held: int
    delayed: int
    oldest_sent_at: float | None


def insert(connection: apsw.Connection, lot: int, message: NewMessage) -> int:
    """Insert a message at the end of the lot and of its group, and return its place."""
    if message.group is None:
        connection.execute(_INSERT, (lot, *message[:5], message.available_at, *message[5:]))
    else:
        connection.execute(_INSERT_IN_GROUP, (lot, *message))
    return connection.last_insert_rowid()


def remove(connection: apsw.Connection, row: MessageRow) -> None:
    """Remove a message. If it was the head of its group, the next message becomes the head."""
    connection.execute("DELETE FROM messages WHERE place = ?", (row.place,))
    if row.group is None or row.due is None:
        return
    head = _head(connection, row.lot, row.group)
    if head is not None:
        connection.execute("UPDATE messages SET due = available_at WHERE place = ?", (head[0],))


def hold(connection: apsw.Connection, row: MessageRow, until: float, token: str) -> None:
    connection.execute(
        "UPDATE messages SET due = ?, token = ?, receives = receives + 1 WHERE place = ?",
        (until, token, row.place),
    )


def unhold(connection: apsw.Connection, row: MessageRow, now: float) -> None:
    connection.execute(
        "UPDATE messages SET due = ?, token = NULL, receives = receives - 1 WHERE place = ?", (now, row.place)
    )


def hold_until(connection: apsw.Connection, row: MessageRow, until: float) -> None:
    connection.execute("UPDATE messages SET due = ? WHERE place = ?", (until, row.place))


def due(connection: apsw.Connection, lot: int, now: float, limit: int) -> list[MessageRow]:
    """Return the messages that may be received now, longest due first, at most one of each FIFO group."""
    return _rows(connection.execute(DUE, (lot, now, limit)))


def next_due(connection: apsw.Connection, lot: int) -> float | None:
    """Return when the next message is due, possibly in the past, or None without one."""
    moment: float | None = connection.execute(NEXT_DUE, (lot,)).get
    return moment


def oldest(
    connection: apsw.Connection, lot: int, limit: int, after: tuple[float, int] = (0.0, 0)
) -> list[MessageRow]:
    return _rows(connection.execute(OLDEST, (lot, *after, limit)))


def at(connection: apsw.Connection, lot: int, place: int) -> MessageRow | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE place = ? AND lot = ?", (place, lot)
    ).fetchone()
    return None if row is None else MessageRow(*row)


def newest_sent_at(connection: apsw.Connection, lot: int) -> float:
    moment: float | None = connection.execute("SELECT max(sent_at) FROM messages WHERE lot = ?", (lot,)).get
    return moment or 0.0


def is_group_held(connection: apsw.Connection, lot: int, group: str, now: float) -> bool:
    head = _head(connection, lot, group)
    return head is not None and head[1] > now


def counts(connection: apsw.Connection, lot: int, now: float, sent_after: float) -> Counts:
    """Count the messages that are not past retention. Triggers keep the total; short index ranges give the
    rest.
    """
    total = connection.execute("SELECT messages FROM lots WHERE lot = ?", (lot,)).get or 0
    over = connection.execute(
        "SELECT count(*) FROM messages WHERE lot = ? AND sent_at <= ?", (lot, sent_after)
    ).get
    held = connection.execute(
        "SELECT count(*) FROM messages WHERE lot = ? AND due > ? AND token IS NOT NULL AND sent_at > ?",
        (lot, now, sent_after),
    ).get
    delayed = connection.execute(
        "SELECT count(*) FROM messages WHERE lot = ? AND available_at > ? AND available_at > sent_at AND "
        "sent_at > ?",
        (lot, now, sent_after),
    ).get
    first = connection.execute(
        "SELECT min(sent_at) FROM messages WHERE lot = ? AND sent_at > ?", (lot, sent_after)
    ).get
    return Counts(total - over - held - delayed, held, delayed, first)


def incoming(row: MessageRow, receipt: str, receives: int) -> Incoming:
    return Incoming(
        id=row.id,
        receipt=receipt,
        body=row.body,
        sent_at=row.sent_at,
        receives=receives,
        group=row.group,
        deduplication=row.deduplication,
        sequence=None if row.group is None else row.place,
        attributes=_decode(row.attributes),
        died_in=row.died_in,
    )


def encoded_attributes(attributes: Mapping[str, str]) -> bytes:
    return _encode({str(name): str(value) for name, value in attributes.items()})


def _head(connection: apsw.Connection, lot: int, group: str) -> tuple[int, float] | None:
    row: tuple[int, float] | None = connection.execute(HEAD, (lot, group)).fetchone()
    return row


def _rows(rows: Iterable[tuple[object, ...]]) -> list[MessageRow]:
    return [MessageRow(*row) for row in rows]  # type: ignore[arg-type]
