"""State that the units of work of one transaction share: the catalog, counts and sequence numbers.

Counts and sequence numbers stay in memory while the transaction runs and are written once before the commit,
however many writes it contains. A refused write leaves nothing here.
"""

from __future__ import annotations

from typing import Final

import apsw

from holdfast.stores.tables.embedded.storage import counts
from holdfast.stores.tables.embedded.storage.catalog import Catalog

_UPDATE_COUNTS: Final = "UPDATE counts SET items = items + ?, bytes = bytes + ? WHERE number = ? AND slot = ?"
_UPDATE_SEQUENCE: Final = "UPDATE counts SET seq = ? WHERE number = ? AND slot = 0"

Tallies = dict[tuple[int, int], list[int]]
"""Added items and bytes (negative if removed), by table number and index slot."""


class TransactionState:
    """The shared state of one transaction. `tallies` contain only units that succeeded.

    `catalog` is None until it is first needed, and again after a change.
    """

    __slots__ = ("_connection", "_sequences", "catalog", "tallies")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.tallies: Tallies = {}
        self._sequences: dict[int, int] = {}
        self.catalog: Catalog | None = None

    def allocate_sequence(self, number: int) -> int:
        """Return the next sequence number of a table's change log.

        The number of a failed write is not used again.
        """
        self._sequences[number] = following = self.get_last_sequence(number) + 1
        return following

    def get_last_sequence(self, number: int) -> int:
        """Return the last sequence number used in a table's change log, including this transaction."""
        last = self._sequences.get(number)
        return counts.read_last_sequence(self._connection, number) if last is None else last

    def add_tallies(self, tallies: Tallies) -> None:
        """Add the tallies of a unit that succeeded."""
        for key, (items, size) in tallies.items():
            known = self.tallies.get(key)
            if known is None:
                self.tallies[key] = [items, size]
            else:
                known[0] += items
                known[1] += size

    def flush(self) -> None:
        """Write the counts and sequence numbers to the file, before the commit."""
        for (number, slot), (items, size) in self.tallies.items():
            self._connection.execute(_UPDATE_COUNTS, (items, size, number, slot))
        for number, seq in self._sequences.items():
            self._connection.execute(_UPDATE_SEQUENCE, (seq, number))
