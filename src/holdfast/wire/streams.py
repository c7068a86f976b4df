"""What the four operations on streams share: how streams, places in them and records look on the wire.

A shard iterator is opaque to callers: the fields of the engine's `ShardIterator` packed, with a checksum
before them, as base64. The checksum tells a text that we gave from one that was made up or cut short; it
guards no secret.
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
# The engine counts in signed 64 bits; a larger number was never given to anybody.
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
    """Padded, so that the texts compare as the numbers do."""
    return f"{number:0{SEQUENCE_NUMBER_DIGITS}d}"


def sequence_number(text: str) -> int | None:
    """The number that a text tells, None for one that can be no sequence number."""
    number = int(text) if text.isascii() and text.isdecimal() else None
    return None if number is None or number > SEQUENCE_NUMBER_MAX else number


# --- shard iterators ----------------------------------------------------------------------------------------


def iterator_text(place: ShardIterator) -> str:
    stream = place.stream
    packed = _pack((stream.table, stream.label, place.shard, place.position, place.issued_at))
    return base64.urlsafe_b64encode(_checksum(packed) + packed).decode()


def iterator(text: str) -> ShardIterator:
    """The place that a text of ours names."""
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
