"""The newest changes of a table, read from its stream while pages show them.

One tail for each table serves every open page. It keeps a bounded number of records in memory, and forgets
them when nobody has read it for a minute. It starts at the last records of the embedded engine's stream, and
on DynamoDB, whose streams have no end to count back from, with the first change from now on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from holdfast.console.context import Console
from holdfast.console.live import Topic
from holdfast.core.errors import IteratorExpired, NotFound, TrimmedData
from holdfast.model.tables import Table
from holdfast.operations.tables import (
    DescribeStream,
    DescribeTable,
    GetRecords,
    GetShardIterator,
    Shard,
    ShardIterator,
    StreamName,
    StreamRecord,
)
from holdfast.runtime.stores import Stores

__all__ = ["StreamState", "build_topic_name", "get_tail", "register_stream_topics"]

MAX_RECORDS: Final = 25
MAX_BYTES: Final = 4 * 2**20
READ_RECORDS: Final = 200
# Reads in one go: a table that changes faster shows its newest records late.
MAX_READS: Final = 5
FORGET_AFTER_S: Final = 60.0


@dataclass(frozen=True)
class StreamState:
    """The records of a tail, newest first; `count` grows with each, and `is_enabled` says if there is a
    stream.
    """

    records: Sequence[StreamRecord]
    count: int
    is_enabled: bool = True


class StreamTail:
    """The end of one table's stream."""

    def __init__(self, stores: Stores, table: Table) -> None:
        self._stores, self._table = stores, table
        self._lock = asyncio.Lock()
        self._records: deque[StreamRecord] = deque(maxlen=MAX_RECORDS)
        self._stream: StreamName | None = None
        self._iterators: dict[str, ShardIterator] = {}
        self._count, self._read_at = 0, 0.0

    async def read(self) -> StreamState:
        """Read what is new, and return the newest records."""
        async with self._lock:
            now = self._stores.clock.now()
            if self._stream is None or now - self._read_at > FORGET_AFTER_S:
                await self._start()
            self._read_at = now
            try:
                await self._read_shards()
            except (IteratorExpired, TrimmedData, NotFound):
                await self._start()
            return StreamState(tuple(reversed(self._records)), self._count, self._stream is not None)

    async def _start(self) -> None:
        """Begin at the end of the stream; a table without one has no records."""
        self._records.clear()
        self._iterators, self._stream = {}, None
        physical = self._stores.physical_name(self._table)
        try:
            label = (await self._stores.tables.run(DescribeTable(physical))).stream_label
        except NotFound:
            return
        if label is None:
            return
        self._stream = StreamName(physical, label)
        for shard in await self._list_open_shards():
            self._iterators[shard.id] = _step_back(await self._open(shard, "LATEST"), shard)

    async def _read_shards(self) -> None:
        for id, iterator in list(self._iterators.items()):
            await self._read_shard(id, iterator)
        if self._stream is not None and not self._iterators:
            for shard in await self._list_open_shards():
                self._iterators[shard.id] = await self._open(shard, "TRIM_HORIZON")

    async def _read_shard(self, id: str, iterator: ShardIterator) -> None:
        """Read a shard to its end, or as far as one go may; a closed shard is followed by its children."""
        for _ in range(MAX_READS):
            page = await self._stores.tables.run(GetRecords(iterator, READ_RECORDS))
            self._keep(page.records)
            if page.next is None:
                del self._iterators[id]
                for shard in await self._list_open_shards():
                    if shard.parent == id:
                        self._iterators[shard.id] = await self._open(shard, "TRIM_HORIZON")
                return
            self._iterators[id] = iterator = page.next
            if not page.records:
                return

    def _keep(self, records: Sequence[StreamRecord]) -> None:
        self._records.extend(records)
        self._count += len(records)
        while len(self._records) > 1 and sum(each.size_bytes for each in self._records) > MAX_BYTES:
            self._records.popleft()

    async def _list_open_shards(self) -> list[Shard]:
        assert self._stream is not None
        found = await self._stores.tables.run(DescribeStream(self._stream))
        return [each for each in found.shards if each.ending is None]

    async def _open(self, shard: Shard, kind: str) -> ShardIterator:
        assert self._stream is not None
        return await self._stores.tables.run(GetShardIterator(self._stream, shard.id, kind))  # type: ignore[arg-type]


def _step_back(latest: ShardIterator, shard: Shard) -> ShardIterator:
    """Return the position of the last records, where the engine counts them: the embedded one does."""
    if type(latest) is not ShardIterator:
        return latest
    return replace(latest, position=max(shard.starting, latest.position - MAX_RECORDS))


# --- the tails of a console ---------------------------------------------------------------------------------

_TAILS: Final[WeakKeyDictionary[Console, dict[tuple[str, str], StreamTail]]] = WeakKeyDictionary()


def get_tail(console: Console, system: str, table: Table) -> StreamTail:
    """Return the tail of a table's stream, one for all pages of the console."""
    tails = _TAILS.setdefault(console, {})
    key = system, table.name
    if key not in tails:
        tails[key] = StreamTail(console.get_stores(system), table)
    return tails[key]


def build_topic_name(system: str, table: str) -> str:
    """Return the name of the live topic of a table's stream."""
    return f"stream-{system}-{table}"


def register_stream_topics(console: Console) -> None:
    """Let pages follow the stream of every table that declares one."""
    for system in console.systems:
        for table in system.tables:
            if table.stream is not None:
                console.live.add_topic(_build_topic(console, system.name, table))


def _build_topic(console: Console, system: str, table: Table) -> Topic:
    async def read() -> int:
        return (await get_tail(console, system, table).read()).count

    return Topic(build_topic_name(system, table.name), read, every_s=1.0, system=system)
