"""The deduplication ids that a FIFO queue has seen within the window; they outlive their messages."""

from __future__ import annotations

import apsw

from holdfast.core.deadlines import DeadlineWatch
from holdfast.core.limits import DEDUPLICATION_WINDOW_S


def find_first(
    connection: apsw.Connection, queue: int, deduplication: str, deadlines: DeadlineWatch
) -> tuple[str, int] | None:
    """Return the id and place of the message that first used this deduplication id within the window, or
    None.

    `queue` is the queue's number.
    """
    row = connection.execute(
        "SELECT at, id, place FROM deduplications WHERE queue = ? AND deduplication = ?",
        (queue, deduplication),
    ).fetchone()
    if row is None:
        return None
    at, id, place = row
    ends_at, window_s = at + DEDUPLICATION_WINDOW_S, DEDUPLICATION_WINDOW_S
    left_s = deadlines.compute_left_s((queue, deduplication), at, ends_at, window_s)
    return (id, place) if left_s > 0 else None


def record(
    connection: apsw.Connection, queue: int, deduplication: str, now: float, sent: tuple[str, int]
) -> None:
    """Remember that the queue with this number has seen the deduplication id now.

    `sent` is the message's id and place.
    """
    connection.execute(
        "INSERT OR REPLACE INTO deduplications (queue, deduplication, at, id, place) VALUES (?, ?, ?, ?, ?)",
        (queue, deduplication, now, *sent),
    )
