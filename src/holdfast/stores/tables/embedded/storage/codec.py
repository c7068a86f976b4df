"""Items as bytes in a row: MessagePack of the plain values.

Text, binaries, whole numbers of 64 bits, booleans, lists and maps are MessagePack's own, so that reading
an item to plain Python values is one call into C. Types that MessagePack lacks (other numbers, sets) are
extensions. See docs/decisions/0002-stored-form.md for the measurement.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.operations import numbers
from holdfast.operations.values import Item, Value, ordered, type_of

_NUMBER: Final = 1
_SET: Final = 2
_AS_IS: Final = frozenset({str, int, bool, bytes, type(None)})
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1


def encode(item: Item) -> bytes:
    plain = {name: value if type(value) in _AS_IS else _storable(value) for name, value in item.items()}
    try:
        return _ENCODER.encode(plain)
    except OverflowError:
        return _ENCODER.encode(_with_wide_numbers(plain))


def decode(stored: bytes) -> Item:
    try:
        return _DECODER.decode(stored)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, ValueError, ArithmeticError) as error:
        raise StoreFileError(
            "An item in the file cannot be read: the file is damaged. Restore it from a backup."
        ) from error


def _storable(value: Value) -> Any:
    """Convert a value to a MessagePack type or an extension. Wide integers stay: they are rare, and the
    encoder refuses them.
    """
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is dict:
        return {
            name: inner if type(inner) in _AS_IS else _storable(inner)
            for name, inner in value.items()  # type: ignore[union-attr]
        }
    if kind is list:
        return [inner if type(inner) in _AS_IS else _storable(inner) for inner in value]  # type: ignore[union-attr]
    if kind is Decimal:
        number = numbers.canonical(value)  # type: ignore[arg-type]
        return _number(number) if type(number) is Decimal else number
    type_of(value)
    elements = [_with_wide_numbers(_storable(element)) for element in ordered(value)]  # type: ignore[arg-type]
    return msgspec.msgpack.Ext(_SET, _ENCODER.encode(elements))


def _with_wide_numbers(value: Any) -> Any:
    """Return the value with each integer of more than 64 bits as an extension."""
    if type(value) is int:
        return value if _INT_MIN <= value <= _INT_MAX else _number(value)
    if type(value) is dict:
        return {name: _with_wide_numbers(inner) for name, inner in value.items()}
    if type(value) is list:
        return [_with_wide_numbers(inner) for inner in value]
    return value


def _number(number: int | Decimal) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(_NUMBER, str(number).encode())


def _extension(code: int, data: memoryview) -> Any:
    if code == _NUMBER:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else Decimal(text)
    return frozenset(_DECODER.decode(data))


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_extension)
