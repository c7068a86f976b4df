"""GetShardIterator on the wire: return a position in a shard to read records from."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import GetShardIterator, ShardIterator
from holdfast.wire import streams
from holdfast.wire.arns import Place
from holdfast.wire.shapes import Answer, Request, string, structure
from holdfast.wire.values import INVALID

NUMBERED: Final = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")

SHAPE = structure(
    "GetShardIteratorInput",
    StreamArn=streams.stream_arn_text(required=True),
    ShardId=streams.shard_id(required=True),
    ShardIteratorType=string(
        required=True, enum=("AFTER_SEQUENCE_NUMBER", "LATEST", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON")
    ),
    SequenceNumber=string(shortest=21, longest=40),
)


def decode(request: Request) -> GetShardIterator:
    stream = streams.stream_name(request["StreamArn"])
    return GetShardIterator(
        stream=stream,
        shard=request["ShardId"],
        kind=request["ShardIteratorType"],
        sequence_number=_sequence_number(request),
    )


def encode(operation: GetShardIterator, result: ShardIterator, place: Place) -> Answer:
    return {"ShardIterator": streams.iterator_text(result)}


def _sequence_number(request: Request) -> int | None:
    text = request.get("SequenceNumber")
    if request["ShardIteratorType"] not in NUMBERED:
        if text is not None:
            raise InvalidRequest(f"{INVALID}SequenceNumber should not be passed for this iterator type")
        return None
    number = None if text is None else streams.sequence_number(text)
    if number is None:
        raise InvalidRequest(f"{INVALID}Invalid SequenceNumber")
    return number
