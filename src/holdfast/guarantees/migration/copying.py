"""Rows copied to the target, so that no newer row is overwritten and no deleted one comes back.

Every transaction checks the lease, so that a process which has lost it writes nothing, and the source row, so that
what is written is what the source holds at that very moment. The backfill only fills places that are empty; a changed
row is put in its place, and taken from where it stood.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import Conflict
from holdfast.guarantees.migration.changes import Changed
from holdfast.guarantees.migration.declaration import Migration
from holdfast.guarantees.migration.lease import NOT_SO, Lease
from holdfast.guarantees.migration.rows import Address, Row, row_of, told
from holdfast.limits import TRANSACTION_BYTES_MAX
from holdfast.model import Check, Delete, Entity, Write, declaration_of
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.values import Item, item_size

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

# A row is two actions, and the lease is one: well below the hundred that a transaction may have.
ROWS_PER_TRANSACTION: Final = 40
ATTEMPTS_MAX: Final = 40
PAUSE_SECONDS_MAX: Final = 0.05


class Copier(Generic[S, T]):
    """Copies rows of the source under a lease."""

    def __init__(self, migration: Migration[S, T], lease: Lease, parallel: int) -> None:
        self._migration, self._lease, self._stores = migration, lease, lease.stores
        self._turns = asyncio.Semaphore(parallel)

    # --- what is there: the backfill ------------------------------------------------------------------------

    async def fill(self, items: Iterable[Item]) -> int:
        """Rows as they were read, each created in the target if it is still so. Gives how many were."""
        rows = [row_of(self._migration, item) for item in items]
        return sum(await self._all(self._created(batch) for batch in _batches(rows)))

    async def _created(self, rows: list[Row[S, T]]) -> int:
        """Those that the target has already, or that have changed, are left out: the stream brings the changes."""
        while rows:
            writes = [self._creation(row) for row in rows]
            refused = await self._lease.transact(*(write for several in writes for write in several))
            if not refused:
                break
            codes = iter(refused)
            rows = [
                row
                for row, several in zip(rows, writes, strict=True)
                if NOT_SO not in [next(codes) for _ in several]
            ]
        return len(rows)

    def _creation(self, row: Row[S, T]) -> tuple[Write[Any], ...]:
        return self._still(row), self._migration.target.create(row.target)

    # --- what changes: the stream, and repairs --------------------------------------------------------------

    async def follow(self, changed: Changed) -> None:
        """Each row copied as it is now, and taken from every other key that it has stood under."""
        await self._all(self._synced(key, stale) for key, stale in changed.items())

    async def delete(self, addresses: Iterable[Address]) -> None:
        """Rows of the target that no row of the source gives."""
        declared = declaration_of(self._migration.target)
        await self._all(self._lease.transact(Delete(declared, address)) for address in addresses)

    async def _synced(self, key: Address, stale: frozenset[Address]) -> None:
        for _ in range(ATTEMPTS_MAX):
            row = await self._read(key)
            gone = sorted(stale - {row.target_key} if row is not None else stale, key=repr)
            deletions = [self._deletion(address, key) for address in gone]
            puts = [self._migration.target.put(row.target)] if row is not None else []
            if not deletions and not puts:
                return
            refused = await self._lease.transact(self._still(row, key), *puts, *deletions)
            if not refused:
                return
            # A place that now belongs to another row is not ours to empty.
            theirs = {at for at, code in zip(gone, refused[1 + len(puts) :], strict=True) if code == NOT_SO}
            stale -= theirs
            if not theirs:
                await asyncio.sleep(random.uniform(0, PAUSE_SECONDS_MAX))
        raise Conflict(
            f"The row {told(key)} changes again and again while it is copied: run the migration again when it is quieter."
        )

    async def _read(self, key: Address) -> Row[S, T] | None:
        table = declaration_of(self._migration.source).table
        found = await self._stores.tables.run(
            requests.GetItem(
                self._stores.physical_name(table),
                dict(key),
                consistent=True,
                hide_expired=table.ttl is not None,
            )
        )
        return None if found.item is None else row_of(self._migration, found.item)

    def _deletion(self, address: Address, key: Address) -> Delete[T]:
        """Of what stands under an old key, unless it tells that it is of another source row by now."""
        declared = declaration_of(self._migration.target)
        absent = nodes.AttributeNotExists(nodes.Path(declared.table.partition))
        named = tuple(
            nodes.Compare("=", nodes.Path(name), nodes.Literal(value))
            for name, value in key
            if name in declared.by_stored_name
        )
        condition = nodes.Or((absent, named[0] if len(named) == 1 else nodes.And(named))) if named else None
        return Delete(declared, address, condition=condition)

    # --- in both ------------------------------------------------------------------------------------

    def _still(self, row: Row[S, T] | None, key: Address = ()) -> Check[S]:
        """That the source row is as it was read, or still absent."""
        declared = declaration_of(self._migration.source)
        partition = nodes.Path(declared.table.partition)
        if row is None:
            return Check(declared, key, condition=nodes.AttributeNotExists(partition))
        version = nodes.Path(self._migration.version.attribute.stored)
        at_version: nodes.Condition = (
            nodes.AttributeNotExists(version)
            if row.version is None
            else nodes.Compare("=", version, nodes.Literal(row.version))
        )
        there: nodes.Condition = nodes.AttributeExists(partition)
        return Check(declared, row.key, condition=nodes.And((there, at_version)))

    async def _all(self, tasks: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Side by side, a few at a time. All have ended when one's error is raised: none goes on unseen."""

        async def in_turn(task: Coroutine[Any, Any, Any]) -> Any:
            async with self._turns:
                return await task

        results = await asyncio.gather(*map(in_turn, tasks), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def _batches(rows: Iterable[Row[S, T]]) -> Iterator[list[Row[S, T]]]:
    """Rows that may stand in one transaction: not too many, not too large, and no place twice."""
    batch: list[Row[S, T]] = []
    places: set[Address] = set()
    size = 0
    for row in rows:
        row_size = item_size(row.target_item)
        is_full = len(batch) == ROWS_PER_TRANSACTION or size + row_size > TRANSACTION_BYTES_MAX // 2
        if batch and (is_full or row.target_key in places):
            yield batch
            batch, places, size = [], set(), 0
        batch.append(row)
        places.add(row.target_key)
        size += row_size
    if batch:
        yield batch
