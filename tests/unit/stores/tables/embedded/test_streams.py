"""Streams of the embedded engine: which writes make records, closed streams, trimming and iterators."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.errors import IteratorExpired, TrimmedData
from holdfast.operations.tables import (
    CreateTable,
    DeleteItem,
    DeleteTable,
    DescribeStream,
    DescribeTable,
    GetRecords,
    GetShardIterator,
    PutItem,
    StreamChange,
    StreamName,
    UpdateContinuousBackups,
    UpdateTable,
)
from tests.faults.tables.engine_consistency import assert_consistent, read_items, read_stream, replay

from .stepped_engine import SteppedEngine, definition

DAY = 86400


@pytest.fixture
def streaming(engine: SteppedEngine) -> SteppedEngine:
    """Return the stepped engine with a table that has a stream."""
    engine.run(CreateTable(msgspec.structs.replace(definition(), stream_view="NEW_AND_OLD_IMAGES")))
    return engine


def name_of(engine: SteppedEngine) -> StreamName:
    """Return the name of the table's latest stream."""
    label = engine.run(DescribeTable("tab")).stream_label
    assert label is not None
    return StreamName("tab", label)


def iterator(
    engine: SteppedEngine, name: StreamName, kind: Any = "TRIM_HORIZON", number: int | None = None
) -> Any:
    """Return an iterator of the stream's only shard."""
    [shard] = engine.run(DescribeStream(name)).shards
    return engine.run(GetShardIterator(name, shard.id, kind, number))


def read_to_the_end(engine: SteppedEngine, place: Any, limit: int = 2) -> list[Any]:
    """Read pages until the stream ends; fail if it does not."""
    records: list[Any] = []
    for _ in range(100):
        page = engine.run(GetRecords(place, limit=limit))
        records += page.records
        if page.next is None:
            return records
        place = page.next
    raise AssertionError("the stream has no end")


def test_write_without_a_change_makes_no_record(streaming: SteppedEngine) -> None:
    for _ in range(2):
        streaming.run(PutItem("tab", {"pk": "a", "v": [1, {"x": frozenset({1, 2})}]}))
        streaming.run(DeleteItem("tab", {"pk": "absent"}))
    assert [record.event for record in read_stream(streaming.tables, "tab")] == ["INSERT"]


def test_replacing_one_with_true_is_a_change(streaming: SteppedEngine) -> None:
    streaming.run(PutItem("tab", {"pk": "a", "v": [1]}))
    streaming.run(PutItem("tab", {"pk": "a", "v": [True]}))
    assert [record.event for record in read_stream(streaming.tables, "tab")] == ["INSERT", "MODIFY"]


def test_closed_stream_ends_although_its_last_records_are_trimmed(streaming: SteppedEngine) -> None:
    streaming.run(PutItem("tab", {"pk": "a"}))
    name = name_of(streaming)
    streaming.clock.moment += DAY - 300
    streaming.run(UpdateTable("tab", stream=StreamChange(None)))
    place = iterator(streaming, name)
    streaming.clock.moment += 600
    assert read_to_the_end(streaming, place) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_a_closed_stream_is_read_to_its_end_in_pages_of_any_size(
    streaming: SteppedEngine, limit: int
) -> None:
    for at in range(3):
        streaming.run(PutItem("tab", {"pk": f"{at}"}))
    name = name_of(streaming)
    streaming.run(UpdateTable("tab", stream=StreamChange(None)))
    found = read_to_the_end(streaming, iterator(streaming, name), limit)
    assert [record.keys["pk"] for record in found] == ["0", "1", "2"]


def test_the_stream_of_a_deleted_table_is_read_for_a_day(streaming: SteppedEngine) -> None:
    for at in range(5):
        streaming.run(PutItem("tab", {"pk": f"{at}"}))
    name = name_of(streaming)
    streaming.run(DeleteTable("tab"))
    streaming.finish()
    assert len(read_to_the_end(streaming, iterator(streaming, name))) == 5
    streaming.clock.moment += DAY + 1
    streaming.tables.sweep()
    assert_consistent(streaming.tables)
    with streaming.tables.database.read_connection() as connection:
        assert connection.execute("SELECT count(*) FROM streams").get == 0
        assert connection.execute("SELECT count(*) FROM counts").get == 0


def test_records_are_trimmed_after_a_day_and_their_iterators_are_refused(streaming: SteppedEngine) -> None:
    streaming.run(PutItem("tab", {"pk": "old"}))
    streaming.clock.moment += DAY - 10
    streaming.run(PutItem("tab", {"pk": "new"}))
    streaming.clock.moment += 20
    name = name_of(streaming)
    for _ in range(2):  # before and after the rows are gone
        place = iterator(streaming, name)
        assert [record.keys for record in streaming.run(GetRecords(place)).records] == [{"pk": "new"}]
        with pytest.raises(TrimmedData):
            iterator(streaming, name, "AT_SEQUENCE_NUMBER", 1)
        streaming.tables.sweep()
    assert_consistent(streaming.tables)


def test_recovery_keeps_the_log_longer_than_the_stream(streaming: SteppedEngine) -> None:
    streaming.run(UpdateContinuousBackups("tab", True))
    streaming.run(PutItem("tab", {"pk": "old"}))
    streaming.clock.moment += 2 * DAY
    streaming.tables.sweep()
    assert read_stream(streaming.tables, "tab") == []
    with streaming.tables.database.read_connection() as connection:
        assert connection.execute("SELECT count(*) FROM changes_1").get == 1


def test_iterator_expires_after_fifteen_minutes(streaming: SteppedEngine) -> None:
    place = iterator(streaming, name_of(streaming), "LATEST")
    streaming.clock.moment += 899
    place = streaming.run(GetRecords(place)).next
    assert place is not None
    streaming.clock.moment += 901
    with pytest.raises(IteratorExpired):
        streaming.run(GetRecords(place))


def test_replaying_the_stream_rebuilds_the_table(streaming: SteppedEngine) -> None:
    for at in range(60):
        streaming.run(PutItem("tab", {"pk": f"{at % 7}", "n": at}))
        streaming.run(DeleteItem("tab", {"pk": f"{at % 5}"}))
    assert replay(read_stream(streaming.tables, "tab")) == read_items(streaming.tables, "tab")
