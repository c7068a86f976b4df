"""Storage of the client request tokens of transactions, each with the fingerprint of its request."""

from __future__ import annotations

import apsw


def find(connection: apsw.Connection, token: str, since: float) -> bytes | None:
    """Return the fingerprint of the request that used the token after `since`, or None."""
    row = connection.execute(
        "SELECT fingerprint FROM tokens WHERE token = ? AND at > ?", (token, since)
    ).fetchone()
    return None if row is None else row[0]


def save(connection: apsw.Connection, token: str, fingerprint: bytes, now: float) -> None:
    """Store the token of a request."""
    connection.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (token, fingerprint, now))


def trim(connection: apsw.Connection, before: float, limit: int) -> int:
    """Delete up to `limit` tokens used up to a time, oldest first. Return how many."""
    connection.execute(
        "DELETE FROM tokens WHERE token IN (SELECT token FROM tokens WHERE at <= ? ORDER BY at LIMIT ?)",
        (before, limit),
    )
    return connection.changes()


def has_older(connection: apsw.Connection, before: float) -> bool:
    """Return whether a token was used up to a time."""
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM tokens WHERE at <= ?)", (before,)).get)
