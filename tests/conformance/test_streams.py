"""Streams over the wire: every effective change of a table, once and in order, with the images of its view.

ListStreams, DescribeStream, GetShardIterator and GetRecords each have their shape and refusals first; then
come the contents of records, the changes that make one, reading a shard, and expired items.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import ENDPOINT_VARIABLE, MakeTable
from .protocol import (
    NOT_NULL,
    STREAMS,
    TABLE_NAME_PATTERN,
    Raw,
    cases,
    constraint,
    split_constraints,
)

Body = dict[str, Any]

EXPIRED_WITHIN_S = 30.0
AT_LEAST_1 = "Member must have value greater than or equal to 1"
LATER_S = 3600


def target(name: str) -> str:
    """Return the X-Amz-Target of a stream operation."""
    return f"{STREAMS}.{name}"


def stream_settings(view: str) -> Body:
    return {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": view}}


# Shape


ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/absent/stream/2026-01-01T00:00:00.000"
SHARD = "shardId-00000000000000000000-00000000"


@all_cases(
    ("operation", "body", "entries"),
    cases(
        {
            "no stream to describe": ("DescribeStream", {}, {constraint("null", "streamArn", NOT_NULL)}),
            "a short ARN": (
                "DescribeStream",
                {"StreamArn": "arn"},
                {constraint("'arn'", "streamArn", "Member must have length greater than or equal to 37")},
            ),
            "no shards at a time": (
                "DescribeStream",
                {"StreamArn": ARN, "Limit": 0},
                {constraint("'0'", "limit", AT_LEAST_1)},
            ),
            "a short shard to start behind": (
                "DescribeStream",
                {"StreamArn": ARN, "ExclusiveStartShardId": "shard"},
                {
                    constraint(
                        "'shard'",
                        "exclusiveStartShardId",
                        "Member must have length greater than or equal to 28",
                    )
                },
            ),
            "nothing for an iterator": (
                "GetShardIterator",
                {},
                {
                    constraint("null", "streamArn", NOT_NULL),
                    constraint("null", "shardId", NOT_NULL),
                    constraint("null", "shardIteratorType", NOT_NULL),
                },
            ),
            "a short sequence number": (
                "GetShardIterator",
                {
                    "StreamArn": ARN,
                    "ShardId": SHARD,
                    "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                    "SequenceNumber": "12",
                },
                {constraint("'12'", "sequenceNumber", "Member must have length greater than or equal to 21")},
            ),
            "no iterator": ("GetRecords", {}, {constraint("null", "shardIterator", NOT_NULL)}),
            "an empty iterator": (
                "GetRecords",
                {"ShardIterator": ""},
                {constraint("''", "shardIterator", "Member must have length greater than or equal to 1")},
            ),
            "no records at a time": (
                "GetRecords",
                {"ShardIterator": "a", "Limit": 0},
                {constraint("'0'", "limit", AT_LEAST_1)},
            ),
            "no streams at a time": ("ListStreams", {"Limit": 0}, {constraint("'0'", "limit", AT_LEAST_1)}),
            "a table with a strange name": (
                "ListStreams",
                {"TableName": "abc;"},
                {constraint("'abc;'", "tableName", TABLE_NAME_PATTERN)},
            ),
        }
    ),
)
def test_reports_every_violated_constraint(raw: Raw, operation: str, body: Body, entries: set[str]) -> None:
    # dynalite has no streams, and DynamoDB Local and moto check hardly any of this.
    code, text = raw.refusal(target(operation), body)
    assert (code, split_constraints(text)) == ("ValidationException", entries)


def test_an_unknown_kind_of_iterator_is_refused(raw: Raw) -> None:
    body = {"StreamArn": ARN, "ShardId": SHARD, "ShardIteratorType": "FIRST"}
    code, text = raw.refusal(target("GetShardIterator"), body)
    assert code == "ValidationException"
    start = "1 validation error detected: Value 'FIRST' at 'shardIteratorType' failed to satisfy constraint: "
    assert str(text).startswith(start + "Member must satisfy enum value set: [")


@pytest.mark.parametrize(
    ("operation", "limit"), [("ListStreams", 101), ("DescribeStream", 101), ("GetRecords", 1001)]
)
def test_rejects_a_limit_above_the_maximum(raw: Raw, operation: str, limit: int) -> None:
    # DynamoDB Local: "One or more parameter values were invalid: Limit should be less than or equal to 1000".
    body = {"StreamArn": ARN} if operation == "DescribeStream" else {}
    body |= {"ShardIterator": "a"} if operation == "GetRecords" else {}
    code, text = raw.refusal(target(operation), body | {"Limit": limit})
    assert code == "ValidationException"
    assert "imit" in str(text)
    assert str(limit - 1) in str(text)


# Validation


def test_names_a_missing_stream(raw: Raw) -> None:
    text = f"Requested resource not found: Stream: {ARN} not found"
    assert raw.refusal(target("DescribeStream"), {"StreamArn": ARN}) == ("ResourceNotFoundException", text)


def test_missing_stream_has_no_iterator(raw: Raw) -> None:
    body = {"StreamArn": ARN, "ShardId": SHARD, "ShardIteratorType": "LATEST"}
    assert raw.refusal(target("GetShardIterator"), body)[0] == "ResourceNotFoundException"


def test_missing_shard_has_no_iterator(raw: Raw, table_stream: Stream) -> None:
    body = {"StreamArn": table_stream.arn, "ShardId": SHARD, "ShardIteratorType": "LATEST"}
    assert raw.refusal(target("GetShardIterator"), body)[0] == "ResourceNotFoundException"


def test_forged_iterator_is_refused(raw: Raw) -> None:
    code, text = raw.refusal(target("GetRecords"), {"ShardIterator": "garbage"})
    assert (code, text) == ("ValidationException", "Invalid ShardIterator")


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_sequence_number_iterator_needs_a_sequence_number(raw: Raw, table_stream: Stream, kind: str) -> None:
    body = {"StreamArn": table_stream.arn, "ShardId": table_stream.shard, "ShardIteratorType": kind}
    assert raw.refusal(target("GetShardIterator"), body)[0] == "ValidationException"


@pytest.mark.parametrize("kind", ["TRIM_HORIZON", "LATEST"])
def test_horizon_and_latest_take_no_sequence_number(raw: Raw, table_stream: Stream, kind: str) -> None:
    body = {"StreamArn": table_stream.arn, "ShardId": table_stream.shard, "ShardIteratorType": kind}
    assert (
        raw.refusal(target("GetShardIterator"), body | {"SequenceNumber": "1" * 21})[0]
        == "ValidationException"
    )


# Helpers


class Stream:
    """The stream of one table: its first shard, iterators of it, and all its records."""

    def __init__(self, dynamodb: Any, streams: Any, table: str) -> None:
        self.table = table
        self.arn: str = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
        self._streams = streams

    def describe(self, **request: Any) -> Body:
        description: Body = self._streams.describe_stream(StreamArn=self.arn, **request)["StreamDescription"]
        return description

    @property
    def shard(self) -> str:
        """The id of the first shard."""
        return str(self.describe()["Shards"][0]["ShardId"])

    def iterator(self, kind: str, shard: str | None = None, **place: str) -> str:
        """Return a shard iterator of this type, by default of the first shard."""
        answer = self._streams.get_shard_iterator(
            StreamArn=self.arn, ShardId=shard or self.shard, ShardIteratorType=kind, **place
        )
        return str(answer["ShardIterator"])

    def page(self, iterator: str, **request: Any) -> tuple[list[Body], str | None]:
        """Return the records of one GetRecords call and the next iterator; None ends a closed shard."""
        answer = self._streams.get_records(ShardIterator=iterator, **request)
        return answer["Records"], answer.get("NextShardIterator")

    def read(self, iterator: str) -> list[Body]:
        """Return the records from the iterator to the current end of the shard."""
        found: list[Body] = []
        following: str | None = iterator
        while following:
            records, following = self.page(following)
            if not records:
                break
            found += records
        return found

    def records(self) -> list[Body]:
        """Return all records of all shards."""
        shards = [shard["ShardId"] for shard in self.describe()["Shards"]]
        return [record for shard in shards for record in self.read(self.iterator("TRIM_HORIZON", shard))]

    def changes(self) -> list[tuple[str, Body | None, Body | None]]:
        """Return each record as its event, old image and new image."""
        return [
            (record["eventName"], record["dynamodb"].get("OldImage"), record["dynamodb"].get("NewImage"))
            for record in self.records()
        ]


OpenStream = Callable[..., Stream]


@pytest.fixture
def open_stream(dynamodb: Any, streams: Any, make_table: MakeTable) -> OpenStream:
    """Return a function that creates a table with a stream of this view."""

    def make(view: str = "NEW_AND_OLD_IMAGES", *keys: str) -> Stream:
        return Stream(dynamodb, streams, make_table(*(keys or ("pk:S",)), **stream_settings(view)))

    return make


@pytest.fixture
def table_stream(open_stream: OpenStream) -> Stream:
    return open_stream()


def item(key: str = "a", **attributes: str) -> Body:
    """Return an item with this key and string attributes."""
    return {"pk": {"S": key}} | {name: {"S": value} for name, value in attributes.items()}


# ListStreams and DescribeStream


def test_a_stream_is_listed_under_its_table(streams: Any, table_stream: Stream) -> None:
    (entry,) = streams.list_streams(TableName=table_stream.table)["Streams"]
    assert entry["TableName"] == table_stream.table
    assert entry["StreamArn"] == table_stream.arn
    assert table_stream.arn.endswith(f"/stream/{entry['StreamLabel']}")


def test_a_table_without_a_stream_has_none(streams: Any, hash_table: str) -> None:
    assert streams.list_streams(TableName=hash_table)["Streams"] == []


def test_all_streams_are_listed_page_by_page(streams: Any, open_stream: OpenStream) -> None:
    wanted = {open_stream().arn, open_stream().arn}
    found: list[str] = []
    request: Body = {"Limit": 1}
    while True:
        answer = streams.list_streams(**request)
        found += [entry["StreamArn"] for entry in answer["Streams"]]
        if "LastEvaluatedStreamArn" not in answer:
            break
        request["ExclusiveStartStreamArn"] = answer["LastEvaluatedStreamArn"]
    assert wanted <= set(found)
    assert len(found) == len(set(found))


def test_a_stream_is_described(open_stream: OpenStream) -> None:
    stream = open_stream("NEW_IMAGE", "pk:S", "sk:N")
    description = stream.describe()
    assert description["StreamArn"] == stream.arn
    assert description["StreamStatus"] == "ENABLED"
    assert description["StreamViewType"] == "NEW_IMAGE"
    assert description["TableName"] == stream.table
    assert [entry["AttributeName"] for entry in description["KeySchema"]] == ["pk", "sk"]
    assert stream.arn.endswith(description["StreamLabel"])
    assert abs(description["CreationRequestDateTime"].timestamp() - time.time()) < LATER_S


def test_an_open_shard_has_a_beginning_and_no_end(table_stream: Stream) -> None:
    (shard,) = table_stream.describe()["Shards"]
    assert 28 <= len(shard["ShardId"]) <= 65
    sequence = shard["SequenceNumberRange"]
    assert 21 <= len(sequence["StartingSequenceNumber"]) <= 40
    assert "EndingSequenceNumber" not in sequence


def test_lists_shards_after_a_given_shard(table_stream: Stream) -> None:
    assert table_stream.describe(ExclusiveStartShardId=table_stream.shard)["Shards"] == []


# Contents of a record

OLD, NEW = item(v="old"), item(v="new")


@pytest.mark.parametrize(
    ("view", "images"),
    [
        ("KEYS_ONLY", [(None, None)] * 3),
        ("NEW_IMAGE", [(None, OLD), (None, NEW), (None, None)]),
        ("OLD_IMAGE", [(None, None), (OLD, None), (NEW, None)]),
        ("NEW_AND_OLD_IMAGES", [(None, OLD), (OLD, NEW), (NEW, None)]),
    ],
)
def test_record_images_follow_the_stream_view(
    raw: Raw, open_stream: OpenStream, view: str, images: list[tuple[Body | None, Body | None]]
) -> None:
    stream = open_stream(view)
    raw.put(stream.table, OLD)
    raw.put(stream.table, NEW)
    raw.answer("DeleteItem", {"TableName": stream.table, "Key": item()})
    events = ["INSERT", "MODIFY", "REMOVE"]
    assert stream.changes() == [(event, *pair) for event, pair in zip(events, images, strict=True)]
    for record in stream.records():
        assert record["dynamodb"]["Keys"] == item()
        assert record["dynamodb"]["StreamViewType"] == view


def test_record_has_region_and_time(raw: Raw, table_stream: Stream) -> None:
    raw.put(table_stream.table, OLD)
    (record,) = table_stream.records()
    assert record["eventSource"] == "aws:dynamodb"
    assert record["eventVersion"] == "1.1"  # moto: 1.0
    assert record["awsRegion"]
    assert record["eventID"]
    assert "userIdentity" not in record
    change = record["dynamodb"]
    assert change["SequenceNumber"].isdigit()
    assert 21 <= len(change["SequenceNumber"]) <= 40
    assert abs(change["ApproximateCreationDateTime"].timestamp() - time.time()) < LATER_S


def test_a_record_is_as_large_as_its_key_and_its_images(
    raw: Raw, make_table: MakeTable, dynamodb: Any, streams: Any
) -> None:
    """The three records of the developer guide's example event have 26, 59 and 38 bytes."""
    stream = Stream(dynamodb, streams, make_table("Id:N", **stream_settings("NEW_AND_OLD_IMAGES")))
    key = {"Id": {"N": "101"}}
    raw.put(stream.table, key | {"Message": {"S": "New item!"}})
    raw.put(stream.table, key | {"Message": {"S": "This item has changed"}})
    raw.answer("DeleteItem", {"TableName": stream.table, "Key": key})
    assert [record["dynamodb"]["SizeBytes"] for record in stream.records()] == [26, 59, 38]


def test_the_key_of_a_record_has_both_parts(raw: Raw, open_stream: OpenStream) -> None:
    stream = open_stream("KEYS_ONLY", "pk:S", "sk:N")
    raw.put(stream.table, {"pk": {"S": "a"}, "sk": {"N": "1.50"}, "v": {"S": "x"}})
    (record,) = stream.records()
    assert record["dynamodb"]["Keys"] == {"pk": {"S": "a"}, "sk": {"N": "1.5"}}


def test_images_hold_every_type(raw: Raw, dynamodb: Any, table_stream: Stream) -> None:
    whole: Body = item() | {
        "n": {"N": "-1.5"},
        "b": {"B": b"\x00\xff"},
        "yes": {"BOOL": True},
        "nothing": {"NULL": True},
        "l": {"L": [{"S": ""}, {"N": "0"}]},
        "m": {"M": {"deep": {"M": {}}}},
        "ns": {"NS": ["1"]},
    }
    dynamodb.put_item(TableName=table_stream.table, Item=whole)
    assert table_stream.changes() == [("INSERT", None, whole)]


# Changes that make a record


def update(table: str, expression: str | None, **values: Body) -> Body:
    """Return the body of an UpdateItem on the item `a`."""
    body: Body = {"TableName": table, "Key": item()}
    if expression:
        body["UpdateExpression"] = expression
    if values:
        body["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
    return body


@pytest.mark.parametrize(
    ("operation", "body"),
    cases(
        {
            "the same item put": ("PutItem", {"Item": OLD}),
            "the same value set": (
                "UpdateItem",
                {
                    "Key": item(),
                    "UpdateExpression": "SET v = :v",
                    "ExpressionAttributeValues": {":v": {"S": "old"}},
                },
            ),
            "an update of nothing": ("UpdateItem", {"Key": item()}),
            "an absent attribute removed": (
                "UpdateItem",
                {"Key": item(), "UpdateExpression": "REMOVE absent"},
            ),
            "an absent item deleted": ("DeleteItem", {"Key": item("absent")}),
        }
    ),
)
def test_write_without_a_change_makes_no_record(
    raw: Raw, table_stream: Stream, operation: str, body: Body
) -> None:
    # moto records them all.
    raw.put(table_stream.table, OLD)
    raw.answer(operation, {"TableName": table_stream.table} | body)
    assert table_stream.changes() == [("INSERT", None, OLD)]


def test_a_refused_write_makes_no_record(raw: Raw, table_stream: Stream) -> None:
    body = {"TableName": table_stream.table, "Item": OLD, "ConditionExpression": "attribute_exists(pk)"}
    assert raw.refusal("PutItem", body)[0] == "ConditionalCheckFailedException"
    assert table_stream.records() == []


def test_an_update_that_makes_an_item_is_an_insert(raw: Raw, table_stream: Stream) -> None:
    raw.answer("UpdateItem", update(table_stream.table, None))
    assert table_stream.changes() == [("INSERT", None, item())]


def test_an_update_shows_the_whole_item_before_and_after(raw: Raw, table_stream: Stream) -> None:
    raw.put(table_stream.table, item(v="old", kept="k"))
    raw.answer("UpdateItem", update(table_stream.table, "SET v = :v, w = :v", v={"S": "new"}))
    assert table_stream.changes()[1] == ("MODIFY", item(v="old", kept="k"), item(v="new", kept="k", w="new"))


def test_batches_and_transactions_make_a_record_for_each_item(raw: Raw, table_stream: Stream) -> None:
    puts = [{"PutRequest": {"Item": item(key)}} for key in "ab"]
    raw.answer("BatchWriteItem", {"RequestItems": {table_stream.table: puts}})
    raw.answer(
        "TransactWriteItems",
        {
            "TransactItems": [
                {"Put": {"TableName": table_stream.table, "Item": item("c")}},
                {"Delete": {"TableName": table_stream.table, "Key": item("a")}},
            ]
        },
    )
    seen = {(record["eventName"], record["dynamodb"]["Keys"]["pk"]["S"]) for record in table_stream.records()}
    assert seen == {("INSERT", "a"), ("INSERT", "b"), ("INSERT", "c"), ("REMOVE", "a")}


def test_stream_excludes_writes_before_its_creation(
    raw: Raw, dynamodb: Any, streams: Any, hash_table: str, await_active: Callable[[str], Body]
) -> None:
    raw.put(hash_table, OLD)
    dynamodb.update_table(TableName=hash_table, **stream_settings("NEW_AND_OLD_IMAGES"))
    await_active(hash_table)
    raw.put(hash_table, NEW)
    assert Stream(dynamodb, streams, hash_table).changes() == [("MODIFY", OLD, NEW)]


# Reading


def put_versions(raw: Raw, stream: Stream, count: int = 5) -> None:
    """Put the item `a` this many times, with `v` counting up from 0."""
    for number in range(count):
        raw.put(stream.table, item("a", v=str(number)))


def versions(records: list[Body]) -> list[str]:
    """Return the `v` of each new image."""
    return [record["dynamodb"]["NewImage"]["v"]["S"] for record in records]


def test_the_changes_of_an_item_come_in_order(raw: Raw, table_stream: Stream) -> None:
    put_versions(raw, table_stream, 20)
    records = table_stream.records()
    assert versions(records) == [str(number) for number in range(20)]
    numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in records]
    assert numbers == sorted(set(numbers))
    assert len({record["eventID"] for record in records}) == 20


def test_sequence_numbers_are_not_below_the_start_of_the_shard(raw: Raw, table_stream: Stream) -> None:
    put_versions(raw, table_stream, 1)
    (record,) = table_stream.records()
    beginning = table_stream.describe()["Shards"][0]["SequenceNumberRange"]["StartingSequenceNumber"]
    assert int(record["dynamodb"]["SequenceNumber"]) >= int(beginning)


def test_latest_iterator_sees_only_later_records(raw: Raw, table_stream: Stream) -> None:
    put_versions(raw, table_stream)
    iterator = table_stream.iterator("LATEST")
    assert table_stream.page(iterator)[0] == []
    raw.put(table_stream.table, item("a", v="later"))
    assert versions(table_stream.read(iterator)) == ["later"]


def test_iterators_start_at_or_after_a_sequence_number(raw: Raw, table_stream: Stream) -> None:
    put_versions(raw, table_stream)
    number = table_stream.records()[2]["dynamodb"]["SequenceNumber"]
    at = table_stream.iterator("AT_SEQUENCE_NUMBER", SequenceNumber=number)
    after = table_stream.iterator("AFTER_SEQUENCE_NUMBER", SequenceNumber=number)
    assert versions(table_stream.read(at)) == ["2", "3", "4"]
    assert versions(table_stream.read(after)) == ["3", "4"]


def test_trim_horizon_starts_at_the_first_record(raw: Raw, table_stream: Stream) -> None:
    iterator = table_stream.iterator("TRIM_HORIZON")
    put_versions(raw, table_stream)
    assert versions(table_stream.read(iterator)) == ["0", "1", "2", "3", "4"]


def test_limited_pages_continue_where_the_last_ended(raw: Raw, table_stream: Stream) -> None:
    put_versions(raw, table_stream)
    first, following = table_stream.page(table_stream.iterator("TRIM_HORIZON"), Limit=2)
    assert versions(first) == ["0", "1"]
    assert following is not None
    second, following = table_stream.page(following, Limit=2)
    assert versions(second) == ["2", "3"]
    assert following is not None
    assert versions(table_stream.read(following)) == ["4"]


def test_an_iterator_may_be_used_again(raw: Raw, table_stream: Stream) -> None:
    put_versions(raw, table_stream)
    iterator = table_stream.iterator("TRIM_HORIZON")
    # moto advances the iterator itself.
    assert table_stream.page(iterator)[0] == table_stream.page(iterator)[0] != []


def test_open_shard_always_has_a_next_iterator(raw: Raw, table_stream: Stream) -> None:
    records, following = table_stream.page(table_stream.iterator("TRIM_HORIZON"))
    assert records == []
    put_versions(raw, table_stream, 1)
    assert following is not None
    assert versions(table_stream.read(following)) == ["0"]


# Turning it off


@pytest.fixture
def turn_off(dynamodb: Any, await_active: Callable[[str], Body]) -> Callable[[Stream], None]:
    """Return a function that disables a table's stream and waits until the table is active."""

    def turn(stream: Stream) -> None:
        dynamodb.update_table(TableName=stream.table, StreamSpecification={"StreamEnabled": False})
        await_active(stream.table)

    return turn


def test_a_stream_that_is_off_can_be_read_to_its_end(
    raw: Raw, table_stream: Stream, turn_off: Callable[[Stream], None]
) -> None:
    put_versions(raw, table_stream)
    turn_off(table_stream)
    raw.put(table_stream.table, item("a", v="unseen"))
    assert table_stream.describe()["StreamStatus"] == "DISABLED"
    assert versions(table_stream.records()) == ["0", "1", "2", "3", "4"]


def test_the_shard_of_a_stream_that_is_off_is_closed(
    raw: Raw, table_stream: Stream, turn_off: Callable[[Stream], None]
) -> None:
    put_versions(raw, table_stream, 1)
    turn_off(table_stream)
    (shard,) = table_stream.describe()["Shards"]
    assert int(shard["SequenceNumberRange"]["EndingSequenceNumber"]) >= 0
    following: str | None = table_stream.iterator("TRIM_HORIZON")
    for _ in range(5):
        assert following is not None
        _, following = table_stream.page(following)
        if following is None:
            break
    assert following is None, "a closed shard ends"


def test_reenabled_stream_starts_empty(
    raw: Raw,
    dynamodb: Any,
    streams: Any,
    table_stream: Stream,
    turn_off: Callable[[Stream], None],
    await_active: Callable[[str], Body],
) -> None:
    put_versions(raw, table_stream, 1)
    turn_off(table_stream)
    dynamodb.update_table(TableName=table_stream.table, **stream_settings("KEYS_ONLY"))
    await_active(table_stream.table)
    raw.put(table_stream.table, NEW)
    fresh = Stream(dynamodb, streams, table_stream.table)
    assert fresh.arn != table_stream.arn
    assert [record["eventName"] for record in fresh.records()] == ["MODIFY"]
    listed = [entry["StreamArn"] for entry in streams.list_streams(TableName=table_stream.table)["Streams"]]
    assert sorted(listed) == sorted([table_stream.arn, fresh.arn])


def test_the_stream_of_a_deleted_table_can_still_be_read(
    raw: Raw, dynamodb: Any, table_stream: Stream
) -> None:
    # DynamoDB Local forgets it with the table.
    put_versions(raw, table_stream)
    dynamodb.delete_table(TableName=table_stream.table)
    dynamodb.get_waiter("table_not_exists").wait(TableName=table_stream.table, WaiterConfig={"Delay": 1})
    assert table_stream.describe()["StreamStatus"] in ("DISABLING", "DISABLED")
    assert versions(table_stream.records())[:5] == ["0", "1", "2", "3", "4"]


# Expired items


@pytest.fixture
def expire_now(dynamodb: Any) -> Callable[[str], None]:
    """Return a function that waits until the expired items of a table are gone. Other endpoints may take two
    days.
    """
    if os.environ.get(ENDPOINT_VARIABLE):
        pytest.skip(
            "HOLDFAST_CONFORMANCE_ENDPOINT names another endpoint, which may keep expired items for days"
        )

    def wait(table: str) -> None:
        deadline = time.monotonic() + EXPIRED_WITHIN_S
        ended = {
            ":now": {"N": str(int(time.time()))},
            ":long_ago": {"N": str(int(time.time()) - 4 * 365 * 86400)},
        }
        while dynamodb.scan(
            TableName=table,
            FilterExpression="ends_at BETWEEN :long_ago AND :now",
            ExpressionAttributeValues=ended,
        )["Count"]:
            assert time.monotonic() < deadline, "expired items are still there"
            time.sleep(0.05)

    return wait


def enable_ttl(dynamodb: Any, table: str) -> None:
    specification = {"AttributeName": "ends_at", "Enabled": True}
    dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)


def item_ending(key: str, in_s: int) -> Body:
    """Return an item whose expiry time is this many seconds from now."""
    return item(key) | {"ends_at": {"N": str(int(time.time()) + in_s)}}


def test_an_expired_item_is_removed_by_the_service_itself(
    raw: Raw, dynamodb: Any, table_stream: Stream, expire_now: Callable[[str], None]
) -> None:
    enable_ttl(dynamodb, table_stream.table)
    ended = item_ending("a", -60)
    raw.put(table_stream.table, ended)
    expire_now(table_stream.table)
    inserted, removed = table_stream.records()
    assert (removed["eventName"], removed["dynamodb"]["OldImage"]) == ("REMOVE", ended)
    assert "userIdentity" not in inserted
    identity = {name.lower(): value for name, value in removed["userIdentity"].items()}
    assert identity == {"type": "Service", "principalid": "dynamodb.amazonaws.com"}


def test_removes_only_recently_expired_items(
    raw: Raw, dynamodb: Any, hash_table: str, expire_now: Callable[[str], None]
) -> None:
    """An expiry that is a string, missing, in the future, or more than five years ago has no effect."""
    raw.put(hash_table, item_ending("before it was turned on", -60))
    enable_ttl(dynamodb, hash_table)
    raw.put(hash_table, item_ending("ended", -60))
    raw.put(hash_table, item_ending("to come", LATER_S))
    raw.put(hash_table, item_ending("long ago", -6 * 365 * 86400))
    raw.put(hash_table, item("a string", ends_at=str(int(time.time()) - 60)))
    raw.put(hash_table, item("none"))
    expire_now(hash_table)
    kept = {found["pk"]["S"] for found in dynamodb.scan(TableName=hash_table)["Items"]}
    assert kept == {"to come", "long ago", "a string", "none"}


def test_item_with_an_extended_expiry_stays(
    raw: Raw, dynamodb: Any, table_stream: Stream, expire_now: Callable[[str], None]
) -> None:
    raw.put(table_stream.table, item_ending("a", -60))
    raw.put(table_stream.table, item_ending("a", LATER_S))
    raw.put(table_stream.table, item_ending("b", -60))
    enable_ttl(dynamodb, table_stream.table)
    expire_now(table_stream.table)
    assert [found["pk"]["S"] for found in dynamodb.scan(TableName=table_stream.table)["Items"]] == ["a"]
