"""The plan of a migration: tries to move every row, writes nothing, and reports all obstacles at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from holdfast.core.errors import DeclarationError, NotFound
from holdfast.guarantees.table_migration.declaration import Migration
from holdfast.guarantees.table_migration.rows import (
    Pulse,
    RowKey,
    format_row_key,
    get_row_key,
    iterate_items,
    move_row,
    skip_pulse,
)
from holdfast.guarantees.table_migration.settings import Progress, ignore_progress
from holdfast.model.entities import Entity, get_declaration
from holdfast.operations.values import Item
from holdfast.runtime import Stores, describe_table

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

MAX_EXAMPLES: Final = 20


@dataclass(frozen=True)
class MigrationPlan:
    """The plan of a migration. The lists are examples; the numbers count all."""

    rows: int
    # Rows that the entity cannot parse or the transformation refuses, with the reason.
    unmovable: Sequence[str]
    unmovable_count: int
    # New keys that several rows would have, with those rows.
    collisions: Sequence[str]
    collision_count: int
    # Rows that the simpler key would lose, for information.
    plain_key: str
    plain_key_lost: int
    # Target rows that no source row produces: the migration would have to delete them.
    strangers: Sequence[str]
    stranger_count: int
    target_rows: int

    @property
    def is_possible(self) -> bool:
        """True if there are no obstacles."""
        return not (self.unmovable_count or self.collision_count or self.stranger_count)

    def format_obstacles(self) -> str:
        """Format the obstacles and what to do about them."""
        parts = []
        if self.collision_count:
            parts.append(
                f"{self.collision_count} new keys belong to several rows each "
                f"({'; '.join(self.collisions[:3])}): add an attribute that distinguishes them to the new "
                "key, or fix the rows"
            )
        if self.unmovable_count:
            parts.append(
                f"{self.unmovable_count} rows cannot be moved ({'; '.join(self.unmovable[:3])}): fix them, "
                "or the transformation"
            )
        if self.stranger_count:
            parts.append(
                f"the target has {self.stranger_count} rows that no source row produces "
                f"({'; '.join(self.strangers[:3])}): delete them, or choose another table"
            )
        return ". ".join(parts)


async def plan_migration(
    migration: Migration[S, T],
    stores: Stores,
    *,
    progress: Progress = ignore_progress,
    pulse: Pulse = skip_pulse,
) -> MigrationPlan:
    """Try to move every row and return the plan. Nothing is written.

    Raises `NotFound` if there is no source, `DeclarationError` if it holds several entities.
    """
    expected = await _count_expected(migration, stores)
    trial = _DryRun(migration)
    async for item in iterate_items(stores, migration.source, pulse):
        trial.add(item)
        progress("plan", trial.rows, expected)
    strangers, target_rows = await _find_strangers(migration, stores, trial.by_key, pulse)
    collisions = trial.list_collisions()
    return MigrationPlan(
        rows=trial.rows,
        unmovable=trial.unmovable[:MAX_EXAMPLES],
        unmovable_count=len(trial.unmovable),
        collisions=collisions[:MAX_EXAMPLES],
        collision_count=len(collisions),
        plain_key=", ".join(each.attribute.stored_name for each in migration.plain_key),
        plain_key_lost=trial.count_lost_with_plain_key(),
        strangers=strangers[:MAX_EXAMPLES],
        stranger_count=len(strangers),
        target_rows=target_rows,
    )


class _DryRun(Generic[S, T]):
    """A dry run that moves rows in memory."""

    def __init__(self, migration: Migration[S, T]) -> None:
        self._migration = migration
        self.rows = 0
        self.by_key: dict[RowKey, list[RowKey]] = {}
        self.unmovable: list[str] = []
        self._plain: set[object] = set()

    def add(self, item: Item) -> None:
        """Try to move the item, and remember its new key or why it cannot be moved."""
        self.rows += 1
        try:
            row = move_row(self._migration, item)
        except DeclarationError as error:
            self.unmovable.append(error.message)
            return
        self.by_key.setdefault(row.target_key, []).append(row.key)
        self._plain.add(
            tuple(row.target_item.get(each.attribute.stored_name) for each in self._migration.plain_key)
        )

    def list_collisions(self) -> list[str]:
        """Return each target key that several rows would have, with the keys of these rows, as text."""
        several = {key: rows for key, rows in self.by_key.items() if len(rows) > 1}
        return [
            f"{format_row_key(key)}: {' and '.join(map(format_row_key, rows))}"
            for key, rows in several.items()
        ]

    def count_lost_with_plain_key(self) -> int:
        """Return how many rows would overwrite each other under the simpler key; 0 if none is declared."""
        if not self._migration.plain_key:
            return 0
        return self.rows - len(self.unmovable) - len(self._plain)


async def _count_expected(migration: Migration[S, T], stores: Stores) -> int:
    """Return the source's approximate number of items; raise if it is missing or holds several entities."""
    source = get_declaration(migration.source).table
    if len(source.entities) != 1:
        raise DeclarationError(
            f"Invalid migration of {source.name}: the table holds several entities, and a migration moves "
            "tables with one. Give each entity its own table first."
        )
    description = await describe_table(stores, source)
    if description is None:
        raise NotFound(f"Found no table {stores.physical_name(source)} to migrate from.")
    return description.item_count


async def _find_strangers(
    migration: Migration[S, T], stores: Stores, by_key: dict[RowKey, list[RowKey]], pulse: Pulse
) -> tuple[list[str], int]:
    """Return the target keys that no source row produces, as text, and the number of all target rows."""
    if await describe_table(stores, get_declaration(migration.target).table) is None:
        return [], 0
    found, rows = [], 0
    async for item in iterate_items(stores, migration.target, pulse):
        rows += 1
        key = get_row_key(migration.target, item)
        if key not in by_key:
            found.append(format_row_key(key))
    return found, rows
