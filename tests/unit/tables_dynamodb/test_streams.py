"""Streams at the service: names and places, which it calls by texts of its own."""

from __future__ import annotations

import asyncio
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

from .endpoints import Reply, ok, scripted

ACCOUNT = "arn:aws:dynamodb:eu-central-1:123456789012:table/"
STREAM = StreamName("Tab", "2026-01-01T00:00:00.000")
ARN = f"{ACCOUNT}Tab/stream/{STREAM.label}"
# As the service has them: more than 64 bits.
FIRST = 100000000003498069978


def shard_id(number: int) -> str:
    return f"shardId-{number:020d}-00000000"


def described(*shards: int, last: str | None = None) -> Reply:
    told: dict[str, Any] = {
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
    return ok(StreamDescription=told | ({"LastEvaluatedShardId": last} if last else {}))


def answer(action: str, request: dict[str, Any]) -> Reply:
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
        return described(1, 2, last=shard_id(2))
    return described(3)


def run_all(*operations: Any) -> tuple[list[Any], list[tuple[str, dict[str, Any]]]]:
    async def opened(url: str) -> list[Any]:
        async with open_dynamodb(endpoint=url) as tables:
            return [await tables.run(operation) for operation in operations]

    with scripted(answer) as (url, asked):
        return asyncio.run(opened(url)), list(asked)


def test_the_name_of_the_account_is_learnt_once() -> None:
    _, asked = run_all(DescribeStream(stream=STREAM), DescribeStream(stream=StreamName("Other", "label")))

    assert [action for action, _ in asked] == ["ListStreams"] + ["DescribeStream"] * 4
    assert asked[-1][1]["StreamArn"] == f"{ACCOUNT}Other/stream/label"


def test_a_name_that_is_spelt_out_is_taken_at_its_word() -> None:
    elsewhere = "arn:aws:dynamodb:us-west-1:1:table/Tab/stream/x"
    _, asked = run_all(DescribeStream(stream=StreamName("Tab", "x", elsewhere)))

    assert [request["StreamArn"] for _, request in asked] == [elsewhere] * 2


def test_shards_are_read_to_the_end_or_the_limit() -> None:
    [everything], asked = run_all(DescribeStream(stream=STREAM))
    assert [shard.id for shard in everything.shards] == [shard_id(1), shard_id(2), shard_id(3)]
    assert everything.shards[0].starting == FIRST + 1
    assert [request.get("Limit") for _, request in asked[1:]] == [100, 98]

    [some], asked = run_all(DescribeStream(stream=STREAM, limit=2))
    assert len(some.shards) == 2
    assert len(asked) == 2


def test_a_place_is_passed_on_as_the_service_named_it() -> None:
    place = GetShardIterator(
        stream=STREAM, shard=shard_id(1), kind="AFTER_SEQUENCE_NUMBER", sequence_number=FIRST
    )
    [iterator], asked = run_all(place)
    assert asked[-1][1]["SequenceNumber"] == str(FIRST)

    [result], asked = run_all(GetRecords(iterator=iterator, limit=7))
    assert asked == [("GetRecords", {"ShardIterator": f"{ARN}|place", "Limit": 7})]
    _, asked = run_all(GetRecords(iterator=result.next))
    assert asked[0][1]["ShardIterator"] == "elsewhere"


def test_a_short_sequence_number_is_sent_in_the_length_the_service_demands() -> None:
    place = GetShardIterator(stream=STREAM, shard=shard_id(1), kind="AT_SEQUENCE_NUMBER", sequence_number=7)
    _, asked = run_all(place)

    assert asked[-1][1]["SequenceNumber"] == "000000000000000000007"


def test_a_place_of_another_engine_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="GetShardIterator"):
        run_all(GetRecords(iterator=ShardIterator(STREAM, shard_id(1), 1, 0.0)))


def test_a_table_that_never_had_a_stream_has_none_to_describe() -> None:
    with pytest.raises(NotFound, match="None/stream/x"):
        run_all(DescribeStream(stream=StreamName("None", "x")))


def test_a_table_that_never_had_a_backup_has_none_to_describe() -> None:
    with pytest.raises(BackupNotFound, match="Tab/backup/x"):
        run_all(DescribeBackup(backup=BackupName("Tab", "x")))
