"""The deduplication ids a FIFO queue has seen within the window. They outlive the messages they came with."""

from __future__ import annotations

import apsw

from holdfast.core.limits import DEDUPLICATION_WINDOW_S


def first(connection: apsw.Connection, queue: int, deduplication: str, now: float) -> tuple[str, int] | None:
    """The id and place of the message that brought it within the window."""
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
