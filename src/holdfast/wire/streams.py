"""The parts that the four stream operations share: stream ARNs, sequence numbers and shard iterators.

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
from holdfast.wire.arns import AwsLocation, format_stream_arn, parse_stream_arn
from holdfast.wire.shapes import Text, string

SEQUENCE_NUMBER_DIGITS: Final = 21
# The engine counts in signed 64 bits, so it never issued a larger number.
MAX_SEQUENCE_NUMBER: Final = (1 << 63) - 1
INVALID_STREAM: Final = "Invalid StreamArn"
INVALID_ITERATOR: Final = "Invalid ShardIterator"

_CHECKSUM_BYTES: Final = 4
_pack: Final = msgspec.msgpack.Encoder().encode
_unpack: Final = msgspec.msgpack.Decoder(tuple[str, str, str, int, float]).decode


# --- shapes -------------------------------------------------------------------------------------------------


def stream_arn_shape(*, required: bool = False) -> Text:
    return string(required=required, min_length=37, max_length=1024)


def shard_id_shape(*, required: bool = False) -> Text:
    return string(required=required, min_length=28, max_length=65)


# --- streams ------------------------------------------------------------------------------------------------


def parse_stream_name(arn: str) -> StreamName:
    """Parse a stream ARN. Raise `InvalidRequest` if it is not one."""
    parts = parse_stream_arn(arn)
    if parts is None:
        raise InvalidRequest(INVALID_STREAM)
    return StreamName(*parts, arn)


def to_stream_arn(stream: StreamName, location: AwsLocation) -> str:
    """Return the ARN of a stream for this region and account."""
    return format_stream_arn(location, stream.table, stream.label)


# --- sequence numbers ---------------------------------------------------------------------------------------


def format_sequence_number(number: int) -> str:
    """Format a sequence number, padded so that the texts sort as the numbers do."""
    return f"{number:0{SEQUENCE_NUMBER_DIGITS}d}"


def parse_sequence_number(text: str) -> int | None:
    """Parse a sequence number. Return None if the text is not a valid one."""
    number = int(text) if text.isascii() and text.isdecimal() else None
    return None if number is None or number > MAX_SEQUENCE_NUMBER else number


# --- shard iterators ----------------------------------------------------------------------------------------


def encode_iterator(iterator: ShardIterator) -> str:
    """Return the opaque text of a shard iterator."""
    stream = iterator.stream
    packed = _pack((stream.table, stream.label, iterator.shard, iterator.position, iterator.issued_at))
    return base64.urlsafe_b64encode(_compute_checksum(packed) + packed).decode()


def decode_iterator(text: str) -> ShardIterator:
    """Decode a shard iterator that this server issued. Raise `InvalidRequest` for any other text."""
    try:
        content = base64.b64decode(text, altchars=b"-_", validate=True)
        packed = content[_CHECKSUM_BYTES:]
        if content[:_CHECKSUM_BYTES] != _compute_checksum(packed):
            raise InvalidRequest(INVALID_ITERATOR)
        table, label, shard, position, issued_at = _unpack(packed)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidRequest(INVALID_ITERATOR) from None
    if not 0 <= position <= MAX_SEQUENCE_NUMBER:
        raise InvalidRequest(INVALID_ITERATOR)
    return ShardIterator(StreamName(table, label), shard, position, issued_at)


def _compute_checksum(packed: bytes) -> bytes:
    return crc32(packed).to_bytes(_CHECKSUM_BYTES, "big")
