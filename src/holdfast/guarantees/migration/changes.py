"""The stream of the source, followed from where it was left. It says which rows changed, and under which new keys
they have ever stood; what a row is now is read from the source itself (`copying`).

So the order of the changes does not matter, nor a change told twice, nor which shard tells it first: every change is
told at some time after it was made, and then the row is copied as it is. What the stream has forgotten before it was
read (after a day) is found by the verification.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from holdfast.errors import DeclarationError, IteratorExpired, NotFound, TrimmedData
from holdfast.guarantees.migration.declaration import Migration
from holdfast.guarantees.migration.lease import Lease
from holdfast.guarantees.migration.rows import Address, address_of, row_of
from holdfast.guarantees.migration.state import ShardPlace
from holdfast.model import Entity, declaration_of
from holdfast.operations import tables as requests
from holdfast.operations.tables import Shard, ShardIterator, StreamName, StreamRecord
from holdfast.operations.values import Item

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

# Which rows changed, each with every new key that its images had.
Changed: TypeAlias = Mapping[Address, frozenset[Address]]
Apply: TypeAlias = Callable[[Changed], Awaitable[None]]

# An answer without records need not be the end of a shard; on an open one, two in a row are taken for it.
EMPTY_ANSWERS_MAX: Final = 2
# Changes made this long before the migration began are in what the backfill reads; clocks may differ by less.
CLOCK_MARGIN: Final = timedelta(minutes=5)


class Changes(Generic[S, T]):
    """The changes of a migration's source that have not been followed yet."""

    def __init__(
        self, migration: Migration[S, T], lease: Lease, began_at: float, *, keeps_place: bool = True
    ) -> None:
        self._migration, self._lease, self._stores = migration, lease, lease.stores
        self._keeps_place = keeps_place
        self._since = began_at - CLOCK_MARGIN.total_seconds()

    async def drain(self, apply: Apply) -> None:
        """Every change made before now, applied; the place is saved behind each batch.

        Not until there are none: with a busy writer that would be never.
        """
        now = self._stores.clock.now()
        stream = await self._stream()
        for shard in await self._shards(stream):
            place = self._lease.work.shards.get(shard.id, ShardPlace())
            if not place.is_done:
                await self._follow(stream, shard, place, apply, now)

    async def _stream(self) -> StreamName:
        table = self._stores.physical_name(declaration_of(self._migration.source).table)
        description = await self._stores.tables.run(requests.DescribeTable(table))
        if description.stream_label is None:
            raise NotFound(
                f"The stream of {table} was switched off: run the migration again, to switch it on."
            )
        if description.stream_label != self._lease.work.stream:
            # Another stream than before: what was told in between is lost, and the verification's to find.
            gaps = self._lease.work.gaps + (self._lease.work.stream is not None)
            await self._lease.save(stream=description.stream_label, shards={}, gaps=gaps)
        return StreamName(table, description.stream_label)

    async def _shards(self, stream: StreamName) -> list[Shard]:
        shards: list[Shard] = []
        after: str | None = None
        while True:
            told = await self._stores.tables.run(requests.DescribeStream(stream, after))
            shards += told.shards
            if len(told.shards) < requests.DescribeStream(stream).limit:
                break
            after = told.shards[-1].id
        known = {shard.id for shard in shards}
        kept = {id: place for id, place in self._lease.work.shards.items() if id in known}
        if len(kept) < len(self._lease.work.shards):
            await self._lease.save(shards=kept)
        return shards

    async def _follow(
        self, stream: StreamName, shard: Shard, place: ShardPlace, apply: Apply, until: float
    ) -> None:
        iterator: ShardIterator | None = await self._iterator(stream, shard, place)
        empty = 0
        while iterator is not None:
            try:
                found = await self._stores.tables.run(requests.GetRecords(iterator))
            except IteratorExpired:
                iterator = await self._iterator(stream, shard, place)
                continue
            iterator = found.next
            empty = 0 if found.records else empty + 1
            if found.records:
                place = await self._applied(shard, found.records, apply)
                if found.records[-1].at >= until:
                    return
            elif shard.ending is None and empty >= EMPTY_ANSWERS_MAX:
                return
            await self._lease.pulse()
        await self._keep(shard, ShardPlace(sequence=place.sequence, is_done=True))

    async def _iterator(self, stream: StreamName, shard: Shard, place: ShardPlace) -> ShardIterator:
        if place.sequence is not None:
            after = requests.GetShardIterator(stream, shard.id, "AFTER_SEQUENCE_NUMBER", place.sequence)
            try:
                return await self._stores.tables.run(after)
            except TrimmedData:
                await self._lease.save(gaps=self._lease.work.gaps + 1)
        return await self._stores.tables.run(requests.GetShardIterator(stream, shard.id, "TRIM_HORIZON"))

    async def _applied(self, shard: Shard, records: tuple[StreamRecord, ...], apply: Apply) -> ShardPlace:
        news = [record for record in records if record.at >= self._since]
        await apply(self._changed(news))
        place = ShardPlace(sequence=records[-1].sequence_number)
        await self._keep(shard, place, followed=len(news))
        return place

    async def _keep(self, shard: Shard, place: ShardPlace, followed: int = 0) -> None:
        if not self._keeps_place:
            return
        work = self._lease.work
        await self._lease.save(
            shards={**work.shards, shard.id: place},
            followed=work.followed + followed,
        )

    def _changed(self, records: Iterable[StreamRecord]) -> Changed:
        changed: dict[Address, frozenset[Address]] = {}
        for record in records:
            key = address_of(self._migration.source, record.keys)
            changed[key] = changed.get(key, frozenset()).union(
                *(self._new_key(image) for image in (record.old, record.new) if image is not None)
            )
        return changed

    def _new_key(self, image: Item) -> frozenset[Address]:
        try:
            return frozenset({row_of(self._migration, image).target_key})
        except DeclarationError:
            return frozenset()  # what cannot be moved was never copied
