"""State that the writes of one transaction share: the catalog, the counts and the log numbers.

Counts and log numbers stay in memory while the transaction runs and are written once before the commit,
however many writes it contains. A refused write leaves nothing here.
"""

from __future__ import annotations

from typing import Final

import apsw

from holdfast.stores.tables.embedded.storage import counts
from holdfast.stores.tables.embedded.storage.catalog import Catalog

_TALLY: Final = "UPDATE counts SET items = items + ?, bytes = bytes + ? WHERE number = ? AND slot = ?"
_NUMBER: Final = "UPDATE counts SET seq = ? WHERE number = ? AND slot = 0"

Tallies = dict[tuple[int, int], list[int]]
"""By table number and index slot: how many items and bytes more."""


class Shared:
    """The shared state. `catalog` is None until it is first needed, and again after a change. `tallies`
    contain only units that succeeded.
    """

    __slots__ = ("_connection", "_sequences", "catalog", "tallies")

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.tallies: Tallies = {}
        self._sequences: dict[int, int] = {}
        self.catalog: Catalog | None = None

    def next_sequence(self, number: int) -> int:
        """Return the next number in a table's change log. A number used by a failed write is not used
        again.
        """
        self._sequences[number] = following = self.last_sequence(number) + 1
        return following

    def last_sequence(self, number: int) -> int:
        last = self._sequences.get(number)
        return counts.last_sequence(self._connection, number) if last is None else last

    def add(self, tallies: Tallies) -> None:
        for key, (items, size) in tallies.items():
            known = self.tallies.get(key)
            if known is None:
                self.tallies[key] = [items, size]
            else:
                known[0] += items
                known[1] += size

    def write_down(self) -> None:
        for (number, slot), (items, size) in self.tallies.items():
            self._connection.execute(_TALLY, (items, size, number, slot))
        for number, seq in self._sequences.items():
            self._connection.execute(_NUMBER, (seq, number))
