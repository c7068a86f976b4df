"""DescribeStream on the wire: a stream and its shards."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import STREAM_SHARDS_MAX
from holdfast.operations.tables import DescribeStream, Shard, StreamDescription
from holdfast.wire import definitions, streams
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_key_schema, encode_time
from holdfast.wire.shapes import Request, Response, integer, structure
from holdfast.wire.values import INVALID

SHAPE = structure(
    "DescribeStreamInput",
    StreamArn=streams.stream_arn_shape(required=True),
    Limit=integer(minimum=1),
    ExclusiveStartShardId=streams.shard_id_shape(),
    ShardFilter=definitions.unsupported_shape(),
)


def decode(request: Request) -> DescribeStream:
    limit = request.get("Limit", STREAM_SHARDS_MAX)
    if limit > STREAM_SHARDS_MAX:
        raise InvalidRequest(f"{INVALID}Limit cannot be greater than the maximum: {STREAM_SHARDS_MAX}")
    definitions.refuse_unsupported(request, ("ShardFilter",))
    return DescribeStream(
        stream=streams.parse_stream_name(request["StreamArn"]),
        after_shard=request.get("ExclusiveStartShardId"),
        limit=limit,
    )


def encode(operation: DescribeStream, result: StreamDescription, location: AwsLocation) -> Response:
    description: Response = {
        "StreamArn": streams.to_stream_arn(result.stream, location),
        "StreamLabel": result.stream.label,
        "StreamStatus": result.status,
        "StreamViewType": result.view,
        "CreationRequestDateTime": encode_time(result.created_at),
        "TableName": result.stream.table,
        "KeySchema": encode_key_schema(result.keys),
        "Shards": [_encode_shard(each) for each in result.shards],
    }
    return {"StreamDescription": description}


def _encode_shard(shard: Shard) -> Response:
    numbers: Response = {"StartingSequenceNumber": streams.format_sequence_number(shard.starting)}
    if shard.ending is not None:
        numbers["EndingSequenceNumber"] = streams.format_sequence_number(shard.ending)
    return {"ShardId": shard.id, "SequenceNumberRange": numbers}
