"""Removal of expired messages, old deduplication ids and dropped lots, a few rows at a time.

It happens during other work: no thread, no long transaction. One send or receive in eight also runs a pass,
which removes more rows than eight of them can add, from any queue: so it reaches dead-letter queues and
unused queues too. Where nothing is sent, waiting receives look once a minute for rows to remove.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import Any, Final

import apsw

from holdfast.core.errors import DataDamaged
from holdfast.core.limits import DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS
from holdfast.stores.queues.embedded.storage import messages
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.queues.embedded.storage.messages import IsReadable, assume_readable

log = logging.getLogger(__name__)

# Queue by queue, each by its own retention. CROSS makes SQLite keep this order, in which each lookup uses an
# index.
EXPIRED: Final = """
SELECT messages.lot, messages.place FROM queues CROSS JOIN messages INDEXED BY messages_age
WHERE messages.lot = queues.lot
  AND messages.sent_at <= ?1 - json_extract(CAST(queues.definition AS TEXT), '$.retention_s')
LIMIT ?2"""


def sweep(connection: apsw.Connection, now: float, is_readable: IsReadable = assume_readable) -> bool:
    """Remove some expired messages, old deduplication ids and messages of dropped lots.

    Return False if there were none. An unreadable message cannot be removed and stays.
    """
    connection.execute(
        "DELETE FROM deduplications WHERE (queue, deduplication) IN "
        "(SELECT queue, deduplication FROM deduplications WHERE at <= ? ORDER BY at LIMIT ?)",
        (now - DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS),
    )
    found_ids = connection.changes() > 0
    found: list[Any] = connection.execute(EXPIRED, (now, QUEUE_SWEEP_ROWS)).fetchall()
    expired = [(lot, place) for lot, place in found if is_readable(place)]
    for lot, place in expired:
        # Read one at a time: removing a head changes the message behind it. A damaged one goes too.
        try:
            row = messages.find_header(connection, lot, place)
        except DataDamaged:
            messages.remove_unread(connection, place)
            continue
        if row is not None:
            messages.remove(connection, row, is_readable)
    return clear_dropped(connection, QUEUE_SWEEP_ROWS, is_readable) or found_ids or bool(expired)


def is_sweep_due(connection: apsw.Connection, now: float) -> bool:
    """Return whether an expired message or a dropped lot waits to be removed. Writes nothing."""
    if connection.execute(EXPIRED, (now, 1)).fetchone() is not None:
        return True
    return connection.execute("SELECT 1 FROM lots WHERE dropped = 1 LIMIT 1").fetchone() is not None


def is_expired(row: messages.MessageRow, queue: QueueRow, now: float) -> bool:
    """Return whether the message is past its queue's retention."""
    return row.sent_at <= now - queue.definition.retention_s


def clear_dropped(connection: apsw.Connection, limit: int, is_readable: IsReadable = assume_readable) -> bool:
    """Remove up to `limit` messages of one dropped lot, or the lot itself if it is empty.

    Return False when no dropped lot is left. A lot of unreadable messages alone is abandoned.
    """
    dropped = connection.execute("SELECT lot, messages FROM lots WHERE dropped = 1 LIMIT 1").fetchone()
    if dropped is None:
        return False
    lot, left = dropped
    if not left:
        connection.execute("DELETE FROM lots WHERE lot = ?", (lot,))
        return True
    if is_readable is assume_readable:
        connection.execute(
            "DELETE FROM messages WHERE place IN (SELECT place FROM messages WHERE lot = ? LIMIT ?)",
            (lot, limit),
        )
    else:
        _clear_readable(connection, lot, limit, is_readable)
    return True


def _clear_readable(connection: apsw.Connection, lot: int, limit: int, is_readable: IsReadable) -> None:
    """Remove up to `limit` readable messages of the lot, or abandon the lot if it has none."""
    found: list[Any] = connection.execute("SELECT place FROM messages WHERE lot = ?", (lot,)).fetchall()
    readable = list(islice((place for (place,) in found if is_readable(place)), limit))
    for place in readable:
        messages.remove_unread(connection, place)
    if not readable:
        connection.execute("UPDATE lots SET dropped = 2 WHERE lot = ?", (lot,))
        log.warning(
            "%d damaged messages of a purged or deleted queue cannot be removed from the queues file: their "
            "content stays on the disk until the queues are restored from a backup.",
            len(found),
        )
