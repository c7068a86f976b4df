"""Both sides compared: how many rows, the sum of their contents, and which differ.

What the source would give is held in memory as one digest per row, so that both tables are read once.
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


async def compare(
    migration: Migration[S, T], stores: Stores, *, progress: Progress = silent, pulse: Pulse = no_pulse
) -> Comparison:
    """Reads both tables whole. What is written meanwhile shows as a difference."""
    expected: dict[Address, tuple[int, Address]] = {}
    differences: list[Difference] = []
    source = Tally()
    async for item in each_item(stores, migration.source, pulse):
        row = row_of(migration, item)
        content = digest(row.target_item)
        source = source.with_row(content)
        if row.target_key in expected:
            differences.append(Difference("collision", row.target_key, row.key))
        expected[row.target_key] = (content, row.key)
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


async def source_tally(migration: Migration[S, T], stores: Stores, pulse: Pulse = no_pulse) -> Tally:
    """The source alone, as it would be in the target."""
    tally = Tally()
    async for item in each_item(stores, migration.source, pulse):
        tally = tally.with_row(digest(row_of(migration, item).target_item))
    return tally
