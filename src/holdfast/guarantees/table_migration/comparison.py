"""Comparison of a migration's two tables: row counts, content checksums, and the rows that differ.

The digests of the source's rows are held in memory, so that both tables are read once and an unchanged row is
not transformed again: writers wait for the comparison at the switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from holdfast.guarantees.table_migration.declaration import Migration
from holdfast.guarantees.table_migration.rows import (
    Pulse,
    RowKey,
    compute_digest,
    format_checksum,
    format_row_key,
    get_row_key,
    iterate_items,
    move_row,
    skip_pulse,
)
from holdfast.guarantees.table_migration.settings import Progress, ignore_progress
from holdfast.model.entities import Entity
from holdfast.operations.values import Item
from holdfast.runtime import Stores

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)


@dataclass(frozen=True)
class Tally:
    """The number of rows, and a sum of their contents that does not depend on their order."""

    rows: int = 0
    total: int = 0

    def with_row(self, row_digest: int) -> Tally:
        """Return the tally with one more row of this digest."""
        return Tally(self.rows + 1, self.total + row_digest)

    @property
    def checksum(self) -> str:
        """The sum of the rows' digests in hex."""
        return format_checksum(self.total)


@dataclass(frozen=True)
class RowDifference:
    """A target key that differs from the source. `source` is None for a row that the source does not have."""

    kind: Literal["missing", "different", "too many", "collision"]
    target: RowKey
    source: RowKey | None

    def __str__(self) -> str:
        return (
            f"{format_row_key(self.target)} is {self.kind}"
            if self.kind != "collision"
            else f"{format_row_key(self.target)}: several"
        )


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. `source` counts the rows as they would be in the target."""

    source: Tally
    target: Tally
    differences: Sequence[RowDifference]

    @property
    def is_equal(self) -> bool:
        """True if no row differs, and counts and checksums are equal."""
        return not self.differences and self.source == self.target


@dataclass(frozen=True)
class MovedRow:
    """Digests of a source row and of the target row that it becomes, with its new key."""

    source: int
    target_key: RowKey
    target: int


async def compare(
    migration: Migration[S, T],
    stores: Stores,
    *,
    progress: Progress = ignore_progress,
    pulse: Pulse = skip_pulse,
    memory: dict[RowKey, MovedRow] | None = None,
) -> Comparison:
    """Read both tables completely and compare them; concurrent writes show as differences.

    `memory` holds the digests of source rows: pass it again, so that unchanged rows are not transformed
    again.
    """
    memory = {} if memory is None else memory
    expected: dict[RowKey, tuple[int, RowKey]] = {}
    differences: list[RowDifference] = []
    source = Tally()
    async for item in iterate_items(stores, migration.source, pulse):
        key = get_row_key(migration.source, item)
        moved = _move(migration, key, item, memory)
        source = source.with_row(moved.target)
        if moved.target_key in expected:
            differences.append(RowDifference("collision", moved.target_key, key))
        expected[moved.target_key] = (moved.target, key)
        progress("verify", source.rows, None)
    target = Tally()
    async for item in iterate_items(stores, migration.target, pulse):
        content, key = compute_digest(item), get_row_key(migration.target, item)
        target = target.with_row(content)
        wanted = expected.pop(key, None)
        if wanted is None:
            differences.append(RowDifference("too many", key, None))
        elif wanted[0] != content:
            differences.append(RowDifference("different", key, wanted[1]))
    differences += [RowDifference("missing", key, wanted[1]) for key, wanted in expected.items()]
    return Comparison(source, target, differences)


def _move(migration: Migration[S, T], key: RowKey, item: Item, memory: dict[RowKey, MovedRow]) -> MovedRow:
    """Return the digests of a row from `memory`, or transform the row and add them there."""
    content, known = compute_digest(item), memory.get(key)
    if known is None or known.source != content:
        row = move_row(migration, item)
        known = memory[key] = MovedRow(content, row.target_key, compute_digest(row.target_item))
    return known


async def tally_source(migration: Migration[S, T], stores: Stores, pulse: Pulse = skip_pulse) -> Tally:
    """Return the tally of the source, as it would be in the target."""
    tally = Tally()
    async for item in iterate_items(stores, migration.source, pulse):
        tally = tally.with_row(compute_digest(move_row(migration, item).target_item))
    return tally
