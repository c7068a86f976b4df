"""Handlers of ListStreams, DescribeStream, GetShardIterator and GetRecords on DynamoDB."""

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
from holdfast.stores.tables.dynamodb.descriptions import parse_key_schema, to_seconds
from holdfast.stores.tables.dynamodb.service import Request, Response, Service
from holdfast.stores.tables.dynamodb.values import decode_item

SEQUENCE_NUMBER_DIGITS = 21


class ServiceIterator(ShardIterator, frozen=True):
    """A position in a shard, with the service's own iterator.

    `text` is that iterator, opaque; `position` is a sequence number at or before it.
    """

    text: str = ""


async def list_streams(operation: ListStreams, service: Service) -> ListStreamsResult:
    """Return one page of stream names, of one table or of all."""
    request: Request = {"Limit": operation.limit}
    if operation.table is not None:
        request["TableName"] = operation.table
    if operation.after is not None:
        request["ExclusiveStartStreamArn"] = await arns.get_stream_arn(operation.after, service)
    response = await service.send("ListStreams", request)
    for stream in response["Streams"][:1]:
        arns.remember_prefix(stream["StreamArn"], service)
    last = response.get("LastEvaluatedStreamArn")
    return ListStreamsResult(
        tuple(StreamName(each["TableName"], each["StreamLabel"]) for each in response["Streams"]),
        None if last is None else arns.parse_stream_arn(last),
    )


async def describe_stream(operation: DescribeStream, service: Service) -> StreamDescription:
    """Describe a stream.

    The service may stop before the limit, so request more shards until the limit or the end.
    """
    request: Request = {"StreamArn": await arns.get_stream_arn(operation.stream, service)}
    shards: list[Shard] = []
    after = operation.after_shard
    while True:
        request["Limit"] = operation.limit - len(shards)
        if after is not None:
            request["ExclusiveStartShardId"] = after
        description = (await service.send("DescribeStream", request))["StreamDescription"]
        shards += map(_parse_shard, description.get("Shards", ()))
        after = description.get("LastEvaluatedShardId")
        if after is None or len(shards) >= operation.limit:
            break
    return StreamDescription(
        operation.stream,
        description["StreamStatus"],
        description["StreamViewType"],
        to_seconds(description.get("CreationRequestDateTime")) or 0.0,
        parse_key_schema(description["KeySchema"]),
        tuple(shards),
    )


def _parse_shard(members: Response) -> Shard:
    numbers = members.get("SequenceNumberRange", {})
    ending = numbers.get("EndingSequenceNumber")
    return Shard(
        members["ShardId"],
        int(numbers.get("StartingSequenceNumber", 0)),
        None if ending is None else int(ending),
        members.get("ParentShardId"),
    )


async def get_shard_iterator(operation: GetShardIterator, service: Service) -> ShardIterator:
    """Return an iterator for a position in the shard."""
    request: Request = {
        "StreamArn": await arns.get_stream_arn(operation.stream, service),
        "ShardId": operation.shard,
        "ShardIteratorType": operation.kind,
    }
    number = operation.sequence_number
    if number is not None:
        request["SequenceNumber"] = f"{number:0{SEQUENCE_NUMBER_DIGITS}d}"
    response = await service.send("GetShardIterator", request)
    return ServiceIterator(
        operation.stream, operation.shard, number or 0, service.clock.now(), response["ShardIterator"]
    )


async def get_records(operation: GetRecords, service: Service) -> GetRecordsResult:
    """Read one page of records. Raise `InvalidRequest` for an iterator of another engine."""
    iterator = operation.iterator
    if not isinstance(iterator, ServiceIterator):
        raise InvalidRequest("Invalid ShardIterator: expected one from this store's GetShardIterator")
    response = await service.send("GetRecords", {"ShardIterator": iterator.text, "Limit": operation.limit})
    records = tuple(map(_parse_record, response["Records"]))
    position = records[-1].sequence_number + 1 if records else iterator.position
    next_iterator = response.get("NextShardIterator")
    if not next_iterator:
        return GetRecordsResult(records, None)
    now = service.clock.now()
    return GetRecordsResult(
        records, ServiceIterator(iterator.stream, iterator.shard, position, now, next_iterator)
    )


def _parse_record(members: Response) -> StreamRecord:
    """Return the record of one change from the service's members."""
    change = members["dynamodb"]
    return StreamRecord(
        int(change["SequenceNumber"]),
        members["eventName"],
        to_seconds(change.get("ApproximateCreationDateTime")) or 0.0,
        decode_item(change["Keys"]),
        change["StreamViewType"],
        change.get("SizeBytes", 0),
        _decode_image(change, "OldImage"),
        _decode_image(change, "NewImage"),
        members.get("userIdentity", {}).get("Type") == "Service",
    )


def _decode_image(change: Response, member: str) -> Any:
    """Return the item in this member (OldImage or NewImage), or None."""
    return decode_item(change[member]) if member in change else None
