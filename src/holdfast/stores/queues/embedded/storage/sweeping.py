"""What is over is removed a few rows at a time, as a by-product of sending and receiving: no thread, no long step.

A pass rides on one unit of work in eight and removes more than eight can add, so nothing piles up.
"""

from __future__ import annotations

import apsw

from holdfast.limits import DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS
from holdfast.stores.queues.embedded.storage import messages
from holdfast.stores.queues.embedded.storage.catalog import QueueRow


def sweep(connection: apsw.Connection, queue: QueueRow, now: float) -> None:
    connection.execute(
        "DELETE FROM deduplications WHERE (queue, deduplication) IN "
        "(SELECT queue, deduplication FROM deduplications WHERE at <= ? ORDER BY at LIMIT ?)",
        (now - DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS),
    )
    sent_until = now - queue.definition.retention_s
    for place in messages.places_over(connection, queue.lot, sent_until, QUEUE_SWEEP_ROWS):
        # Read one by one: removing a head changes the one behind it.
        row = messages.at(connection, queue.lot, place)
        if row is not None:
            messages.remove(connection, row)
    clear_dropped(connection, QUEUE_SWEEP_ROWS)


def is_over(row: messages.MessageRow, queue: QueueRow, now: float) -> bool:
    """Whether its retention has passed."""
    return row.sent_at <= now - queue.definition.retention_s


def clear_dropped(connection: apsw.Connection, limit: int) -> bool:
    """Some messages of a lot that no queue has any more. False when there are none left."""
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
