"""Copies rows to the target without overwriting a newer row or restoring a deleted one.

Every transaction checks the lease, so that a process that lost it writes nothing, and the source row, so that
it writes the source's current content. The backfill only creates missing rows; a changed row is put, and
deleted under its former keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import Conflict
from holdfast.core.limits import MAX_TRANSACTION_BYTES
from holdfast.core.rng import RNG
from holdfast.guarantees.table_migration.change_stream import ChangedRows
from holdfast.guarantees.table_migration.declaration import Migration
from holdfast.guarantees.table_migration.lease import CONDITION_FAILED, MigrationLease
from holdfast.guarantees.table_migration.rows import RowKey, SourceRow, format_row_key, move_row
from holdfast.model.entities import ConditionCheck, Delete, Entity, get_declaration
from holdfast.model.operations import Write
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item, item_size

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

# A row is two actions, and the lease one more: well below the hundred actions of a transaction.
ROWS_PER_TRANSACTION: Final = 40
MAX_ATTEMPTS: Final = 40
MAX_PAUSE_S: Final = 0.05


class Copier(Generic[S, T]):
    """Copies rows of the source under a lease."""

    def __init__(self, migration: Migration[S, T], lease: MigrationLease, parallel: int) -> None:
        self._migration, self._lease, self._stores = migration, lease, lease.stores
        self._slots = asyncio.Semaphore(parallel)

    # --- backfill -------------------------------------------------------------------------------------------

    async def fill(self, items: Iterable[Item]) -> int:
        """Create the rows that are missing in the target and unchanged in the source. Return their number."""
        rows = [move_row(self._migration, item) for item in items]
        return sum(await self._run_limited(self._create_batch(batch) for batch in _split_batches(rows)))

    async def _create_batch(self, rows: list[SourceRow[S, T]]) -> int:
        """Create the rows in one transaction and return their number.

        Rows that exist in the target or have changed are skipped: the stream brings the changes.
        """
        while rows:
            writes = [self._build_creation(row) for row in rows]
            refused = await self._lease.transact(*(write for several in writes for write in several))
            if not refused:
                break
            codes = iter(refused)
            rows = [
                row
                for row, several in zip(rows, writes, strict=True)
                if CONDITION_FAILED not in [next(codes) for _ in several]
            ]
        return len(rows)

    def _build_creation(self, row: SourceRow[S, T]) -> tuple[Write[Any], ...]:
        """Return the two actions of a row: a check that its source is unchanged, and the creation of its
        target.
        """
        return self._check_unchanged(row), self._migration.target.create(row.target)

    # --- changes and repairs --------------------------------------------------------------------------------

    async def copy_changed(self, changed: ChangedRows) -> None:
        """Copy each source row as it is now, and delete it in the target under every other key that it has
        had.
        """
        await self._run_limited(self._sync_row(key, stale) for key, stale in changed.items())

    async def delete_rows(self, addresses: Iterable[RowKey]) -> None:
        """Delete rows of the target that no source row produces."""
        declared = get_declaration(self._migration.target)
        await self._run_limited(self._lease.transact(Delete(declared, address)) for address in addresses)

    async def _sync_row(self, key: RowKey, stale: frozenset[RowKey]) -> None:
        """Put the row with this source key, or delete it if it is gone, and delete its `stale` target keys.

        Retries while the row changes, then raises `Conflict`.
        """
        for _ in range(MAX_ATTEMPTS):
            row = await self._read_row(key)
            gone = sorted(stale - {row.target_key} if row is not None else stale, key=repr)
            deletions = [self._build_deletion(address, key) for address in gone]
            puts = [self._migration.target.put(row.target)] if row is not None else []
            if not deletions and not puts:
                return
            refused = await self._lease.transact(self._check_unchanged(row, key), *puts, *deletions)
            if not refused:
                return
            # A key that now belongs to another row must not be deleted.
            theirs = {
                at
                for at, code in zip(gone, refused[1 + len(puts) :], strict=True)
                if code == CONDITION_FAILED
            }
            stale -= theirs
            if not theirs:
                await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S))
        raise Conflict(
            f"The row {format_row_key(key)} keeps changing while it is copied. Run the migration again at a "
            "quieter time."
        )

    async def _read_row(self, key: RowKey) -> SourceRow[S, T] | None:
        """Return the current source row, transformed; None if it is gone."""
        table = get_declaration(self._migration.source).table
        found = await self._stores.tables.run(
            requests.GetItem(
                self._stores.physical_name(table),
                dict(key),
                consistent=True,
                hide_expired=table.ttl is not None,
            )
        )
        return None if found.item is None else move_row(self._migration, found.item)

    def _build_deletion(self, address: RowKey, key: RowKey) -> Delete[T]:
        """Build the delete of a target row, unless another source row has that key by now.

        `key` is the source row's.
        """
        declared = get_declaration(self._migration.target)
        absent = nodes.AttributeNotExists(nodes.Path(declared.table.partition))
        named = tuple(
            nodes.Compare("=", nodes.Path(name), nodes.Literal(value))
            for name, value in key
            if name in declared.by_stored_name
        )
        condition = nodes.Or((absent, named[0] if len(named) == 1 else nodes.And(named))) if named else None
        return Delete(declared, address, condition=condition)

    # --- shared ---------------------------------------------------------------------------------------------

    def _check_unchanged(self, row: SourceRow[S, T] | None, key: RowKey = ()) -> ConditionCheck[S]:
        """Return a check that the source row is at the version that was read; without a row, that the key is
        still absent.
        """
        declared = get_declaration(self._migration.source)
        partition = nodes.Path(declared.table.partition)
        if row is None:
            return ConditionCheck(declared, key, condition=nodes.AttributeNotExists(partition))
        version = nodes.Path(self._migration.version.attribute.stored_name)
        at_version: nodes.Condition = (
            nodes.AttributeNotExists(version)
            if row.version is None
            else nodes.Compare("=", version, nodes.Literal(row.version))
        )
        there: nodes.Condition = nodes.AttributeExists(partition)
        return ConditionCheck(declared, row.key, condition=nodes.And((there, at_version)))

    async def _run_limited(self, tasks: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run the tasks with limited concurrency and return their results in order.

        Wait for all before raising an error, so that none continues unnoticed.
        """

        async def in_turn(task: Coroutine[Any, Any, Any]) -> Any:
            async with self._slots:
                return await task

        results = await asyncio.gather(*map(in_turn, tasks), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def _split_batches(rows: Iterable[SourceRow[S, T]]) -> Iterator[list[SourceRow[S, T]]]:
    """Split rows into transactions: limited in number and size, and no target key twice."""
    batch: list[SourceRow[S, T]] = []
    places: set[RowKey] = set()
    size = 0
    for row in rows:
        row_size = item_size(row.target_item)
        is_full = len(batch) == ROWS_PER_TRANSACTION or size + row_size > MAX_TRANSACTION_BYTES // 2
        if batch and (is_full or row.target_key in places):
            yield batch
            batch, places, size = [], set(), 0
        batch.append(row)
        places.add(row.target_key)
        size += row_size
    if batch:
        yield batch
