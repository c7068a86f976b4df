"""What the four operations on streams share: how streams, places in them and records look on the wire.

A shard iterator is opaque to callers: the engine's `ShardIterator` packed, with a checksum before it, as
base64. The checksum tells a text that we gave from one that was made up or cut short; it guards no secret.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final
from zlib import crc32

import msgspec

from holdfast.errors import InvalidRequest
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
_unpack: Final = msgspec.msgpack.Decoder(ShardIterator).decode


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
    return StreamName(*parts)


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


def iterator_text(iterator: ShardIterator) -> str:
    packed = _pack(iterator)
    return base64.urlsafe_b64encode(_checksum(packed) + packed).decode()


def iterator(text: str) -> ShardIterator:
    try:
        content = base64.b64decode(text, altchars=b"-_", validate=True)
        packed = content[_CHECKSUM_BYTES:]
        found = _unpack(packed) if content[:_CHECKSUM_BYTES] == _checksum(packed) else None
        if found is not None and 0 <= found.position <= SEQUENCE_NUMBER_MAX:
            return found
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        pass
    raise InvalidRequest(INVALID_ITERATOR)


def _checksum(packed: bytes) -> bytes:
    return crc32(packed).to_bytes(_CHECKSUM_BYTES, "big")
