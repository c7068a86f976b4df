"""Streams: records in order, a closed stream that comes to an end, and what is trimmed."""

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
from tests.faults.engine_consistency import assert_consistent, items_of, replayed, stream_of

from .stepping import Stepped, definition

DAY = 86400


@pytest.fixture
def streaming(engine: Stepped) -> Stepped:
    engine.run(CreateTable(msgspec.structs.replace(definition(), stream_view="NEW_AND_OLD_IMAGES")))
    return engine


def name_of(engine: Stepped) -> StreamName:
    label = engine.run(DescribeTable("tab")).stream_label
    assert label is not None
    return StreamName("tab", label)


def iterator(engine: Stepped, name: StreamName, kind: Any = "TRIM_HORIZON", number: int | None = None) -> Any:
    [shard] = engine.run(DescribeStream(name)).shards
    return engine.run(GetShardIterator(name, shard.id, kind, number))


def read_to_the_end(engine: Stepped, place: Any, limit: int = 2) -> list[Any]:
    records: list[Any] = []
    for _ in range(100):
        page = engine.run(GetRecords(place, limit=limit))
        records += page.records
        if page.next is None:
            return records
        place = page.next
    raise AssertionError("the stream has no end")


def test_a_write_that_changes_nothing_is_not_told(streaming: Stepped) -> None:
    for _ in range(2):
        streaming.run(PutItem("tab", {"pk": "a", "v": [1, {"x": frozenset({1, 2})}]}))
        streaming.run(DeleteItem("tab", {"pk": "absent"}))
    assert [record.event for record in stream_of(streaming.tables, "tab")] == ["INSERT"]


def test_true_in_the_place_of_one_is_a_change(streaming: Stepped) -> None:
    streaming.run(PutItem("tab", {"pk": "a", "v": [1]}))
    streaming.run(PutItem("tab", {"pk": "a", "v": [True]}))
    assert [record.event for record in stream_of(streaming.tables, "tab")] == ["INSERT", "MODIFY"]


def test_a_closed_stream_comes_to_an_end_though_its_last_records_are_trimmed(streaming: Stepped) -> None:
    streaming.run(PutItem("tab", {"pk": "a"}))
    name = name_of(streaming)
    streaming.clock.moment += DAY - 300
    streaming.run(UpdateTable("tab", stream=StreamChange(None)))
    place = iterator(streaming, name)
    streaming.clock.moment += 600
    assert read_to_the_end(streaming, place) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_a_closed_stream_is_read_to_its_end_in_pages_of_any_size(streaming: Stepped, limit: int) -> None:
    for at in range(3):
        streaming.run(PutItem("tab", {"pk": f"{at}"}))
    name = name_of(streaming)
    streaming.run(UpdateTable("tab", stream=StreamChange(None)))
    found = read_to_the_end(streaming, iterator(streaming, name), limit)
    assert [record.keys["pk"] for record in found] == ["0", "1", "2"]


def test_the_stream_of_a_deleted_table_is_read_for_a_day(streaming: Stepped) -> None:
    for at in range(5):
        streaming.run(PutItem("tab", {"pk": f"{at}"}))
    name = name_of(streaming)
    streaming.run(DeleteTable("tab"))
    streaming.finish()
    assert len(read_to_the_end(streaming, iterator(streaming, name))) == 5
    streaming.clock.moment += DAY + 1
    streaming.tables.sweep()
    assert_consistent(streaming.tables)
    with streaming.tables.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM streams").get == 0
        assert connection.execute("SELECT count(*) FROM counts").get == 0


def test_records_are_trimmed_after_a_day_and_their_place_is_told_as_trimmed(streaming: Stepped) -> None:
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


def test_recovery_keeps_the_log_longer_than_the_stream_shows_it(streaming: Stepped) -> None:
    streaming.run(UpdateContinuousBackups("tab", True))
    streaming.run(PutItem("tab", {"pk": "old"}))
    streaming.clock.moment += 2 * DAY
    streaming.tables.sweep()
    assert stream_of(streaming.tables, "tab") == []
    with streaming.tables.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM changes_1").get == 1


def test_an_iterator_lives_a_quarter_of_an_hour(streaming: Stepped) -> None:
    place = iterator(streaming, name_of(streaming), "LATEST")
    streaming.clock.moment += 899
    place = streaming.run(GetRecords(place)).next
    assert place is not None
    streaming.clock.moment += 901
    with pytest.raises(IteratorExpired):
        streaming.run(GetRecords(place))


def test_a_stream_switched_off_and_on_is_two_streams_without_the_writes_between(engine: Stepped) -> None:
    engine.run(CreateTable(definition()))
    names = []
    for at in range(3):
        engine.run(UpdateTable("tab", stream=StreamChange("NEW_AND_OLD_IMAGES")))
        names.append(name_of(engine))
        engine.run(PutItem("tab", {"pk": "told", "n": at}))
        engine.run(UpdateTable("tab", stream=StreamChange(None)))
        engine.run(PutItem("tab", {"pk": "untold", "n": at}))
    assert len(set(names)) == 3
    for at, name in enumerate(names):
        [record] = read_to_the_end(engine, iterator(engine, name))
        assert record.new == {"pk": "told", "n": at}


def test_the_stream_replayed_is_the_table(streaming: Stepped) -> None:
    for at in range(60):
        streaming.run(PutItem("tab", {"pk": f"{at % 7}", "n": at}))
        streaming.run(DeleteItem("tab", {"pk": f"{at % 5}"}))
    assert replayed(stream_of(streaming.tables, "tab")) == items_of(streaming.tables, "tab")
