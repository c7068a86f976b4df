"""The messages of a lot: insert, find due ones, hold, remove and count.

A FIFO group that is not empty has exactly one head, the message that may be received next.

Each message has a checksum. A search returns the damaged ones apart from the others. If a page of the file is
damaged, its messages are found by the indexes and read one by one, so that the others can still be served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import apsw
import msgspec

from holdfast.core.errors import DataDamaged
from holdfast.core.limits import MAX_MESSAGE_DELAY_S, MAX_VISIBILITY_S
from holdfast.operations.queues import IncomingMessage

# With this condition and the order (due, place), the index `messages_due` needs no sort.
_COLUMNS: Final = (
    'place, lot, id, "group", deduplication, sent_at, available_at, due, hidden_s, receives, token, died_in, '
    "attributes, body, sum"
)
DUE: Final = f"SELECT {_COLUMNS} FROM messages WHERE lot = ? AND due <= ? ORDER BY due, place LIMIT ?"
OLDEST: Final = f"""SELECT {_COLUMNS} FROM messages WHERE lot = ?1 AND (sent_at, place) > (?2, ?3)
                    ORDER BY sent_at, place LIMIT ?4"""
# The same without the messages: their places are in the indexes.
_DUE_PLACES: Final = (
    "SELECT place FROM messages INDEXED BY messages_due"
    " WHERE lot = ? AND due IS NOT NULL AND due <= ? ORDER BY due, place LIMIT ?"
)
_OLDEST_PLACES: Final = """SELECT place FROM messages INDEXED BY messages_age
                           WHERE lot = ?1 AND (sent_at, place) > (?2, ?3) ORDER BY sent_at, place LIMIT ?4"""
_AT_PLACE: Final = f"SELECT {_COLUMNS} FROM messages WHERE place = ?"
LAST_PLACE: Final = 2**63 - 1
NEXT_DUE: Final = "SELECT min(due) FROM messages WHERE lot = ? AND due IS NOT NULL"
_NEXT_DUE_BUT: Final = NEXT_DUE + " AND place NOT IN (SELECT value FROM json_each(?))"
HEAD: Final = 'SELECT place, due FROM messages WHERE lot = ? AND "group" = ? ORDER BY place LIMIT 1'
# The messages with the latest `due`, of which a clock that was ahead may have hidden some for too long.
LATEST: Final = """
SELECT place, due, hidden_s, token FROM messages WHERE lot = ? AND due > ? ORDER BY due DESC LIMIT ?"""
_INSERT: Final = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, hidden_s, receives, token,
                      died_in, attributes, body, sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_UPDATE: Final = "UPDATE messages SET due = ?, hidden_s = ?, receives = ?, token = ?, sum = ? WHERE place = ?"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


class MessageRow(NamedTuple):
    """A row of a message.

    `place` is its position and sequence number, `due` the moment from which it may be received (None behind
    the head of its group), `hidden_s` for how many seconds it was last hidden, `token` the secret part of its
    current receipt, `died_in` the queue whose dead letter it is, `sum` the checksum of all that.
    """

    place: int
    lot: int
    id: str
    group: str | None
    deduplication: str | None
    sent_at: float
    available_at: float
    due: float | None
    hidden_s: float | None
    receives: int
    token: str | None
    died_in: str | None
    attributes: bytes
    body: str
    sum: int

    @property
    def is_sound(self) -> bool:
        """Return whether the row is as it was written."""
        try:
            return compute_sum(self[1:-1]) == self.sum
        except (TypeError, ValueError, AttributeError):
            return False


class FoundMessages(NamedTuple):
    """Messages that a search found, and the places of others that are damaged."""

    rows: list[MessageRow]
    damaged: list[int]


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


def compute_sum(columns: Sequence[Any]) -> int:
    """Return the checksum of a message: of all columns from `lot` to `body`.

    Its place is left out: the indexes have it too.
    """
    lot, id, group, deduplication, *times, receives, token, died_in, attributes, body = columns
    moments = [None if each is None else float(each) for each in times]
    head = f"{lot} {id} {group} {deduplication} {moments} {receives} {token} {died_in}"
    return crc32(body.encode(), crc32(attributes, crc32(head.encode())))


def insert(connection: apsw.Connection, lot: int, message: NewMessage) -> int:
    """Insert a message at the end of the lot and of its group, and return its place.

    A message behind the head of its group is not due, however long it has waited.
    """
    group = message.group
    is_head = group is None or _find_head(connection, lot, group) is None
    columns = (
        *(lot, message.id, group, message.deduplication, message.sent_at, message.available_at),
        *(message.available_at if is_head else None, message.hidden_s, message.receives, None),
        *(message.died_in, message.attributes, message.body),
    )
    connection.execute(_INSERT, (*columns, compute_sum(columns)))
    return connection.last_insert_rowid()


def remove(connection: apsw.Connection, row: MessageRow) -> None:
    """Remove a message. If it was the head of its group, the next message becomes the head."""
    connection.execute("DELETE FROM messages WHERE place = ?", (row.place,))
    if row.group is None or row.due is None:
        return
    head = _find_head(connection, row.lot, row.group)
    if head is not None:
        _make_due(connection, head[0])


def remove_unread(connection: apsw.Connection, place: int) -> None:
    """Remove a message that is too damaged to be read."""
    connection.execute("DELETE FROM messages WHERE place = ?", (place,))


def _make_due(connection: apsw.Connection, place: int) -> None:
    """Make a message the head of its group, which is due when it is available."""
    try:
        row = _fetch(connection, place)
    except DataDamaged:
        # Its sum stays wrong: the receive that finds it reports it.
        connection.execute("UPDATE messages SET due = available_at WHERE place = ?", (place,))
        return
    if row is not None:
        _update(connection, row, due=row.available_at)


def hold(connection: apsw.Connection, row: MessageRow, now: float, seconds: float, token: str) -> None:
    """Hold a message for a receiver: hide it for `seconds`, count the receive and set its receipt's token."""
    changes = {"due": now + seconds, "hidden_s": seconds, "token": token, "receives": row.receives + 1}
    _update(connection, row, **changes)


def undo_hold(connection: apsw.Connection, row: MessageRow, now: float) -> None:
    """Undo a hold: make the message visible and its receipt invalid, and do not count the receive."""
    _update(connection, row, due=now, hidden_s=0.0, token=None, receives=row.receives - 1)


def hide(connection: apsw.Connection, row: MessageRow, now: float, seconds: float) -> None:
    """Hide the message for `seconds` from now."""
    _update(connection, row, due=now + seconds, hidden_s=seconds)


def find_latest(connection: apsw.Connection, lot: int, now: float, limit: int) -> list[HiddenMessage]:
    """Return those of the messages with the latest `due` that are due later than they were hidden for."""
    latest = [HiddenMessage(*row) for row in connection.execute(LATEST, (lot, now, limit))]
    return [each for each in latest if each.due > now + each.max_s]


def show(connection: apsw.Connection, lot: int, message: HiddenMessage, now: float) -> None:
    """Make a hidden message due now, unless it was changed since it was read."""
    row = find_unchecked(connection, lot, message.place)
    if row is not None and (row.due, row.token) == (message.due, message.token):
        _update(connection, row, due=now, hidden_s=0.0)


def _update(connection: apsw.Connection, row: MessageRow, **changes: Any) -> None:
    """Change when a message is due, its receives or its token. A damaged one stays recognisable as such."""
    changed = row._replace(**changes)
    row_sum = compute_sum(changed[1:-1]) if row.is_sound else row.sum
    values = (changed.due, changed.hidden_s, changed.receives, changed.token)
    connection.execute(_UPDATE, (*values, row_sum, row.place))


def find_due(connection: apsw.Connection, lot: int, now: float, limit: int) -> FoundMessages:
    """Return the messages that may be received now, longest due first, at most one of each FIFO group."""
    try:
        return _split(MessageRow(*row) for row in connection.execute(DUE, (lot, now, limit)))
    except UnicodeDecodeError:
        return find_due_alone(connection, lot, now, limit)


def find_due_alone(connection: apsw.Connection, lot: int, now: float, limit: int) -> FoundMessages:
    """Return what `find_due` does, in a file with damaged pages: each message is read alone."""
    return _read_alone(connection, connection, _DUE_PLACES, (lot, now, limit))


def find_next_due(connection: apsw.Connection, lot: int, damaged: Collection[int] = ()) -> float | None:
    """Return when the next message is due, possibly in the past, or None without one.

    `damaged` are the places of messages that do not count.
    """
    moment: float | None
    if damaged:
        places = msgspec.json.encode(list(damaged)).decode()
        moment = connection.execute(_NEXT_DUE_BUT, (lot, places)).get
    else:
        moment = connection.execute(NEXT_DUE, (lot,)).get
    return moment


def list_oldest(
    connection: apsw.Connection, lot: int, limit: int, after: tuple[float, int] = (0.0, 0)
) -> FoundMessages:
    """Return the oldest messages after a position (send time and place), whether they are due or not."""
    try:
        return _split(MessageRow(*row) for row in connection.execute(OLDEST, (lot, *after, limit)))
    except UnicodeDecodeError:
        return list_oldest_alone(connection, connection, lot, limit, after)


def list_oldest_alone(
    connection: apsw.Connection,
    unverified: apsw.Connection,
    lot: int,
    limit: int,
    after: tuple[float, int],
) -> FoundMessages:
    """Return what `list_oldest` does, in a file with damaged pages: each message is read alone."""
    return _read_alone(connection, unverified, _OLDEST_PLACES, (lot, *after, limit))


def find(connection: apsw.Connection, lot: int, place: int) -> MessageRow | None:
    """Return the message at this place of the lot, or None. Raise `DataDamaged` if it is damaged."""
    row = find_unchecked(connection, lot, place)
    if row is not None and not row.is_sound:
        raise report_damaged([place])
    return row


def find_unchecked(connection: apsw.Connection, lot: int, place: int) -> MessageRow | None:
    """Return the message at this place of the lot, sound or not, or None."""
    row = _fetch(connection, place)
    return None if row is None or row.lot != lot else row


def report_damaged(places: Sequence[int], queue: str | None = None) -> DataDamaged:
    """Return the error for messages that do not match their checksums."""
    subject = f"Message {places[0]}" if len(places) == 1 else f"Messages {', '.join(map(str, places))}"
    where = "" if queue is None else f" of the queue {queue}"
    return DataDamaged(
        f"{subject}{where} (by place) cannot be received: it does not match its checksum. Restore the queues "
        "from a backup, or purge the queue; other messages are served."
    )


def _read_alone(
    connection: apsw.Connection, unverified: apsw.Connection, sql: str, bindings: tuple[Any, ...]
) -> FoundMessages:
    """Return the messages at the places that a statement finds in an index, each read by itself."""
    places: list[Any] = connection.execute(sql, bindings).fetchall()
    found = [(place, _fetch_sound(unverified, place)) for (place,) in places]
    return FoundMessages(
        [row for _, row in found if row is not None], [place for place, row in found if row is None]
    )


def find_damaged(connection: apsw.Connection, places: Iterable[int]) -> list[int]:
    """Return those of the places whose messages are damaged. The connection need not verify pages."""
    return [place for place in places if _fetch_sound(connection, place) is None]


def _fetch_sound(connection: apsw.Connection, place: int) -> MessageRow | None:
    """Return the message at this place, or None if it is damaged or missing."""
    try:
        row = _fetch(connection, place)
    except (apsw.CorruptError, DataDamaged):
        return None
    return row if row is not None and row.is_sound else None


def _split(found: Iterable[MessageRow]) -> FoundMessages:
    """Separate the damaged messages from the others."""
    rows = list(found)
    damaged = [row.place for row in rows if not row.is_sound]
    return FoundMessages([row for row in rows if row.place not in damaged] if damaged else rows, damaged)


def _fetch(connection: apsw.Connection, place: int) -> MessageRow | None:
    """Return the message at this place, or None. It may be damaged; raise `DataDamaged` if it is no text."""
    try:
        row = connection.execute(_AT_PLACE, (place,)).fetchone()
    except UnicodeDecodeError as error:
        raise report_damaged([place]) from error
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
