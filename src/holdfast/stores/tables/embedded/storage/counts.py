"""Item and byte counts of a table and its indexes, updated with every write."""

from __future__ import annotations

import apsw


def read_counts(connection: apsw.Connection, number: int) -> dict[int, tuple[int, int]]:
    """Return the number of items and bytes by slot. Slot 0 is the table itself."""
    rows = connection.execute("SELECT slot, items, bytes FROM counts WHERE number = ?", (number,))
    return {slot: (items, size) for slot, items, size in rows}


def read_last_sequence(connection: apsw.Connection, number: int) -> int:
    """Return the last sequence number used in a table's change log."""
    return connection.execute(  # type: ignore[no-any-return]
        "SELECT coalesce(max(seq), 0) FROM counts WHERE number = ? AND slot = 0", (number,)
    ).get
