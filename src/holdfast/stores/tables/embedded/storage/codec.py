"""Encoding and decoding of stored items: MessagePack of their plain values.

Strings, binaries, integers of up to 64 bits, booleans, lists and maps are MessagePack's own types, so that
decoding an item to plain Python values is one call into C. Types that MessagePack lacks (other numbers, sets)
are extensions. See docs/internals/decisions/0002-stored-form.md for the measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.operations import numbers
from holdfast.operations.values import Item, Value, get_type_tag, sort_elements

_NUMBER_CODE: Final = 1
_SET_CODE: Final = 2
_DECODE_ERRORS: Final = (msgspec.DecodeError, ValueError, ArithmeticError, TypeError)
_AS_IS: Final = frozenset({str, int, bool, bytes, type(None)})
_MIN_INT: Final = -(2**63)
_MAX_INT: Final = 2**64 - 1


def encode(item: Item) -> bytes:
    """Encode an item as the bytes of its row."""
    plain = {name: value if type(value) in _AS_IS else _to_storable(value) for name, value in item.items()}
    try:
        return _ENCODER.encode(plain)
    except OverflowError:
        return _ENCODER.encode(_wrap_wide_integers(plain))


def decode(stored: bytes) -> Item:
    """Decode the bytes of a row. Raise `StoreFileError` if they are damaged."""
    try:
        return _DECODER.decode(stored)  # type: ignore[no-any-return]
    except _DECODE_ERRORS as error:
        raise _describe_damage() from error


def decode_all(stored: Iterable[bytes]) -> list[Item]:
    """Decode the bytes of rows. Raise `StoreFileError` if they are damaged."""
    try:
        return list(map(_DECODER.decode, stored))
    except _DECODE_ERRORS as error:
        raise _describe_damage() from error


def _describe_damage() -> StoreFileError:
    return StoreFileError("The file is damaged: an item is unreadable. Restore the file from a backup.")


def _to_storable(value: Value) -> Any:
    """Convert a value to MessagePack's types and our extensions.

    Integers of more than 64 bits stay as they are: they are rare, and the encoder refuses them.
    """
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is dict:
        return {
            name: inner if type(inner) in _AS_IS else _to_storable(inner)
            for name, inner in value.items()  # type: ignore[union-attr]
        }
    if kind is list:
        return [inner if type(inner) in _AS_IS else _to_storable(inner) for inner in value]  # type: ignore[union-attr]
    if kind is Decimal:
        number = numbers.canonicalize(value)  # type: ignore[arg-type]
        return _encode_number(number) if type(number) is Decimal else number
    get_type_tag(value)
    elements = [_wrap_wide_integers(_to_storable(element)) for element in sort_elements(value)]  # type: ignore[arg-type]
    return msgspec.msgpack.Ext(_SET_CODE, _ENCODER.encode(elements))


def _wrap_wide_integers(value: Any) -> Any:
    """Return the value with each integer of more than 64 bits as an extension."""
    if type(value) is int:
        return value if _MIN_INT <= value <= _MAX_INT else _encode_number(value)
    if type(value) is dict:
        return {name: _wrap_wide_integers(inner) for name, inner in value.items()}
    if type(value) is list:
        return [_wrap_wide_integers(inner) for inner in value]
    return value


def _encode_number(number: int | Decimal) -> msgspec.msgpack.Ext:
    """Return a number that MessagePack lacks as an extension with its text."""
    return msgspec.msgpack.Ext(_NUMBER_CODE, str(number).encode())


def _decode_extension(code: int, data: memoryview) -> Any:
    """Return the number or the set that an extension holds."""
    if code == _NUMBER_CODE:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else Decimal(text)
    return frozenset(_DECODER.decode(data))


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_decode_extension)
