"""What is over is removed a few rows at a time, as a by-product of other work: no thread, no long step.

A pass rides on one send or receive in eight and removes more rows than eight can add, of whichever queue:
dead letters and queues that nobody uses any more are reached too. Where nothing is sent, those who wait for
messages look once a minute whether there is something to remove.
"""

from __future__ import annotations

from typing import Any, Final

import apsw

from holdfast.core.limits import DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS
from holdfast.stores.queues.embedded.storage import messages
from holdfast.stores.queues.embedded.storage.catalog import QueueRow

# Queue by queue, each by its own retention. CROSS keeps SQLite to this order, in which each is a look into an
# index.
OVER: Final = """
SELECT messages.lot, messages.place FROM queues CROSS JOIN messages INDEXED BY messages_age
WHERE messages.lot = queues.lot
  AND messages.sent_at <= ?1 - json_extract(CAST(queues.definition AS TEXT), '$.retention_s')
LIMIT ?2"""


def sweep(connection: apsw.Connection, now: float) -> bool:
    """Some of what is over. False when nothing was left to remove."""
    connection.execute(
        "DELETE FROM deduplications WHERE (queue, deduplication) IN "
        "(SELECT queue, deduplication FROM deduplications WHERE at <= ? ORDER BY at LIMIT ?)",
        (now - DEDUPLICATION_WINDOW_S, QUEUE_SWEEP_ROWS),
    )
    found_ids = connection.changes() > 0
    places: list[Any] = connection.execute(OVER, (now, QUEUE_SWEEP_ROWS)).fetchall()
    for lot, place in places:
        # Read one by one: removing a head changes the one behind it.
        row = messages.at(connection, lot, place)
        if row is not None:
            messages.remove(connection, row)
    return clear_dropped(connection, QUEUE_SWEEP_ROWS) or found_ids or bool(places)


def is_due(connection: apsw.Connection, now: float) -> bool:
    """Whether there is a message that should be gone. A look that writes nothing."""
    if connection.execute(OVER, (now, 1)).fetchone() is not None:
        return True
    return connection.execute("SELECT 1 FROM lots WHERE dropped = 1 LIMIT 1").fetchone() is not None


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
