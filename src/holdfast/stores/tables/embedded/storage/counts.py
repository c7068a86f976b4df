"""Reads the item counts, byte counts and last sequence number that a table keeps with every write."""

from __future__ import annotations

import apsw


def read_counts(connection: apsw.Connection, number: int) -> dict[int, tuple[int, int]]:
    """Return the number of items and bytes by slot, for the table with this number.

    Slot 0 is the table itself.
    """
    rows = connection.execute("SELECT slot, items, bytes FROM counts WHERE number = ?", (number,))
    return {slot: (items, size) for slot, items, size in rows}


def read_last_sequence(connection: apsw.Connection, number: int) -> int:
    """Return the last sequence number used in the change log of the table with this number, or 0."""
    return connection.execute(  # type: ignore[no-any-return]
        "SELECT coalesce(max(seq), 0) FROM counts WHERE number = ? AND slot = 0", (number,)
    ).get
