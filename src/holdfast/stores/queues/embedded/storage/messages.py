"""The messages of a lot: insert, find due ones, hold, remove and count.

A FIFO group that is not empty has exactly one head, the message that may be received next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import apsw
import msgspec

from holdfast.core.limits import MAX_MESSAGE_DELAY_S, MAX_VISIBILITY_S
from holdfast.operations.queues import IncomingMessage

# With this condition and the order (due, place), the index `messages_due` needs no sort.
_COLUMNS: Final = (
    'place, lot, id, "group", deduplication, sent_at, available_at, due, receives, token, died_in, '
    "attributes, body"
)
DUE: Final = f"SELECT {_COLUMNS} FROM messages WHERE lot = ? AND due <= ? ORDER BY due, place LIMIT ?"
OLDEST: Final = f"""SELECT {_COLUMNS} FROM messages WHERE lot = ?1 AND (sent_at, place) > (?2, ?3)
                    ORDER BY sent_at, place LIMIT ?4"""
LAST_PLACE: Final = 2**63 - 1
NEXT_DUE: Final = "SELECT min(due) FROM messages WHERE lot = ? AND due IS NOT NULL"
HEAD: Final = 'SELECT place, due FROM messages WHERE lot = ? AND "group" = ? ORDER BY place LIMIT 1'
# The messages with the latest `due`, of which a clock that was ahead may have hidden some for too long.
LATEST: Final = """
SELECT place, due, hidden_s, token FROM messages WHERE lot = ? AND due > ? ORDER BY due DESC LIMIT ?"""
_INSERT: Final = """
INSERT INTO messages
    (lot, id, "group", deduplication, sent_at, available_at, due, died_in, attributes, body, receives,
     hidden_s)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# A message behind the head of its group is not due, however long it has waited.
_INSERT_IN_GROUP: Final = """
INSERT INTO messages
    (lot, id, "group", deduplication, sent_at, available_at, due, died_in, attributes, body, receives,
     hidden_s)
VALUES (?1, ?2, ?3, ?4, ?5, ?6,
        CASE WHEN EXISTS (SELECT 1 FROM messages WHERE lot = ?1 AND "group" = ?3) THEN NULL ELSE ?6 END,
        ?7, ?8, ?9, ?10, ?11)"""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


class MessageRow(NamedTuple):
    """A row of a message.

    `place` is its position and sequence number, `due` the moment from which it may be received (None behind
    the head of its group), `token` the secret part of its current receipt, `died_in` the queue whose dead
    letter it is.
    """

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


class HiddenMessage(NamedTuple):
    """A message that is due later than it was hidden for, by the reader's clock."""

    place: int
    due: float
    hidden_s: float | None
    token: str | None

    @property
    def max_s(self) -> float:
        """For how many seconds it can have been hidden; for a row without the number, the longest."""
        if self.hidden_s is not None:
            return self.hidden_s
        return MAX_MESSAGE_DELAY_S if self.token is None else MAX_VISIBILITY_S


class NewMessage(NamedTuple):
    """A message to insert. `hidden_s` is its delay."""

    id: str
    group: str | None
    deduplication: str | None
    sent_at: float
    available_at: float
    died_in: str | None
    attributes: bytes
    body: str
    receives: int = 0
    hidden_s: float = 0.0


class Counts(NamedTuple):
    """The number of messages of a lot that are not past retention. `held` ones are in flight."""

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
    head = _find_head(connection, row.lot, row.group)
    if head is not None:
        connection.execute("UPDATE messages SET due = available_at WHERE place = ?", (head[0],))


def hold(connection: apsw.Connection, row: MessageRow, now: float, seconds: float, token: str) -> None:
    """Hold a message for a receiver: hide it for `seconds`, count the receive and set its receipt's token."""
    connection.execute(
        "UPDATE messages SET due = ?, hidden_s = ?, token = ?, receives = receives + 1 WHERE place = ?",
        (now + seconds, seconds, token, row.place),
    )


def undo_hold(connection: apsw.Connection, row: MessageRow, now: float) -> None:
    """Undo a hold: make the message visible and its receipt invalid, and do not count the receive."""
    connection.execute(
        "UPDATE messages SET due = ?, hidden_s = 0, token = NULL, receives = receives - 1 WHERE place = ?",
        (now, row.place),
    )


def hide(connection: apsw.Connection, row: MessageRow, now: float, seconds: float) -> None:
    """Hide the message for `seconds` from now."""
    connection.execute(
        "UPDATE messages SET due = ?, hidden_s = ? WHERE place = ?", (now + seconds, seconds, row.place)
    )


def find_latest(connection: apsw.Connection, lot: int, now: float, limit: int) -> list[HiddenMessage]:
    """Return those of the messages with the latest `due` that are due later than they were hidden for."""
    latest = [HiddenMessage(*row) for row in connection.execute(LATEST, (lot, now, limit))]
    return [each for each in latest if each.due > now + each.max_s]


def show(connection: apsw.Connection, lot: int, message: HiddenMessage, now: float) -> None:
    """Make a hidden message due now, unless it was changed since it was read."""
    connection.execute(
        "UPDATE messages SET due = ?, hidden_s = 0 WHERE lot = ? AND place = ? AND due = ? AND token IS ?",
        (now, lot, message.place, message.due, message.token),
    )


def find_due(connection: apsw.Connection, lot: int, now: float, limit: int) -> list[MessageRow]:
    """Return the messages that may be received now, longest due first, at most one of each FIFO group."""
    return _to_rows(connection.execute(DUE, (lot, now, limit)))


def find_next_due(connection: apsw.Connection, lot: int) -> float | None:
    """Return when the next message is due, possibly in the past, or None without one."""
    moment: float | None = connection.execute(NEXT_DUE, (lot,)).get
    return moment


def list_oldest(
    connection: apsw.Connection, lot: int, limit: int, after: tuple[float, int] = (0.0, 0)
) -> list[MessageRow]:
    """Return the oldest messages after a position (send time and place), whether they are due or not."""
    return _to_rows(connection.execute(OLDEST, (lot, *after, limit)))


def find(connection: apsw.Connection, lot: int, place: int) -> MessageRow | None:
    """Return the message at this place of the lot, or None."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE place = ? AND lot = ?", (place, lot)
    ).fetchone()
    return None if row is None else MessageRow(*row)


def find_newest_sent_at(connection: apsw.Connection, lot: int) -> float:
    """Return the latest send time of the lot's messages, or 0.0 without messages."""
    moment: float | None = connection.execute("SELECT max(sent_at) FROM messages WHERE lot = ?", (lot,)).get
    return moment or 0.0


def is_group_held(connection: apsw.Connection, lot: int, group: str, now: float) -> bool:
    """Return whether the head of the group may not be received yet: it is held or delayed."""
    head = _find_head(connection, lot, group)
    return head is not None and head[1] > now


def count(connection: apsw.Connection, lot: int, now: float, sent_after: float) -> Counts:
    """Count the lot's messages sent after `sent_after`, which are those not past retention.

    Triggers keep the total; short index ranges give the rest.
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


def to_incoming(row: MessageRow, receipt: str, receives: int) -> IncomingMessage:
    """Return the row as a received message with this receipt and receive count."""
    return IncomingMessage(
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


def encode_attributes(attributes: Mapping[str, str]) -> bytes:
    """Return the attributes in their stored form, JSON."""
    return _encode({str(name): str(value) for name, value in attributes.items()})


def _find_head(connection: apsw.Connection, lot: int, group: str) -> tuple[int, float] | None:
    """Return place and due time of the first message of the group, or None."""
    row: tuple[int, float] | None = connection.execute(HEAD, (lot, group)).fetchone()
    return row


def _to_rows(rows: Iterable[tuple[object, ...]]) -> list[MessageRow]:
    return [MessageRow(*row) for row in rows]  # type: ignore[arg-type]
