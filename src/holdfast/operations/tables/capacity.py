"""The capacity units that an operation consumed."""

from __future__ import annotations

import msgspec


class Units(msgspec.Struct, frozen=True):
    """Read and write units of one table or one index."""

    read: float = 0.0
    write: float = 0.0

    @property
    def total(self) -> float:
        return self.read + self.write

    def __add__(self, other: Units) -> Units:
        return Units(self.read + other.read, self.write + other.write)


class ConsumedCapacity(msgspec.Struct, frozen=True):
    """The units consumed on one table and on each of its indexes.

    `transactional` operations report reads and writes separately, as DynamoDB does.
    """

    table: str
    own: Units
    local_indexes: dict[str, Units] = {}
    global_indexes: dict[str, Units] = {}
    transactional: bool = False

    @property
    def total(self) -> Units:
        """The units of the table and of all its indexes together."""
        units = self.own
        for index in (*self.local_indexes.values(), *self.global_indexes.values()):
            units += index
        return units
