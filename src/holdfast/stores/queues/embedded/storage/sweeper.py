"""Removal of expired messages, old deduplication ids and dropped lots, a few rows at a time.

It happens during other work: no thread, no long transaction. One send or receive in eight also runs a pass,
which removes more rows than eight of them can add, from any queue: so it reaches dead-letter queues and
unused queues too. Where nothing is sent, waiting receives look once a minute for rows to remove.
"""

from __future__ import annotations

from typing import Any, Final

import apsw

from holdfast.core.errors import DataDamaged
from holdfast.core.limits import DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS
from holdfast.stores.queues.embedded.storage import messages
from holdfast.stores.queues.embedded.storage.catalog import QueueRow

# Queue by queue, each by its own retention. CROSS makes SQLite keep this order, in which each lookup uses an
# index.
EXPIRED: Final = """
SELECT messages.lot, messages.place FROM queues CROSS JOIN messages INDEXED BY messages_age
WHERE messages.lot = queues.lot
  AND messages.sent_at <= ?1 - json_extract(CAST(queues.definition AS TEXT), '$.retention_s')
LIMIT ?2"""


def sweep(connection: apsw.Connection, now: float) -> bool:
    """Remove some expired messages, old deduplication ids and messages of dropped lots.

    Return False if there were none.
    """
    connection.execute(
        "DELETE FROM deduplications WHERE (queue, deduplication) IN "
        "(SELECT queue, deduplication FROM deduplications WHERE at <= ? ORDER BY at LIMIT ?)",
        (now - DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS),
    )
    found_ids = connection.changes() > 0
    places: list[Any] = connection.execute(EXPIRED, (now, QUEUE_SWEEP_ROWS)).fetchall()
    for lot, place in places:
        # Read one at a time: removing a head changes the message behind it. A damaged one goes too.
        try:
            row = messages.find_unchecked(connection, lot, place)
        except DataDamaged:
            messages.remove_unread(connection, place)
            continue
        if row is not None:
            messages.remove(connection, row)
    return clear_dropped(connection, QUEUE_SWEEP_ROWS) or found_ids or bool(places)


def is_sweep_due(connection: apsw.Connection, now: float) -> bool:
    """Return whether an expired message or a dropped lot waits to be removed. Writes nothing."""
    if connection.execute(EXPIRED, (now, 1)).fetchone() is not None:
        return True
    return connection.execute("SELECT 1 FROM lots WHERE dropped = 1 LIMIT 1").fetchone() is not None


def is_expired(row: messages.MessageRow, queue: QueueRow, now: float) -> bool:
    """Return whether the message is past its queue's retention."""
    return row.sent_at <= now - queue.definition.retention_s


def clear_dropped(connection: apsw.Connection, limit: int) -> bool:
    """Remove up to `limit` messages of one dropped lot, or the lot itself if it is empty.

    Return False when no dropped lot is left.
    """
    dropped = connection.execute("SELECT lot, messages FROM lots WHERE dropped = 1 LIMIT 1").fetchone()
    if dropped is None:
        return False
    lot, left = dropped
    if not left:
        connection.execute("DELETE FROM lots WHERE lot = ?", (lot,))
        return True
    connection.execute(
        "DELETE FROM messages WHERE place IN (SELECT place FROM messages WHERE lot = ? LIMIT ?)", (lot, limit)
    )
    return True
