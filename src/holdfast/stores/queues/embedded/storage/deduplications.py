"""The deduplication ids that a FIFO queue has seen within the window; they outlive their messages."""

from __future__ import annotations

import apsw

from holdfast.core.limits import DEDUPLICATION_WINDOW_S


def find_first(
    connection: apsw.Connection, queue: int, deduplication: str, now: float
) -> tuple[str, int] | None:
    """Return the id and place of the message that first used this deduplication id within the window, or
    None.

    `queue` is the queue's number.
    """
    row: tuple[str, int] | None = connection.execute(
        "SELECT id, place FROM deduplications WHERE queue = ? AND deduplication = ? AND at > ?",
        (queue, deduplication, now - DEDUPLICATION_WINDOW_S),
    ).fetchone()
    return row


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
