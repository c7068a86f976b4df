"""Both sides compared: how many rows, the sum of their contents, and which differ.

What the source would give is held in memory as digests of each row, so that both tables are read once, and a row that
has not changed since it was compared last need not be moved again: writers wait for the comparison at the switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from holdfast.guarantees.migration.declaration import Migration
from holdfast.guarantees.migration.rows import (
    Address,
    Pulse,
    address_of,
    checksum,
    digest,
    each_item,
    no_pulse,
    row_of,
    told,
)
from holdfast.guarantees.migration.settings import Progress, silent
from holdfast.model import Entity
from holdfast.operations.values import Item
from holdfast.runtime import Stores

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)


@dataclass(frozen=True)
class Tally:
    """How many rows, and a sum of what is in them that does not depend on their order."""

    rows: int = 0
    total: int = 0

    def with_row(self, row_digest: int) -> Tally:
        return Tally(self.rows + 1, self.total + row_digest)

    @property
    def checksum(self) -> str:
        return checksum(self.total)


@dataclass(frozen=True)
class Difference:
    """One place of the target that is not as the source would have it. `source` is None for a row too many."""

    kind: Literal["missing", "different", "too many", "collision"]
    target: Address
    source: Address | None

    def __str__(self) -> str:
        return (
            f"{told(self.target)} is {self.kind}"
            if self.kind != "collision"
            else f"{told(self.target)}: several"
        )


@dataclass(frozen=True)
class Comparison:
    """`source` counts the rows as they would be in the target."""

    source: Tally
    target: Tally
    differences: Sequence[Difference]

    @property
    def is_equal(self) -> bool:
        return not self.differences and self.source == self.target


@dataclass(frozen=True)
class Moved:
    """A source row with this content becomes a target row with that key and that content."""

    source: int
    target_key: Address
    target: int


async def compare(
    migration: Migration[S, T],
    stores: Stores,
    *,
    progress: Progress = silent,
    pulse: Pulse = no_pulse,
    memory: dict[Address, Moved] | None = None,
) -> Comparison:
    """Reads both tables whole. What is written meanwhile shows as a difference. `memory` is kept for the next time."""
    memory = {} if memory is None else memory
    expected: dict[Address, tuple[int, Address]] = {}
    differences: list[Difference] = []
    source = Tally()
    async for item in each_item(stores, migration.source, pulse):
        key = address_of(migration.source, item)
        moved = _moved(migration, key, item, memory)
        source = source.with_row(moved.target)
        if moved.target_key in expected:
            differences.append(Difference("collision", moved.target_key, key))
        expected[moved.target_key] = (moved.target, key)
        progress("verify", source.rows, None)
    target = Tally()
    async for item in each_item(stores, migration.target, pulse):
        content, key = digest(item), address_of(migration.target, item)
        target = target.with_row(content)
        wanted = expected.pop(key, None)
        if wanted is None:
            differences.append(Difference("too many", key, None))
        elif wanted[0] != content:
            differences.append(Difference("different", key, wanted[1]))
    differences += [Difference("missing", key, wanted[1]) for key, wanted in expected.items()]
    return Comparison(source, target, differences)


def _moved(migration: Migration[S, T], key: Address, item: Item, memory: dict[Address, Moved]) -> Moved:
    content, known = digest(item), memory.get(key)
    if known is None or known.source != content:
        row = row_of(migration, item)
        known = memory[key] = Moved(content, row.target_key, digest(row.target_item))
    return known


async def source_tally(migration: Migration[S, T], stores: Stores, pulse: Pulse = no_pulse) -> Tally:
    """The source alone, as it would be in the target."""
    tally = Tally()
    async for item in each_item(stores, migration.source, pulse):
        tally = tally.with_row(digest(row_of(migration, item).target_item))
    return tally
