"""The parts that the four stream operations share: streams, shard iterators and records on the wire.

A shard iterator is opaque to callers: the fields of the engine's `ShardIterator`, packed, with a checksum in
front, as base64. The checksum detects an invented or truncated text; it protects no secret.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final
from zlib import crc32

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import ShardIterator, StreamName
from holdfast.wire.arns import Place, stream_arn, stream_of
from holdfast.wire.shapes import Text, string

SEQUENCE_NUMBER_DIGITS: Final = 21
# The engine counts in signed 64 bits, so it never issued a larger number.
SEQUENCE_NUMBER_MAX: Final = (1 << 63) - 1
INVALID_STREAM: Final = "Invalid StreamArn"
INVALID_ITERATOR: Final = "Invalid ShardIterator"

_CHECKSUM_BYTES: Final = 4
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(tuple[str, str, str, int, float]).decode


# --- shapes -------------------------------------------------------------------------------------------------


def stream_arn_text(*, required: bool = False) -> Text:
    return string(required=required, shortest=37, longest=1024)


def shard_id(*, required: bool = False) -> Text:
    return string(required=required, shortest=28, longest=65)


# --- streams ------------------------------------------------------------------------------------------------


def stream_name(arn: str) -> StreamName:
    parts = stream_of(arn)
    if parts is None:
        raise InvalidRequest(INVALID_STREAM)
    return StreamName(*parts, arn)


def arn_of(stream: StreamName, place: Place) -> str:
    return stream_arn(place, stream.table, stream.label)


# --- sequence numbers ---------------------------------------------------------------------------------------


def sequence_number_text(number: int) -> str:
    """Format a sequence number, padded so that the texts sort as the numbers do."""
    return f"{number:0{SEQUENCE_NUMBER_DIGITS}d}"


def sequence_number(text: str) -> int | None:
    """Parse a sequence number. Return None if the text is not a valid one."""
    number = int(text) if text.isascii() and text.isdecimal() else None
    return None if number is None or number > SEQUENCE_NUMBER_MAX else number


# --- shard iterators ----------------------------------------------------------------------------------------


def iterator_text(place: ShardIterator) -> str:
    stream = place.stream
    packed = _pack((stream.table, stream.label, place.shard, place.position, place.issued_at))
    return base64.urlsafe_b64encode(_checksum(packed) + packed).decode()


def iterator(text: str) -> ShardIterator:
    """Decode a shard iterator that this server issued."""
    try:
        content = base64.b64decode(text, altchars=b"-_", validate=True)
        packed = content[_CHECKSUM_BYTES:]
        if content[:_CHECKSUM_BYTES] != _checksum(packed):
            raise InvalidRequest(INVALID_ITERATOR)
        table, label, shard, position, issued_at = _unpack(packed)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidRequest(INVALID_ITERATOR) from None
    if not 0 <= position <= SEQUENCE_NUMBER_MAX:
        raise InvalidRequest(INVALID_ITERATOR)
    return ShardIterator(StreamName(table, label), shard, position, issued_at)


def _checksum(packed: bytes) -> bytes:
    return crc32(packed).to_bytes(_CHECKSUM_BYTES, "big")
