"""Stream requests decoded into operations or refused, and stream results encoded as responses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import (
    DescribeStream,
    GetRecords,
    GetRecordsResult,
    GetShardIterator,
    KeySchema,
    ListStreams,
    ListStreamsResult,
    Shard,
    ShardIterator,
    StreamDescription,
    StreamName,
    StreamRecord,
)
from holdfast.wire.arns import AwsLocation
from holdfast.wire.dispatch import decode, encode
from holdfast.wire.streams import decode_iterator, encode_iterator, format_sequence_number
from tests.cases import all_cases

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "
HERE = AwsLocation("eu-west-1", "123456789012")
ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2026-11-15T10:00:00.000"
STREAM = StreamName("orders", "2026-11-15T10:00:00.000", ARN)
SHARD = "shardId-00000001500000000000-abcdef12"
PLACE_IN_SHARD = ShardIterator(StreamName(STREAM.table, STREAM.label), SHARD, 42, 1_800_000_000.5)


def target(operation: str) -> str:
    return f"DynamoDBStreams_20120810.{operation}"


def decode_request(operation: str, body: Body) -> Any:
    """Decode a request of this operation and return the operation value."""
    return decode(target(operation), msgspec.json.encode(body))[1]


def refusal(operation: str, body: Body) -> str:
    """Decode an invalid request and return the message of its `InvalidRequest`."""
    with pytest.raises(InvalidRequest) as refused:
        decode_request(operation, body)
    return refused.value.message


def answer(operation: str, body: Body, result: Any) -> Body:
    """Decode a request, encode a result for it, and return the response."""
    codec, decoded_operation = decode(target(operation), msgspec.json.encode(body))
    encoded: Body = msgspec.json.decode(encode(codec, decoded_operation, result, HERE))
    return encoded


def one(value: str, path: str, rule: str) -> str:
    """Return DynamoDB's message for one violated constraint of the member at `path`."""
    return (
        f"1 validation error detected: Value '{value}' at '{path}' failed to satisfy constraint: Member must "
        f"{rule}"
    )


@all_cases(
    ("name", "request_", "operation"),
    [
        ("ListStreams", {}, ListStreams(limit=100)),
        (
            "ListStreams",
            {"TableName": "orders", "Limit": 3, "ExclusiveStartStreamArn": ARN},
            ListStreams(table="orders", limit=3, after=STREAM),
        ),
        ("DescribeStream", {"StreamArn": ARN}, DescribeStream(stream=STREAM, limit=100)),
        (
            "DescribeStream",
            {"StreamArn": ARN, "Limit": 1, "ExclusiveStartShardId": SHARD},
            DescribeStream(stream=STREAM, after_shard=SHARD, limit=1),
        ),
        (
            "GetShardIterator",
            {"StreamArn": ARN, "ShardId": SHARD, "ShardIteratorType": "LATEST"},
            GetShardIterator(stream=STREAM, shard=SHARD, kind="LATEST"),
        ),
        (
            "GetShardIterator",
            {
                "StreamArn": ARN,
                "ShardId": SHARD,
                "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                "SequenceNumber": "000000000000000000042",
            },
            GetShardIterator(stream=STREAM, shard=SHARD, kind="AT_SEQUENCE_NUMBER", sequence_number=42),
        ),
        (
            "GetRecords",
            {"ShardIterator": encode_iterator(PLACE_IN_SHARD)},
            GetRecords(iterator=PLACE_IN_SHARD, limit=1000),
        ),
    ],
)
def test_requests_on_streams_are_decoded(name: str, request_: Body, operation: object) -> None:
    assert decode_request(name, request_) == operation


def iterator_request(kind: str = "LATEST", **members: Any) -> Body:
    """Return the body of a GetShardIterator request of this type."""
    return {"StreamArn": ARN, "ShardId": SHARD, "ShardIteratorType": kind, **members}


NOT_FOR_THIS = INVALID + "SequenceNumber should not be passed for this iterator type"
REFUSED: list[tuple[str, Body, str]] = [
    (
        "ListStreams",
        {"Limit": 101},
        INVALID + "Limit cannot be greater than the maximum allowed size: 100",
    ),
    ("ListStreams", {"ExclusiveStartStreamArn": "x" * 40}, "Invalid StreamArn"),
    ("DescribeStream", {"StreamArn": "x" * 40}, "Invalid StreamArn"),
    ("DescribeStream", {"StreamArn": ARN.partition("/stream")[0]}, "Invalid StreamArn"),
    (
        "DescribeStream",
        {"StreamArn": ARN, "Limit": 101},
        INVALID + "Limit cannot be greater than the maximum: 100",
    ),
    (
        "DescribeStream",
        {"StreamArn": ARN, "ShardFilter": {"Type": "CHILD_SHARDS"}},
        INVALID + "ShardFilter is not supported by Holdfast; leave it out",
    ),
    (
        "GetShardIterator",
        iterator_request("bulle"),
        one(
            "bulle",
            "shardIteratorType",
            "satisfy enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_SEQUENCE_NUMBER, TRIM_HORIZON]",
        ),
    ),
    ("GetShardIterator", iterator_request(SequenceNumber="0" * 21), NOT_FOR_THIS),
    ("GetShardIterator", iterator_request("TRIM_HORIZON", SequenceNumber="x" * 30), NOT_FOR_THIS),
    ("GetShardIterator", iterator_request("AT_SEQUENCE_NUMBER"), INVALID + "Invalid SequenceNumber"),
    (
        "GetShardIterator",
        iterator_request("AFTER_SEQUENCE_NUMBER", SequenceNumber="x" * 30),
        INVALID + "Invalid SequenceNumber",
    ),
    (
        "GetShardIterator",
        iterator_request("AFTER_SEQUENCE_NUMBER", SequenceNumber="9" * 40),
        INVALID + "Invalid SequenceNumber",
    ),
    (
        "GetShardIterator",
        iterator_request("AT_SEQUENCE_NUMBER", SequenceNumber="1"),
        one("1", "sequenceNumber", "have length greater than or equal to 21"),
    ),
    ("GetRecords", {"ShardIterator": "x" * 40}, "Invalid ShardIterator"),
    ("GetRecords", {"ShardIterator": "é"}, "Invalid ShardIterator"),
]


@all_cases(("name", "request_", "text"), REFUSED)
def test_requests_on_streams_are_refused_in_the_services_words(name: str, request_: Body, text: str) -> None:
    assert refusal(name, request_) == text


@given(
    st.builds(
        ShardIterator,
        stream=st.builds(StreamName, st.text(), st.text()),
        shard=st.text(),
        position=st.integers(0, 2**63 - 1),
        issued_at=st.floats(0, 1e10),
    )
)
def test_shard_iterator_survives_a_round_trip(place: ShardIterator) -> None:
    assert decode_iterator(encode_iterator(place)) == place


# All but the last letter, which may carry unused bits.
@all_cases("at", range(len(encode_iterator(PLACE_IN_SHARD).rstrip("=")) - 1))
def test_a_shard_iterator_with_one_letter_changed_is_invalid(at: int) -> None:
    text = encode_iterator(PLACE_IN_SHARD)
    changed = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    with pytest.raises(InvalidRequest, match="^Invalid ShardIterator$"):
        decode_iterator(changed)


@given(st.text())
def test_forged_text_is_an_invalid_iterator(text: str) -> None:
    with pytest.raises(InvalidRequest, match="^Invalid ShardIterator$"):
        decode_iterator(text)


def test_sequence_numbers_are_ordered_as_texts() -> None:
    assert format_sequence_number(7) == "000000000000000000007"
    assert format_sequence_number(9) < format_sequence_number(10)


def test_stream_page_names_its_last_stream() -> None:
    encoded = answer("ListStreams", {}, ListStreamsResult((STREAM,), last=STREAM))
    assert encoded == {
        "Streams": [{"StreamArn": ARN, "TableName": "orders", "StreamLabel": "2026-11-15T10:00:00.000"}],
        "LastEvaluatedStreamArn": ARN,
    }


def test_last_stream_page_names_no_last_stream() -> None:
    assert answer("ListStreams", {}, ListStreamsResult(())) == {"Streams": []}


def test_a_stream_is_described_with_its_shards() -> None:
    shards = (Shard(SHARD, 1, 9), Shard("open", 10))
    result = StreamDescription(
        STREAM, "ENABLED", "NEW_IMAGE", 1_800_000_000.1234, KeySchema("id", "at"), shards
    )
    assert answer("DescribeStream", {"StreamArn": ARN}, result)["StreamDescription"] == {
        "StreamArn": ARN,
        "StreamLabel": "2026-11-15T10:00:00.000",
        "StreamStatus": "ENABLED",
        "StreamViewType": "NEW_IMAGE",
        "CreationRequestDateTime": 1_800_000_000.123,
        "TableName": "orders",
        "KeySchema": [
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        "Shards": [
            {
                "ShardId": SHARD,
                "SequenceNumberRange": {
                    "StartingSequenceNumber": "000000000000000000001",
                    "EndingSequenceNumber": "000000000000000000009",
                },
            },
            {"ShardId": "open", "SequenceNumberRange": {"StartingSequenceNumber": "000000000000000000010"}},
        ],
    }


def test_shard_iterator_is_returned_as_text_that_decodes_to_it() -> None:
    encoded = answer("GetShardIterator", iterator_request(), PLACE_IN_SHARD)
    assert decode_iterator(encoded["ShardIterator"]) == PLACE_IN_SHARD


def records(*found: StreamRecord, then: ShardIterator | None = None) -> Body:
    """Return the GetRecords response for these records; `then` is the next iterator."""
    return answer(
        "GetRecords", {"ShardIterator": encode_iterator(PLACE_IN_SHARD)}, GetRecordsResult(found, then)
    )


CHANGE = StreamRecord(
    sequence_number=43,
    event="MODIFY",
    at=1_800_000_001.25,
    keys={"id": "a"},
    view="NEW_AND_OLD_IMAGES",
    size_bytes=12,
    old={"id": "a", "n": 1},
    new={"id": "a", "n": 2},
)


def test_record_describes_the_change() -> None:
    (record,) = records(CHANGE)["Records"]
    event_id = record.pop("eventID")
    assert len(bytes.fromhex(event_id)) == 16
    assert record == {
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_800_000_001.25,
            "Keys": {"id": {"S": "a"}},
            "NewImage": {"id": {"S": "a"}, "n": {"N": "2"}},
            "OldImage": {"id": {"S": "a"}, "n": {"N": "1"}},
            "SequenceNumber": "000000000000000000043",
            "SizeBytes": 12,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    }


def test_a_record_has_the_same_id_however_often_it_is_read() -> None:
    other = msgspec.structs.replace(CHANGE, sequence_number=44)
    first, again, another = (records(each)["Records"][0]["eventID"] for each in (CHANGE, CHANGE, other))
    assert first == again != another


def test_omits_images_that_the_view_excludes() -> None:
    bare = msgspec.structs.replace(CHANGE, view="KEYS_ONLY", old=None, new=None)
    assert not {"NewImage", "OldImage"} & records(bare)["Records"][0]["dynamodb"].keys()


def test_record_of_an_expired_item_names_the_service_as_user() -> None:
    expired = msgspec.structs.replace(CHANGE, event="REMOVE", new=None, by_service=True)
    (record,) = records(expired)["Records"]
    assert record["userIdentity"] == {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert "userIdentity" not in records(CHANGE)["Records"][0]


def test_record_page_returns_the_next_iterator() -> None:
    onward = msgspec.structs.replace(PLACE_IN_SHARD, position=44)
    assert decode_iterator(records(then=onward)["NextShardIterator"]) == onward
    assert records() == {"Records": []}
