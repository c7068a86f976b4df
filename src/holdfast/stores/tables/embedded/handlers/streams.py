"""Handlers of ListStreams, DescribeStream, GetShardIterator and GetRecords in the embedded engine."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest, IteratorExpired, NotFound, TrimmedData
from holdfast.core.limits import MAX_STREAM_PAGE_BYTES, STREAM_ITERATOR_LIFETIME_S, STREAM_RETENTION_S
from holdfast.operations.tables import (
    DescribeStream,
    GetRecords,
    GetRecordsResult,
    GetShardIterator,
    ListStreams,
    ListStreamsResult,
    Shard,
    ShardIterator,
    StreamDescription,
    StreamName,
    StreamRecord,
)
from holdfast.operations.tables.streams import EventName
from holdfast.operations.values import Item, item_size
from holdfast.stores.tables.embedded import records
from holdfast.stores.tables.embedded.storage import codec, counts, streams
from holdfast.stores.tables.embedded.storage.reader import Reader

_EVENTS: Final[tuple[EventName, ...]] = ("INSERT", "MODIFY", "REMOVE")


def list_streams(operation: ListStreams, reader: Reader) -> ListStreamsResult:
    """Return one page of stream names, of one table or of all, sorted by table and label."""
    after = None if operation.after is None else (operation.after.table, operation.after.label)
    found = streams.list_page(reader.connection, operation.table, after, operation.limit + 1)
    names = tuple(StreamName(stream.table, stream.label) for stream in found[: operation.limit])
    return ListStreamsResult(names, names[-1] if len(found) > len(names) else None)


def describe_stream(operation: DescribeStream, reader: Reader) -> StreamDescription:
    """Return the stream's description, with its only shard unless `after_shard` is at or behind it."""
    stream = _require_stream(operation.stream, reader)
    shard = Shard(build_shard_id(stream), stream.first_seq, stream.last_seq)
    after = operation.after_shard
    return StreamDescription(
        operation.stream,
        "ENABLED" if stream.last_seq is None else "DISABLED",
        stream.view,
        stream.created_at,
        stream.definition.keys,
        (shard,) if after is None or after < shard.id else (),
    )


def _require_stream(name: StreamName, reader: Reader) -> records.StreamRecord:
    """Return the stream's record. Raise `NotFound` without it."""
    stream = streams.find(reader.connection, name.table, name.label)
    if stream is None:
        raise NotFound(f"Requested resource not found: Stream: {name} not found")
    return stream


def build_shard_id(stream: records.StreamRecord) -> str:
    """Return the id of a stream's only shard.

    It contains the stream's time and the table's number, so that it is unique even among streams of tables
    with the same name.
    """
    return f"shardId-{int(stream.created_at * 1000):020d}-{stream.number:08x}"


def get_shard_iterator(operation: GetShardIterator, reader: Reader) -> ShardIterator:
    """Return an iterator for a position in the stream's only shard. Raise `NotFound` for another shard."""
    stream = _require_stream(operation.stream, reader)
    if operation.shard != build_shard_id(stream):
        raise NotFound(f"Requested resource not found: Shard does not exist: {operation.shard}")
    return ShardIterator(
        operation.stream, operation.shard, _find_position(operation, stream, reader), reader.now
    )


def _find_position(operation: GetShardIterator, stream: records.StreamRecord, reader: Reader) -> int:
    """Return the sequence number from which the iterator reads.

    Raise `TrimmedData` if its record is no longer kept.
    """
    last = stream.last_seq
    if last is None:
        last = counts.read_last_sequence(reader.connection, stream.number)
    if operation.kind == "LATEST":
        return last + 1
    oldest = _find_oldest(stream, reader, last)
    if operation.kind == "TRIM_HORIZON":
        return oldest
    wanted = operation.sequence_number
    if wanted is None or wanted > max(last, stream.first_seq):
        raise InvalidRequest(
            "Invalid SequenceNumber: the sequence number is not in the shard, or none was given"
        )
    if wanted < stream.first_seq:
        raise InvalidRequest("Invalid SequenceNumber: the sequence number is before the shard's first")
    position = wanted + (operation.kind == "AFTER_SEQUENCE_NUMBER")
    if position < oldest:
        raise TrimmedData("The operation attempted to read past the oldest stream record in a shard.")
    return position


def _find_oldest(stream: records.StreamRecord, reader: Reader, last: int) -> int:
    """Return the sequence number of the first record still kept, or the one after `last` if none is."""
    return streams.find_first_after(
        reader.connection, stream.number, _get_horizon_ms(reader), last, stream.first_seq
    )


def _get_horizon_ms(reader: Reader) -> int:
    """Return the time, in milliseconds, before which stream records are no longer readable."""
    return int((reader.now - STREAM_RETENTION_S) * 1000)


def get_records(operation: GetRecords, reader: Reader) -> GetRecordsResult:
    """Read records until the limit or 1 MB. Raise `IteratorExpired` for an iterator older than 15 minutes."""
    iterator = operation.iterator
    if reader.now - iterator.issued_at > STREAM_ITERATOR_LIFETIME_S:
        raise IteratorExpired("Iterator expired. The iterator was created more than 15 minutes ago.")
    stream = _require_stream(iterator.stream, reader)
    page: list[StreamRecord] = []
    position, size = iterator.position, 0
    for row in streams.read_changes(
        reader.connection, stream.number, position, stream.last_seq, _get_horizon_ms(reader), operation.limit
    ):
        record = _build_record(stream, row)
        page.append(record)
        position = record.sequence_number + 1
        size += record.size_bytes
        if size >= MAX_STREAM_PAGE_BYTES:
            break
    at_end = len(page) < operation.limit and size < MAX_STREAM_PAGE_BYTES
    return GetRecordsResult(
        tuple(page), _build_next_iterator(stream, iterator, position, reader, at_end=at_end)
    )


def _build_next_iterator(
    stream: records.StreamRecord, iterator: ShardIterator, position: int, reader: Reader, *, at_end: bool
) -> ShardIterator | None:
    """Return the next iterator, or None once a closed stream was read to its end.

    The end need not be its last number: that record may be trimmed, or its number may belong to a write that
    failed.
    """
    if stream.last_seq is not None and (at_end or position > stream.last_seq):
        return None
    return ShardIterator(iterator.stream, iterator.shard, position, reader.now)


def _build_record(stream: records.StreamRecord, row: streams.LogRow) -> StreamRecord:
    """Build a stream record from a row of the log, with the images that the stream's view includes."""
    seq, at_ms, event, by_service, key, old, new = row
    view = stream.view
    before = None if old is None else codec.decode(old)
    after = None if new is None else codec.decode(new)
    keys = codec.decode(key) if key is not None else _extract_key(stream, after or before or {})
    # The log may hold more than this stream's view includes, because recovery needs old images.
    before = before if view in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES") else None
    after = after if view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES") else None
    size = item_size(keys) + item_size(before or {}) + item_size(after or {})
    return StreamRecord(seq, _EVENTS[event], at_ms / 1000, keys, view, size, before, after, bool(by_service))


def _extract_key(stream: records.StreamRecord, image: Item) -> Item:
    """Return the key attributes of an image."""
    return {name: image[name] for name in stream.definition.keys.names}
