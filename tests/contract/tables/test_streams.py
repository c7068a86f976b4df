"""Streams on every tables engine: records of all views, iterators, positions and descriptions."""

from __future__ import annotations

import pytest

from holdfast.core.errors import NotFound
from holdfast.operations.tables import (
    DeleteItem,
    DescribeStream,
    DescribeTable,
    GetRecords,
    GetShardIterator,
    ListStreams,
    ShardIterator,
    StreamName,
    StreamRecord,
    UpdateItem,
)
from holdfast.operations.tables.streams import IteratorKind
from holdfast.operations.values import Item

from .store import Store, update

KEY: Item = {"pk": "a", "sk": 1}


def make_changes(store: Store, view: str) -> str:
    """Create a table with a stream, insert, change and remove one item in it, and return its name."""
    name = store.create("pk:S", "sk:N", stream_view=view)
    store.put(name, {**KEY, "x": frozenset({"t"})})
    store.run(UpdateItem(table=name, key=KEY, update=update("SET x = :x", x=b"new")))
    store.run(DeleteItem(table=name, key=KEY))
    return name


def stream_of(store: Store, name: str) -> StreamName:
    """Return the table's only stream."""
    [stream] = store.run(ListStreams(table=name)).streams
    return stream


def iterator(
    store: Store, stream: StreamName, kind: IteratorKind = "TRIM_HORIZON", number: int | None = None
) -> ShardIterator:
    """Return an iterator of the stream's only shard."""
    [shard] = store.run(DescribeStream(stream=stream)).shards
    request = GetShardIterator(stream=stream, shard=shard.id, kind=kind, sequence_number=number)
    return store.run(request)


def records(store: Store, place: ShardIterator | None, limit: int = 1000) -> list[StreamRecord]:
    """Return all records from the iterator `place` on, up to a page without any."""
    found: list[StreamRecord] = []
    while place is not None:
        result = store.run(GetRecords(iterator=place, limit=limit))
        if not result.records:
            break
        found += result.records
        place = result.next
    return found


@pytest.mark.parametrize("view", ["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"])
def test_each_record_has_the_images_of_its_view(store: Store, view: str) -> None:
    found = records(store, iterator(store, stream_of(store, make_changes(store, view))))

    first, second = {**KEY, "x": frozenset({"t"})}, {**KEY, "x": b"new"}
    with_old, with_new = (
        view in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES"),
        view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES"),
    )
    assert [record.event for record in found] == ["INSERT", "MODIFY", "REMOVE"]
    assert [record.keys for record in found] == [KEY] * 3
    assert [record.view for record in found] == [view] * 3
    assert [record.old for record in found] == ([None, first, second] if with_old else [None] * 3)
    assert [record.new for record in found] == ([first, second, None] if with_new else [None] * 3)
    assert not any(record.by_service for record in found)


def test_sequence_numbers_grow_and_name_a_position_to_resume_from(store: Store) -> None:
    stream = stream_of(store, make_changes(store, "KEYS_ONLY"))

    found = records(store, iterator(store, stream))
    numbers = [record.sequence_number for record in found]
    assert numbers == sorted(set(numbers))
    after = iterator(store, stream, "AFTER_SEQUENCE_NUMBER", numbers[0])
    assert [record.event for record in records(store, after)] == ["MODIFY", "REMOVE"]
    at = iterator(store, stream, "AT_SEQUENCE_NUMBER", numbers[1])
    assert [record.event for record in records(store, at)] == ["MODIFY", "REMOVE"]


def test_limit_bounds_the_records_of_a_page(store: Store) -> None:
    place = iterator(store, stream_of(store, make_changes(store, "KEYS_ONLY")))

    assert len(store.run(GetRecords(iterator=place, limit=2)).records) == 2
    assert len(records(store, place, limit=2)) == 3


def test_latest_iterator_starts_after_existing_records(store: Store) -> None:
    name = make_changes(store, "KEYS_ONLY")
    place = iterator(store, stream_of(store, name), "LATEST")
    store.put(name, {"pk": "b", "sk": 1})

    assert [record.keys for record in records(store, place)] == [{"pk": "b", "sk": 1}]


def test_a_stream_is_listed_and_described(store: Store) -> None:
    name = store.create("pk:S", "sk:N", stream_view="NEW_IMAGE")
    table = store.run(DescribeTable(table=name))

    stream = stream_of(store, name)
    assert (stream.table, stream.label) == (name, table.stream_label)
    described = store.run(DescribeStream(stream=stream))
    assert (described.stream, described.status, described.view) == (stream, "ENABLED", "NEW_IMAGE")
    assert described.keys == table.definition.keys
    assert [shard.ending for shard in described.shards] == [None]


def test_a_table_without_a_stream_lists_none(store: Store) -> None:
    assert store.run(ListStreams(table=store.create("pk:S"))).streams == ()


def test_missing_stream_is_not_found(store: Store) -> None:
    name = store.create("pk:S", stream_view="KEYS_ONLY")

    with pytest.raises(NotFound):
        store.run(DescribeStream(stream=StreamName(name, "2020-01-01T00:00:00.000")))
