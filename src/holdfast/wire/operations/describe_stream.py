"""DescribeStream on the wire: decode the request (a stream ARN), encode the stream and a page of shards."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_STREAM_SHARDS
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
    """Return the operation. Raise `InvalidRequest` for a limit above the maximum or an invalid stream ARN."""
    limit = request.get("Limit", MAX_STREAM_SHARDS)
    if limit > MAX_STREAM_SHARDS:
        raise InvalidRequest(f"{INVALID}Limit cannot be greater than the maximum: {MAX_STREAM_SHARDS}")
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
    """Encode a shard; an open one has no ending sequence number."""
    numbers: Response = {"StartingSequenceNumber": streams.format_sequence_number(shard.starting)}
    if shard.ending is not None:
        numbers["EndingSequenceNumber"] = streams.format_sequence_number(shard.ending)
    return {"ShardId": shard.id, "SequenceNumberRange": numbers}
