"""The plan: every row tried before anything is written, and what stands in the way reported all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from holdfast.errors import DeclarationError, NotFound
from holdfast.guarantees.migration.declaration import Migration
from holdfast.guarantees.migration.rows import (
    Address,
    Pulse,
    address_of,
    each_item,
    no_pulse,
    row_of,
    told,
)
from holdfast.guarantees.migration.settings import Progress, silent
from holdfast.model import Entity, declaration_of
from holdfast.operations.values import Item
from holdfast.runtime import Stores, describe

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

EXAMPLES_MAX: Final = 20


@dataclass(frozen=True)
class Plan:
    """What a migration would do. The lists name a few; the numbers count all."""

    rows: int
    # Rows that their entity cannot read or the transformation refuses, with the reason.
    unmovable: Sequence[str]
    unmovable_count: int
    # New keys that several rows would have, with those rows.
    collisions: Sequence[str]
    collision_count: int
    # What the simpler key would lose: for information.
    plain_key: str
    plain_key_lost: int
    # Rows of the target that no row of the source gives: the migration would have to delete them.
    strangers: Sequence[str]
    stranger_count: int
    target_rows: int

    @property
    def is_possible(self) -> bool:
        return not (self.unmovable_count or self.collision_count or self.stranger_count)

    def obstacles(self) -> str:
        """What stands in the way, and what to do about it."""
        parts = []
        if self.collision_count:
            parts.append(
                f"{self.collision_count} new keys belong to several rows each ({'; '.join(self.collisions[:3])}): put "
                "an attribute that tells them apart into the new key, or mend the rows"
            )
        if self.unmovable_count:
            parts.append(
                f"{self.unmovable_count} rows cannot be moved ({'; '.join(self.unmovable[:3])}): mend them, or the "
                "transformation"
            )
        if self.stranger_count:
            parts.append(
                f"the target has {self.stranger_count} rows that no row of the source gives "
                f"({'; '.join(self.strangers[:3])}): delete them, or choose another table"
            )
        return ". ".join(parts)


async def plan(
    migration: Migration[S, T], stores: Stores, *, progress: Progress = silent, pulse: Pulse = no_pulse
) -> Plan:
    """Tries every row. Nothing is written."""
    expected = await _rows_expected(migration, stores)
    trial = _Trial(migration)
    async for item in each_item(stores, migration.source, pulse):
        trial.take(item)
        progress("plan", trial.rows, expected)
    strangers, target_rows = await _strangers(migration, stores, trial.by_key, pulse)
    collisions = trial.collisions()
    return Plan(
        rows=trial.rows,
        unmovable=trial.unmovable[:EXAMPLES_MAX],
        unmovable_count=len(trial.unmovable),
        collisions=collisions[:EXAMPLES_MAX],
        collision_count=len(collisions),
        plain_key=", ".join(each.attribute.stored for each in migration.plain_key),
        plain_key_lost=trial.lost_with_plain_key(),
        strangers=strangers[:EXAMPLES_MAX],
        stranger_count=len(strangers),
        target_rows=target_rows,
    )


class _Trial(Generic[S, T]):
    """Rows moved in thought."""

    def __init__(self, migration: Migration[S, T]) -> None:
        self._migration = migration
        self.rows = 0
        self.by_key: dict[Address, list[Address]] = {}
        self.unmovable: list[str] = []
        self._plain: set[object] = set()

    def take(self, item: Item) -> None:
        self.rows += 1
        try:
            row = row_of(self._migration, item)
        except DeclarationError as error:
            self.unmovable.append(error.message)
            return
        self.by_key.setdefault(row.target_key, []).append(row.key)
        self._plain.add(
            tuple(row.target_item.get(each.attribute.stored) for each in self._migration.plain_key)
        )

    def collisions(self) -> list[str]:
        several = {key: rows for key, rows in self.by_key.items() if len(rows) > 1}
        return [f"{told(key)}: {' and '.join(map(told, rows))}" for key, rows in several.items()]

    def lost_with_plain_key(self) -> int:
        if not self._migration.plain_key:
            return 0
        return self.rows - len(self.unmovable) - len(self._plain)


async def _rows_expected(migration: Migration[S, T], stores: Stores) -> int:
    source = declaration_of(migration.source).table
    if len(source.entities) != 1:
        raise DeclarationError(
            f"{source.name} holds several kinds of items, and a migration moves tables that hold one: give each kind "
            "a table first."
        )
    description = await describe(stores, source)
    if description is None:
        raise NotFound(f"There is no table {stores.physical_name(source)} to migrate from.")
    return description.item_count


async def _strangers(
    migration: Migration[S, T], stores: Stores, by_key: dict[Address, list[Address]], pulse: Pulse
) -> tuple[list[str], int]:
    if await describe(stores, declaration_of(migration.target).table) is None:
        return [], 0
    found, rows = [], 0
    async for item in each_item(stores, migration.target, pulse):
        rows += 1
        key = address_of(migration.target, item)
        if key not in by_key:
            found.append(told(key))
    return found, rows
