"""DescribeStream on the wire: a stream and its shards."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import STREAM_SHARDS_MAX
from holdfast.operations.tables import DescribeStream, Shard, StreamDescription
from holdfast.wire import definitions, streams
from holdfast.wire.arns import Place
from holdfast.wire.descriptions import key_schema, seconds
from holdfast.wire.shapes import Answer, Request, integer, structure
from holdfast.wire.values import INVALID

SHAPE = structure(
    "DescribeStreamInput",
    StreamArn=streams.stream_arn_text(required=True),
    Limit=integer(least=1),
    ExclusiveStartShardId=streams.shard_id(),
    ShardFilter=definitions.unsupported(),
)


def decode(request: Request) -> DescribeStream:
    limit = request.get("Limit", STREAM_SHARDS_MAX)
    if limit > STREAM_SHARDS_MAX:
        raise InvalidRequest(f"{INVALID}Limit cannot be greater than the maximum: {STREAM_SHARDS_MAX}")
    definitions.refuse_unsupported(request, ("ShardFilter",))
    return DescribeStream(
        stream=streams.stream_name(request["StreamArn"]),
        after_shard=request.get("ExclusiveStartShardId"),
        limit=limit,
    )


def encode(operation: DescribeStream, result: StreamDescription, place: Place) -> Answer:
    told: Answer = {
        "StreamArn": streams.arn_of(result.stream, place),
        "StreamLabel": result.stream.label,
        "StreamStatus": result.status,
        "StreamViewType": result.view,
        "CreationRequestDateTime": seconds(result.created_at),
        "TableName": result.stream.table,
        "KeySchema": key_schema(result.keys),
        "Shards": [_shard(each) for each in result.shards],
    }
    return {"StreamDescription": told}


def _shard(shard: Shard) -> Answer:
    numbers: Answer = {"StartingSequenceNumber": streams.sequence_number_text(shard.starting)}
    if shard.ending is not None:
        numbers["EndingSequenceNumber"] = streams.sequence_number_text(shard.ending)
    return {"ShardId": shard.id, "SequenceNumberRange": numbers}
