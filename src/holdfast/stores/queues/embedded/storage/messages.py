"""The messages of a lot: insert, find due ones, hold, remove and count.

A FIFO group that is not empty has exactly one head, the message that may be received next.

Each message has a checksum. A search returns the damaged ones apart from the others. If a page of the file is
damaged, its messages are found by the indexes and read one by one, so that the others can still be served.
A message of several pages may be unreadable: a page in its middle does not name the next one. SQLite then
refuses every later write of the transaction that has read it, so `IsReadable` looks by another connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import msgspec
from isal.isal_zlib import crc32

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
_HEADER_AT_PLACE: Final = 'SELECT place, lot, "group", due, token FROM messages WHERE place = ?'
# The last column, which SQLite reaches by all pages of the message.
_LAST_COLUMN: Final = "SELECT sum FROM messages WHERE place = ?"
_FIRST_OF_GROUPS: Final = """SELECT min(place) FROM messages INDEXED BY messages_group
                             WHERE lot = ? AND "group" IS NOT NULL GROUP BY "group" """
LAST_PLACE: Final = 2**63 - 1
NEXT_DUE: Final = "SELECT min(due) FROM messages WHERE lot = ? AND due IS NOT NULL"
_NEXT_DUE_BUT: Final = NEXT_DUE + " AND place NOT IN (SELECT value FROM json_each(?))"
HEAD: Final = 'SELECT place, due FROM messages WHERE lot = ? AND "group" = ? ORDER BY place LIMIT 1'
# The messages with the latest `due`, of which a clock that was ahead may have hidden some for too long.
LATEST: Final = """
SELECT place, due, hidden_s, token FROM messages WHERE lot = ? AND due > ? ORDER BY due DESC LIMIT ?"""
_LATEST_PLACES: Final = """SELECT place FROM messages INDEXED BY messages_due
                           WHERE lot = ? AND due IS NOT NULL AND due > ? ORDER BY due DESC LIMIT ?"""
_INSERT: Final = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, hidden_s, receives, token,
                      died_in, attributes, body, sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
# A message behind the head of its group is not due, however long it has waited. That changes its sum, too.
_INSERT_IN_GROUP: Final = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, hidden_s, receives, token,
                      died_in, attributes, body, sum)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, iif(is_head, ?7, NULL), ?8, ?9, ?10, ?11, ?12, ?13, iif(is_head, ?14, ?15)
FROM (SELECT NOT EXISTS (SELECT 1 FROM messages WHERE lot = ?1 AND "group" = ?3) AS is_head)"""
_UPDATE: Final = "UPDATE messages SET due = ?, hidden_s = ?, receives = ?, token = ?, sum = ? WHERE place = ?"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode
_pack = msgspec.msgpack.Encoder().encode

IsReadable: TypeAlias = Callable[[int], bool]
"""A function that returns whether SQLite can read the message at a place to its end."""


def assume_readable(place: int) -> bool:
    """Return that a message is readable, in a file without known damage."""
    return True


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
        return compute_sum(self[1:-1]) == self.sum


# Among the columns that have a checksum: without the place.
_DUE: Final = MessageRow._fields.index("due") - 1


class FoundMessages(NamedTuple):
    """Messages that a search found, and the places of others that are damaged."""

    rows: list[MessageRow]
    damaged: list[int]


class MessageHeader(NamedTuple):
    """The columns of a message that its removal needs. They are on its first page."""

    place: int
    lot: int
    group: str | None
    due: float | None
    token: str | None


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
    """Return the checksum of a message: of all columns from `lot` to `body`, packed as MessagePack.

    The columns have the types that SQLite returns: times are floats, and texts are of no subclass of `str`.
    The place is left out: the indexes have it too.
    """
    return crc32(_pack(columns))


def insert(connection: apsw.Connection, lot: int, message: NewMessage) -> int:
    """Insert a message at the end of the lot and of its group, and return its place.

    A message behind the head of its group is not due, however long it has waited.
    """
    available_at = float(message.available_at)
    columns = (
        *(lot, message.id, _to_text(message.group), _to_text(message.deduplication)),
        *(float(message.sent_at), available_at, available_at, float(message.hidden_s)),
        *(message.receives, None, message.died_in, message.attributes, _to_text(message.body)),
    )
    if message.group is None:
        connection.execute(_INSERT, (*columns, compute_sum(columns)))
    else:
        behind = (*columns[:_DUE], None, *columns[_DUE + 1 :])
        connection.execute(_INSERT_IN_GROUP, (*columns, compute_sum(columns), compute_sum(behind)))
    return connection.last_insert_rowid()


def _to_text(value: str | None) -> str | None:
    """Return the text of a value that may be of a subclass of `str`, such as an enumeration."""
    return None if value is None else str.__str__(value)


def remove(connection: apsw.Connection, row: MessageRow | MessageHeader, is_readable: IsReadable) -> None:
    """Remove a message that is readable. If it was the head of its group, the next one becomes the head."""
    connection.execute("DELETE FROM messages WHERE place = ?", (row.place,))
    if row.group is None or row.due is None:
        return
    head = _find_head(connection, row.lot, row.group)
    # An unreadable message cannot be changed: `find_headless` reports it.
    if head is not None and is_readable(head[0]):
        _make_due(connection, head[0])


def remove_unread(connection: apsw.Connection, place: int) -> None:
    """Remove a message that is of a dropped lot, or whose text is damaged, without reading it."""
    connection.execute("DELETE FROM messages WHERE place = ?", (place,))


def _make_due(connection: apsw.Connection, place: int) -> None:
    """Make a message the head of its group, which is due when it is available."""
    try:
        row = _fetch(connection, place)
    except DataDamaged:
        # The receive that finds it reports it.
        connection.execute("UPDATE messages SET due = available_at WHERE place = ?", (place,))
        return
    if row is not None:
        _update(connection, row, row.available_at, row.hidden_s, row.receives, row.token)


def hold(connection: apsw.Connection, row: MessageRow, now: float, seconds: float, token: str) -> None:
    """Hold a message for a receiver: hide it for `seconds`, count the receive and set its receipt's token."""
    _update_sound(connection, row, now + seconds, seconds, row.receives + 1, token)


def undo_hold(connection: apsw.Connection, row: MessageRow, now: float) -> None:
    """Undo a hold: make the message visible and its receipt invalid, and do not count the receive."""
    _update_sound(connection, row, now, 0.0, row.receives - 1, None)


def hide(connection: apsw.Connection, row: MessageRow, now: float, seconds: float) -> None:
    """Hide the message for `seconds` from now."""
    _update_sound(connection, row, now + seconds, seconds, row.receives, row.token)


def find_latest(connection: apsw.Connection, lot: int, now: float, limit: int) -> list[HiddenMessage]:
    """Return those of the messages with the latest `due` that are due later than they were hidden for."""
    latest = [HiddenMessage(*row) for row in connection.execute(LATEST, (lot, now, limit))]
    return [each for each in latest if each.due > now + each.max_s]


def find_latest_alone(
    connection: apsw.Connection, lot: int, now: float, limit: int, unverified: apsw.Connection
) -> list[HiddenMessage]:
    """Return what `find_latest` does, in a file with damaged pages: of the sound messages."""
    fetch = partial(_fetch_readable, unverified)
    found = _read_alone(connection, _LATEST_PLACES, (lot, now, limit), fetch)
    latest = [HiddenMessage(row.place, row.due or now, row.hidden_s, row.token) for row in found.rows]
    return [each for each in latest if each.due > now + each.max_s]


def show(connection: apsw.Connection, lot: int, message: HiddenMessage, now: float) -> None:
    """Make a hidden message due now, unless it was changed since it was read."""
    row = find_unchecked(connection, lot, message.place)
    if row is not None and (row.due, row.token) == (message.due, message.token):
        _update(connection, row, now, 0.0, row.receives, row.token)


def _update(
    connection: apsw.Connection,
    row: MessageRow,
    due: float,
    hidden_s: float | None,
    receives: int,
    token: str | None,
) -> None:
    """Change when a message is due, its receives or its token. A damaged one stays recognisable as such."""
    if row.is_sound:
        _update_sound(connection, row, due, hidden_s, receives, token)
    else:
        connection.execute(_UPDATE, (due, hidden_s, receives, token, row.sum, row.place))


def _update_sound(
    connection: apsw.Connection,
    row: MessageRow,
    due: float,
    hidden_s: float | None,
    receives: int,
    token: str | None,
) -> None:
    """Change what `_update` does, of a message that was compared with its checksum."""
    changes = (float(due), None if hidden_s is None else float(hidden_s), receives, token)
    columns = row[1:-1]
    row_sum = compute_sum((*columns[:_DUE], *changes, *columns[_DUE + len(changes) :]))
    connection.execute(_UPDATE, (*changes, row_sum, row.place))


def find_due(connection: apsw.Connection, lot: int, now: float, limit: int) -> FoundMessages:
    """Return the messages that may be received now, longest due first, at most one of each FIFO group."""
    try:
        return _split(starmap(MessageRow, connection.execute(DUE, (lot, now, limit))))
    except UnicodeDecodeError:
        return find_due_alone(connection, lot, now, limit)


def find_due_alone(
    connection: apsw.Connection, lot: int, now: float, limit: int, is_readable: IsReadable = assume_readable
) -> FoundMessages:
    """Return what `find_due` does, in a file with damaged pages: each readable message is read alone."""
    fetch = partial(_fetch_if_readable, connection, is_readable)
    return _read_alone(connection, _DUE_PLACES, (lot, now, limit), fetch)


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
        return _split(starmap(MessageRow, connection.execute(OLDEST, (lot, *after, limit))))
    except UnicodeDecodeError:
        return list_oldest_alone(connection, lot, limit, after)


def list_oldest_alone(
    connection: apsw.Connection,
    lot: int,
    limit: int,
    after: tuple[float, int],
    is_readable: IsReadable = assume_readable,
) -> FoundMessages:
    """Return what `list_oldest` does, in a file with damaged pages: each readable message is read alone."""
    fetch = partial(_fetch_if_readable, connection, is_readable)
    return _read_alone(connection, _OLDEST_PLACES, (lot, *after, limit), fetch)


def browse_oldest_alone(
    connection: apsw.Connection,
    unverified: apsw.Connection,
    lot: int,
    limit: int,
    after: tuple[float, int],
) -> FoundMessages:
    """Return what `list_oldest_alone` does, with two reading connections, one of which verifies no pages."""
    fetch = partial(_fetch_readable, unverified)
    return _read_alone(connection, _OLDEST_PLACES, (lot, *after, limit), fetch)


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


def find_header(connection: apsw.Connection, lot: int, place: int) -> MessageHeader | None:
    """Return the header of the message at this place of the lot, or None. Raise `DataDamaged` if it is no
    text.
    """
    try:
        row = connection.execute(_HEADER_AT_PLACE, (place,)).fetchone()
    except UnicodeDecodeError as error:
        raise report_damaged([place]) from error
    return None if row is None or row[1] != lot else MessageHeader(*row)


def find_headless(connection: apsw.Connection, lot: int, damaged: Collection[int]) -> list[int]:
    """Return the places of the messages that are first in their groups, if none of the lot is due at any time
    but those at the places `damaged`.

    In a sound file each group has a message that is due, now or later. An unreadable one that came to the
    head of its group cannot be changed to be due.
    """
    if find_next_due(connection, lot, damaged) is not None:
        return []
    found: list[Any] = connection.execute(_FIRST_OF_GROUPS, (lot,)).fetchall()
    return [place for (place,) in found]


def is_readable(connection: apsw.Connection, place: int) -> bool:
    """Return whether SQLite can read the message at this place to its end, or it does not exist."""
    try:
        connection.execute(_LAST_COLUMN, (place,)).fetchone()
    except apsw.CorruptError:
        return False
    return True


def report_damaged(places: Sequence[int], queue: str | None = None) -> DataDamaged:
    """Return the error for messages that do not match their checksums."""
    where = "" if queue is None else f" of the queue {queue}"
    return DataDamaged(
        f"{_name(places)}{where} (by place) cannot be received: it does not match its checksum. Restore the "
        "queues from a backup, or purge the queue; other messages are served."
    )


def report_undeletable(places: Sequence[int], queue: str) -> DataDamaged:
    """Return the error for messages that were received and cannot be removed from their file."""
    return DataDamaged(
        f"{_name(places)} of the queue {queue} (by place) cannot be deleted: SQLite cannot read all its "
        "pages. Restore the queues from a backup, or purge the queue; other messages were deleted."
    )


def _name(places: Sequence[int]) -> str:
    """Name messages by their places."""
    return f"Message {places[0]}" if len(places) == 1 else f"Messages {', '.join(map(str, places))}"


def _read_alone(
    connection: apsw.Connection,
    sql: str,
    bindings: tuple[Any, ...],
    fetch: Callable[[int], MessageRow | None],
) -> FoundMessages:
    """Return the messages at the places that a statement finds in an index, each fetched by itself."""
    places: list[Any] = connection.execute(sql, bindings).fetchall()
    found = [(place, fetch(place)) for (place,) in places]
    return FoundMessages(
        [row for _, row in found if row is not None], [place for place, row in found if row is None]
    )


def find_damaged(connection: apsw.Connection, places: Iterable[int]) -> list[int]:
    """Return those of the places whose messages are damaged. The connection need not verify pages."""
    return [place for place in places if _fetch_readable(connection, place) is None]


def _fetch_if_readable(connection: apsw.Connection, is_readable: IsReadable, place: int) -> MessageRow | None:
    """Return what `_fetch_sound` does, by a connection that writes."""
    return _fetch_sound(connection, place) if is_readable(place) else None


def _fetch_readable(connection: apsw.Connection, place: int) -> MessageRow | None:
    """Return what `_fetch_sound` does, by a connection that does not write."""
    try:
        return _fetch_sound(connection, place)
    except apsw.CorruptError:
        return None


def _fetch_sound(connection: apsw.Connection, place: int) -> MessageRow | None:
    """Return the message at this place, or None if it is damaged or missing."""
    try:
        row = _fetch(connection, place)
    except DataDamaged:
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
    return head is not None and head[1] is not None and head[1] > now


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


def _find_head(connection: apsw.Connection, lot: int, group: str) -> tuple[int, float | None] | None:
    """Return place and due time of the first message of the group, or None."""
    row: tuple[int, float | None] | None = connection.execute(HEAD, (lot, group)).fetchone()
    return row
