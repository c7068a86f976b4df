"""The deduplication ids that a FIFO queue has seen within the window. They outlive their messages."""

from __future__ import annotations

import apsw

from holdfast.core.limits import DEDUPLICATION_WINDOW_S


def first(connection: apsw.Connection, queue: int, deduplication: str, now: float) -> tuple[str, int] | None:
    """Return the id and place of the message that first used this deduplication id within the window, or
    None.
    """
    row: tuple[str, int] | None = connection.execute(
        "SELECT id, place FROM deduplications WHERE queue = ? AND deduplication = ? AND at > ?",
        (queue, deduplication, now - DEDUPLICATION_WINDOW_S),
    ).fetchone()
    return row


def note(
    connection: apsw.Connection, queue: int, deduplication: str, now: float, sent: tuple[str, int]
) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO deduplications (queue, deduplication, at, id, place) VALUES (?, ?, ?, ?, ?)",
        (queue, deduplication, now, *sent),
    )
