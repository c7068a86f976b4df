"""ListStreams, DescribeStream, GetShardIterator and GetRecords."""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import InvalidRequest
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
from holdfast.stores.tables.dynamodb import arns
from holdfast.stores.tables.dynamodb.descriptions import keys, seconds
from holdfast.stores.tables.dynamodb.service import Answer, Request, Service
from holdfast.stores.tables.dynamodb.values import plain_item

SEQUENCE_NUMBER_DIGITS = 21


class ServiceIterator(ShardIterator, frozen=True):
    """A position in a shard as the service names it. `text` is opaque; `position` holds what is known about
    it.
    """

    text: str = ""


async def list_streams(operation: ListStreams, service: Service) -> ListStreamsResult:
    request: Request = {"Limit": operation.limit}
    if operation.table is not None:
        request["TableName"] = operation.table
    if operation.after is not None:
        request["ExclusiveStartStreamArn"] = await arns.stream_arn(operation.after, service)
    answer = await service.ask("ListStreams", request)
    for stream in answer["Streams"][:1]:
        arns.learn(stream["StreamArn"], service)
    last = answer.get("LastEvaluatedStreamArn")
    return ListStreamsResult(
        tuple(StreamName(each["TableName"], each["StreamLabel"]) for each in answer["Streams"]),
        None if last is None else arns.stream_of(last),
    )


async def describe_stream(operation: DescribeStream, service: Service) -> StreamDescription:
    """Describe a stream. The service may stop before the limit, so request more until the limit or the
    end.
    """
    request: Request = {"StreamArn": await arns.stream_arn(operation.stream, service)}
    shards: list[Shard] = []
    after = operation.after_shard
    while True:
        request["Limit"] = operation.limit - len(shards)
        if after is not None:
            request["ExclusiveStartShardId"] = after
        told = (await service.ask("DescribeStream", request))["StreamDescription"]
        shards += map(_shard, told.get("Shards", ()))
        after = told.get("LastEvaluatedShardId")
        if after is None or len(shards) >= operation.limit:
            break
    return StreamDescription(
        operation.stream,
        told["StreamStatus"],
        told["StreamViewType"],
        seconds(told.get("CreationRequestDateTime")) or 0.0,
        keys(told["KeySchema"]),
        tuple(shards),
    )


def _shard(told: Answer) -> Shard:
    numbers = told.get("SequenceNumberRange", {})
    ending = numbers.get("EndingSequenceNumber")
    return Shard(
        told["ShardId"],
        int(numbers.get("StartingSequenceNumber", 0)),
        None if ending is None else int(ending),
        told.get("ParentShardId"),
    )


async def get_shard_iterator(operation: GetShardIterator, service: Service) -> ShardIterator:
    request: Request = {
        "StreamArn": await arns.stream_arn(operation.stream, service),
        "ShardId": operation.shard,
        "ShardIteratorType": operation.kind,
    }
    number = operation.sequence_number
    if number is not None:
        request["SequenceNumber"] = f"{number:0{SEQUENCE_NUMBER_DIGITS}d}"
    answer = await service.ask("GetShardIterator", request)
    return ServiceIterator(
        operation.stream, operation.shard, number or 0, service.clock.now(), answer["ShardIterator"]
    )


async def get_records(operation: GetRecords, service: Service) -> GetRecordsResult:
    place = operation.iterator
    if not isinstance(place, ServiceIterator):
        raise InvalidRequest("Invalid ShardIterator: it is not one that this store's GetShardIterator gave")
    answer = await service.ask("GetRecords", {"ShardIterator": place.text, "Limit": operation.limit})
    records = tuple(map(_record, answer["Records"]))
    position = records[-1].sequence_number + 1 if records else place.position
    following = answer.get("NextShardIterator")
    if not following:
        return GetRecordsResult(records, None)
    now = service.clock.now()
    return GetRecordsResult(records, ServiceIterator(place.stream, place.shard, position, now, following))


def _record(told: Answer) -> StreamRecord:
    change = told["dynamodb"]
    return StreamRecord(
        int(change["SequenceNumber"]),
        told["eventName"],
        seconds(change.get("ApproximateCreationDateTime")) or 0.0,
        plain_item(change["Keys"]),
        change["StreamViewType"],
        change.get("SizeBytes", 0),
        _image(change, "OldImage"),
        _image(change, "NewImage"),
        told.get("userIdentity", {}).get("Type") == "Service",
    )


def _image(change: Answer, member: str) -> Any:
    return plain_item(change[member]) if member in change else None
