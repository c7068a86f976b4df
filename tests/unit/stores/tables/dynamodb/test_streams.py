"""Streams of DynamoDB at a scripted endpoint: ARNs, shard ids and iterators in the service's own format."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import BackupNotFound, InvalidRequest, NotFound
from holdfast.operations.tables import (
    BackupName,
    DescribeBackup,
    DescribeStream,
    GetRecords,
    GetShardIterator,
    ShardIterator,
    StreamName,
)
from holdfast.stores.tables.dynamodb import open_dynamodb

from .endpoints import Reply, ok, run_scripted_endpoint

ACCOUNT = "arn:aws:dynamodb:eu-central-1:123456789012:table/"
STREAM = StreamName("Tab", "2026-01-01T00:00:00.000")
ARN = f"{ACCOUNT}Tab/stream/{STREAM.label}"
# The service's sequence numbers have more than 64 bits.
FIRST = 100000000003498069978


def shard_id(number: int) -> str:
    return f"shardId-{number:020d}-00000000"


def stream_description(*shards: int, last: str | None = None) -> Reply:
    """Return the answer to DescribeStream with these shards; `last` says that more follow."""
    description: dict[str, Any] = {
        "StreamStatus": "ENABLED",
        "StreamViewType": "KEYS_ONLY",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "Shards": [
            {
                "ShardId": shard_id(number),
                "SequenceNumberRange": {"StartingSequenceNumber": f"{FIRST + number}"},
            }
            for number in shards
        ],
    }
    return ok(StreamDescription=description | ({"LastEvaluatedShardId": last} if last else {}))


def answer(action: str, request: dict[str, Any]) -> Reply:
    """Answer as the service would for a table with one stream of three shards."""
    if action == "ListStreams":
        known = request["TableName"] == "Tab"
        return ok(
            Streams=[{"StreamArn": ARN, "TableName": "Tab", "StreamLabel": STREAM.label}] if known else []
        )
    if action == "ListBackups":
        return ok(BackupSummaries=[])
    if action == "GetShardIterator":
        return ok(ShardIterator=f"{ARN}|place")
    if action == "GetRecords":
        return ok(Records=[], NextShardIterator="elsewhere")
    if request.get("ExclusiveStartShardId") is None:
        return stream_description(1, 2, last=shard_id(2))
    return stream_description(3)


async def run_all(*operations: Any) -> tuple[list[Any], list[tuple[str, dict[str, Any]]]]:
    """Run the operations in order on a new engine; return their results and the received requests."""

    async def execute(url: str) -> list[Any]:
        async with open_dynamodb(endpoint=url) as tables:
            return [await tables.run(operation) for operation in operations]

    with run_scripted_endpoint(answer) as (url, requests):
        return await execute(url), list(requests)


async def test_arn_prefix_is_looked_up_once() -> None:
    _, requests = await run_all(
        DescribeStream(stream=STREAM), DescribeStream(stream=StreamName("Other", "label"))
    )

    assert [action for action, _ in requests] == ["ListStreams"] + ["DescribeStream"] * 4
    assert requests[-1][1]["StreamArn"] == f"{ACCOUNT}Other/stream/label"


async def test_complete_arn_is_used_without_lookup() -> None:
    elsewhere = "arn:aws:dynamodb:us-west-1:1:table/Tab/stream/x"
    _, requests = await run_all(DescribeStream(stream=StreamName("Tab", "x", elsewhere)))

    assert [request["StreamArn"] for _, request in requests] == [elsewhere] * 2


async def test_shards_are_read_to_the_end_or_the_limit() -> None:
    [everything], requests = await run_all(DescribeStream(stream=STREAM))
    assert [shard.id for shard in everything.shards] == [shard_id(1), shard_id(2), shard_id(3)]
    assert everything.shards[0].starting == FIRST + 1
    assert [request.get("Limit") for _, request in requests[1:]] == [100, 98]

    [some], requests = await run_all(DescribeStream(stream=STREAM, limit=2))
    assert len(some.shards) == 2
    assert len(requests) == 2


async def test_iterator_is_passed_on_unchanged() -> None:
    place = GetShardIterator(
        stream=STREAM, shard=shard_id(1), kind="AFTER_SEQUENCE_NUMBER", sequence_number=FIRST
    )
    [iterator], requests = await run_all(place)
    assert requests[-1][1]["SequenceNumber"] == str(FIRST)

    [result], requests = await run_all(GetRecords(iterator=iterator, limit=7))
    assert requests == [("GetRecords", {"ShardIterator": f"{ARN}|place", "Limit": 7})]
    _, requests = await run_all(GetRecords(iterator=result.next))
    assert requests[0][1]["ShardIterator"] == "elsewhere"


async def test_a_short_sequence_number_is_sent_in_the_length_the_service_demands() -> None:
    place = GetShardIterator(stream=STREAM, shard=shard_id(1), kind="AT_SEQUENCE_NUMBER", sequence_number=7)
    _, requests = await run_all(place)

    assert requests[-1][1]["SequenceNumber"] == "000000000000000000007"


async def test_rejects_an_iterator_of_another_engine() -> None:
    with pytest.raises(InvalidRequest, match="GetShardIterator"):
        await run_all(GetRecords(iterator=ShardIterator(STREAM, shard_id(1), 1, 0.0)))


async def test_table_without_a_stream_has_none_to_describe() -> None:
    with pytest.raises(NotFound, match="None/stream/x"):
        await run_all(DescribeStream(stream=StreamName("None", "x")))


async def test_table_without_a_backup_has_none_to_describe() -> None:
    with pytest.raises(BackupNotFound, match="Tab/backup/x"):
        await run_all(DescribeBackup(backup=BackupName("Tab", "x")))
