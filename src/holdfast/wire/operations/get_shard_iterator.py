"""GetShardIterator on the wire: decode the request, encode a position in a shard to read records from."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import GetShardIterator, ShardIterator
from holdfast.wire import streams
from holdfast.wire.arns import AwsLocation
from holdfast.wire.shapes import Request, Response, string, structure
from holdfast.wire.values import INVALID

NUMBERED_TYPES: Final = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")

SHAPE = structure(
    "GetShardIteratorInput",
    StreamArn=streams.stream_arn_shape(required=True),
    ShardId=streams.shard_id_shape(required=True),
    ShardIteratorType=string(
        required=True, enum=("AFTER_SEQUENCE_NUMBER", "LATEST", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON")
    ),
    SequenceNumber=string(min_length=21, max_length=40),
)


def decode(request: Request) -> GetShardIterator:
    """Return the operation. Raise `InvalidRequest` for an invalid ARN or sequence number."""
    stream = streams.parse_stream_name(request["StreamArn"])
    return GetShardIterator(
        stream=stream,
        shard=request["ShardId"],
        kind=request["ShardIteratorType"],
        sequence_number=_parse_sequence_number(request),
    )


def encode(operation: GetShardIterator, result: ShardIterator, location: AwsLocation) -> Response:
    return {"ShardIterator": streams.encode_iterator(result)}


def _parse_sequence_number(request: Request) -> int | None:
    """Return the sequence number, or None for an iterator type without one. Raise `InvalidRequest` if they do
    not fit.
    """
    text = request.get("SequenceNumber")
    if request["ShardIteratorType"] not in NUMBERED_TYPES:
        if text is not None:
            raise InvalidRequest(f"{INVALID}SequenceNumber should not be passed for this iterator type")
        return None
    number = None if text is None else streams.parse_sequence_number(text)
    if number is None:
        raise InvalidRequest(f"{INVALID}Invalid SequenceNumber")
    return number
