"""ListStreams, DescribeStream, GetShardIterator and GetRecords: read the changes of a table, in order.

A stream has one shard: the engine is one serial history, so there is nothing to split.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import KeySchema, StreamView
from holdfast.operations.values import Item

StreamStatus: TypeAlias = Literal["ENABLING", "ENABLED", "DISABLING", "DISABLED"]
IteratorKind: TypeAlias = Literal["TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"]
EventName: TypeAlias = Literal["INSERT", "MODIFY", "REMOVE"]


class StreamName(msgspec.Struct, frozen=True):
    """A stream's table and label (the time when the stream was enabled).

    `spelling` is the name as the caller wrote it, if different: errors quote it.
    """

    table: str
    label: str
    spelling: str = ""

    def __str__(self) -> str:
        """Return the name as the caller wrote it, or else `table/stream/label`."""
        return self.spelling or f"{self.table}/stream/{self.label}"


class ListStreamsResult(msgspec.Struct, frozen=True):
    """One page of streams. `last` continues the listing; None at the end."""

    streams: tuple[StreamName, ...]
    last: StreamName | None = None


class ListStreams(Operation[ListStreamsResult], frozen=True):
    """List the streams of one table or of all. `after` continues a page."""

    table: str | None = None
    after: StreamName | None = None
    limit: int = 100


class Shard(msgspec.Struct, frozen=True):
    """A shard of a stream. `ending` is None while it is open. Records of a `parent` precede those of its
    children.
    """

    id: str
    starting: int
    ending: int | None = None
    parent: str | None = None


class StreamDescription(msgspec.Struct, frozen=True):
    """A stream and its shards."""

    stream: StreamName
    status: StreamStatus
    view: StreamView
    created_at: float
    keys: KeySchema
    shards: tuple[Shard, ...] = ()


class DescribeStream(Operation[StreamDescription], frozen=True):
    """Return a stream and its shards. `after_shard` continues a page."""

    stream: StreamName
    after_shard: str | None = None
    limit: int = 100


class ShardIterator(msgspec.Struct, frozen=True):
    """A position in a shard: records from `position` on. Opaque to wire clients."""

    stream: StreamName
    shard: str
    position: int
    issued_at: float


class GetShardIterator(Operation[ShardIterator], frozen=True):
    """Return a position in a shard from which to read records."""

    stream: StreamName
    shard: str
    kind: IteratorKind
    sequence_number: int | None = None


class StreamRecord(msgspec.Struct, frozen=True):
    """One change. `by_service` marks a deletion that the store made itself because the item expired."""

    sequence_number: int
    event: EventName
    at: float
    keys: Item
    view: StreamView
    size_bytes: int
    old: Item | None = None
    new: Item | None = None
    by_service: bool = False


class GetRecordsResult(msgspec.Struct, frozen=True):
    """The records read. `next` is None once a closed shard was read to its end."""

    records: tuple[StreamRecord, ...]
    next: ShardIterator | None


class GetRecords(Operation[GetRecordsResult], frozen=True):
    """Read records from a position on."""

    iterator: ShardIterator
    limit: int = 1000
