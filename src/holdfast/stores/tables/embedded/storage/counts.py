"""Item and byte counts of a table and its indexes, updated with every write."""

from __future__ import annotations

import apsw


def of_table(connection: apsw.Connection, number: int) -> dict[int, tuple[int, int]]:
    """Return items and bytes by slot; slot 0 is the table itself."""
    rows = connection.execute("SELECT slot, items, bytes FROM counts WHERE number = ?", (number,))
    return {slot: (items, size) for slot, items, size in rows}


def last_sequence(connection: apsw.Connection, number: int) -> int:
    """Return the last number used in a table's change log."""
    return connection.execute(  # type: ignore[no-any-return]
        "SELECT coalesce(max(seq), 0) FROM counts WHERE number = ? AND slot = 0", (number,)
    ).get
