"""Reader of the source's change stream: reports which rows changed, for the copier to copy again.

It reads from the saved position, and reports every new key that a changed row has had; `copier` reads the
current row from the source itself. So the order of changes does not matter, nor a repeated change, nor the
order of shards: every change arrives some time after it was made, and the row is then copied as it is.
Changes that the stream dropped before they were read (after a day) are found by the verification.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final, Generic, TypeAlias, TypeVar

from holdfast.core.errors import DeclarationError, IteratorExpired, NotFound, TrimmedData
from holdfast.guarantees.table_migration.declaration import Migration
from holdfast.guarantees.table_migration.lease import MigrationLease
from holdfast.guarantees.table_migration.rows import RowKey, get_row_key, move_row
from holdfast.guarantees.table_migration.state import ShardPosition
from holdfast.model.entities import Entity, get_declaration
from holdfast.operations import tables as requests
from holdfast.operations.tables import Shard, ShardIterator, StreamName, StreamRecord
from holdfast.operations.values import Item

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

# The changed rows, each with every new key that its images had.
ChangedRows: TypeAlias = Mapping[RowKey, frozenset[RowKey]]
Apply: TypeAlias = Callable[[ChangedRows], Awaitable[None]]

# An empty response need not be the end of a shard; two in a row end an open one.
MAX_EMPTY_ANSWERS: Final = 2
# The backfill reads changes older than this before the start; clocks may differ by less.
CLOCK_MARGIN: Final = timedelta(minutes=5)


class ChangeStream(Generic[S, T]):
    """The changes of a migration's source that have not been applied yet."""

    def __init__(
        self,
        migration: Migration[S, T],
        lease: MigrationLease,
        started_at: float,
        *,
        saves_position: bool = True,
    ) -> None:
        self._migration, self._lease, self._stores = migration, lease, lease.stores
        self._saves_position = saves_position
        self._since = started_at - CLOCK_MARGIN.total_seconds()

    async def drain(self, apply: Apply) -> None:
        """Call `apply` with every change made before now, batch by batch, and save the position after each
        batch.

        It does not wait for an empty stream, which a busy writer would prevent for ever.
        """
        now = self._stores.clock.now()
        stream = await self._find_stream()
        for shard in await self._list_shards(stream):
            place = self._lease.record.shards.get(shard.id, ShardPosition())
            if not place.is_done:
                await self._follow(stream, shard, place, apply, now)

    async def _find_stream(self) -> StreamName:
        """Return the source's stream; raise `NotFound` if it is disabled.

        A new stream resets the saved positions.
        """
        table = self._stores.physical_name(get_declaration(self._migration.source).table)
        description = await self._stores.tables.run(requests.DescribeTable(table))
        if description.stream_label is None:
            raise NotFound(f"The stream of {table} was disabled. Run the migration again to enable it.")
        if description.stream_label != self._lease.record.stream:
            # A new stream: changes in between are lost, and the verification finds them.
            gaps = self._lease.record.gaps + (self._lease.record.stream is not None)
            await self._lease.renew(stream=description.stream_label, shards={}, gaps=gaps)
        return StreamName(table, description.stream_label)

    async def _list_shards(self, stream: StreamName) -> list[Shard]:
        """Return all shards of the stream, and forget saved positions of shards that are gone."""
        shards: list[Shard] = []
        after: str | None = None
        while True:
            page = await self._stores.tables.run(requests.DescribeStream(stream, after))
            shards += page.shards
            if len(page.shards) < requests.DescribeStream(stream).limit:
                break
            after = page.shards[-1].id
        known = {shard.id for shard in shards}
        kept = {id: place for id, place in self._lease.record.shards.items() if id in known}
        if len(kept) < len(self._lease.record.shards):
            await self._lease.renew(shards=kept)
        return shards

    async def _follow(
        self, stream: StreamName, shard: Shard, place: ShardPosition, apply: Apply, until: float
    ) -> None:
        """Apply the records of a shard after the saved position, to the first one at or after `until`, or to
        its end.
        """
        iterator: ShardIterator | None = await self._get_iterator(stream, shard, place)
        empty = 0
        while iterator is not None:
            try:
                found = await self._stores.tables.run(requests.GetRecords(iterator))
            except IteratorExpired:
                iterator = await self._get_iterator(stream, shard, place)
                continue
            iterator = found.next
            empty = 0 if found.records else empty + 1
            if found.records:
                place = await self._apply_records(shard, found.records, apply)
                if found.records[-1].at >= until:
                    return
            elif shard.ending is None and empty >= MAX_EMPTY_ANSWERS:
                return
            await self._lease.pulse()
        await self._save_position(shard, ShardPosition(sequence=place.sequence, is_done=True))

    async def _get_iterator(self, stream: StreamName, shard: Shard, place: ShardPosition) -> ShardIterator:
        """Return an iterator after the saved position; from the oldest record, counted as a gap, if that was
        trimmed.
        """
        if place.sequence is not None:
            after = requests.GetShardIterator(stream, shard.id, "AFTER_SEQUENCE_NUMBER", place.sequence)
            try:
                return await self._stores.tables.run(after)
            except TrimmedData:
                await self._lease.renew(gaps=self._lease.record.gaps + 1)
        return await self._stores.tables.run(requests.GetShardIterator(stream, shard.id, "TRIM_HORIZON"))

    async def _apply_records(
        self, shard: Shard, records: tuple[StreamRecord, ...], apply: Apply
    ) -> ShardPosition:
        """Apply the records made since the migration started, and return the saved position after all of
        them.
        """
        news = [record for record in records if record.at >= self._since]
        await apply(self._collect_changed(news))
        place = ShardPosition(sequence=records[-1].sequence_number)
        await self._save_position(shard, place, followed=len(news))
        return place

    async def _save_position(self, shard: Shard, place: ShardPosition, followed: int = 0) -> None:
        """Save the position of the shard and add `followed` to the count of applied changes, unless positions
        are not saved.
        """
        if not self._saves_position:
            return
        work = self._lease.record
        await self._lease.renew(
            shards={**work.shards, shard.id: place},
            followed=work.followed + followed,
        )

    def _collect_changed(self, records: Iterable[StreamRecord]) -> ChangedRows:
        """Return the source key of each changed row, with every target key that its images had."""
        changed: dict[RowKey, frozenset[RowKey]] = {}
        for record in records:
            key = get_row_key(self._migration.source, record.keys)
            changed[key] = changed.get(key, frozenset()).union(
                *(self._get_target_keys(image) for image in (record.old, record.new) if image is not None)
            )
        return changed

    def _get_target_keys(self, image: Item) -> frozenset[RowKey]:
        """Return the target key of a row's image; none if the row cannot be moved."""
        try:
            return frozenset({move_row(self._migration, image).target_key})
        except DeclarationError:
            return frozenset()  # a row that cannot be moved was never copied
