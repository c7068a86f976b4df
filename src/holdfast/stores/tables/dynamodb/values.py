"""Conversion of attribute values to the SDK's form and back: `1` in our items is `{"N": "1"}` there.

The wire has its own conversion with a different task: it parses untrusted JSON and raises the service's
errors. Here binaries are bytes (the SDK does the base64) and the input comes from a service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.values import Item, Value, get_type_tag, sort_elements

SdkValue: TypeAlias = dict[str, Any]


def encode_item(item: Mapping[str, Value]) -> SdkValue:
    """Convert an item to the SDK's form. Raise `InvalidRequest` for a value that DynamoDB cannot store."""
    return {_encode_text(name): encode_value(value) for name, value in item.items()}


def encode_value(value: Value) -> SdkValue:
    """Convert a value to the SDK's form. Raise `InvalidRequest` for a value that DynamoDB cannot store."""
    tag = get_type_tag(value)
    return {tag: _ENCODERS[tag](value)}


def _encode_text(text: str) -> str:
    """Return the text unchanged.

    Raise `InvalidRequest` if it is not text, `UnicodeEncodeError` if it has lone surrogates.
    """
    if type(text) is not str:
        raise InvalidRequest(
            "One or more parameter values were invalid: the names of attributes must be text"
        )
    if not text.isascii():
        text.encode()
    return text


def _encode_number(number: int | Decimal) -> str:
    """Return the number's canonical text."""
    return numbers.to_text(numbers.canonicalize(number))


_ENCODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "S": _encode_text,
    "N": _encode_number,
    "B": lambda value: value,
    "BOOL": lambda value: value,
    "NULL": lambda _: True,
    "SS": sort_elements,
    "NS": lambda value: [_encode_number(each) for each in sort_elements(value)],
    "BS": sort_elements,
    "L": lambda value: [encode_value(each) for each in value],
    "M": encode_item,
}


def decode_item(encoded: Mapping[str, SdkValue]) -> Item:
    """Convert an item from the SDK's form."""
    return {name: decode_value(value) for name, value in encoded.items()}


def decode_value(encoded: SdkValue) -> Value:
    """Convert a value from the SDK's form, such as `{"N": "1"}`."""
    [(tag, content)] = encoded.items()
    return _DECODERS[tag](content)  # type: ignore[no-any-return]


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "S": lambda content: content,
    "N": numbers.parse,
    "B": bytes,
    "BOOL": lambda content: content,
    "NULL": lambda _: None,
    "SS": frozenset,
    "NS": lambda content: frozenset(map(numbers.parse, content)),
    "BS": lambda content: frozenset(map(bytes, content)),
    "L": lambda content: [decode_value(each) for each in content],
    "M": decode_item,
}
