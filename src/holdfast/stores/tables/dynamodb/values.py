"""Plain values ⇄ attribute values in the SDK's form: `1` inside is `{"N": "1"}` there.

The wire has its own conversion with a different task: it parses untrusted JSON and raises the service's
errors. Here binaries are bytes (the SDK does the base64) and the input comes from a service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers
from holdfast.operations.values import Item, Value, ordered, type_of

Tagged: TypeAlias = dict[str, Any]


def tagged_item(item: Mapping[str, Value]) -> Tagged:
    return {_text(name): tagged_value(value) for name, value in item.items()}


def tagged_value(value: Value) -> Tagged:
    """Convert a value to the SDK's form. Refuse a value that DynamoDB could not store, before anything is
    sent.
    """
    tag = type_of(value)
    return {tag: _TAGGED[tag](value)}


def _text(text: str) -> str:
    """Return the text. Refuse text that the SDK would send and no service could read."""
    if type(text) is not str:
        raise InvalidRequest(
            "One or more parameter values were invalid: the names of attributes must be text"
        )
    if not text.isascii():
        text.encode()
    return text


def _number(number: int | Decimal) -> str:
    return numbers.text(numbers.canonical(number))


_TAGGED: Final[dict[str, Callable[[Any], Any]]] = {
    "S": _text,
    "N": _number,
    "B": lambda value: value,
    "BOOL": lambda value: value,
    "NULL": lambda _: True,
    "SS": ordered,
    "NS": lambda value: [_number(each) for each in ordered(value)],
    "BS": ordered,
    "L": lambda value: [tagged_value(each) for each in value],
    "M": tagged_item,
}


def plain_item(tagged: Mapping[str, Tagged]) -> Item:
    return {name: plain_value(value) for name, value in tagged.items()}


def plain_value(tagged: Tagged) -> Value:
    [(tag, content)] = tagged.items()
    return _PLAIN[tag](content)  # type: ignore[no-any-return]


_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "S": lambda content: content,
    "N": numbers.parse,
    "B": bytes,
    "BOOL": lambda content: content,
    "NULL": lambda _: None,
    "SS": frozenset,
    "NS": lambda content: frozenset(map(numbers.parse, content)),
    "BS": lambda content: frozenset(map(bytes, content)),
    "L": lambda content: [plain_value(each) for each in content],
    "M": plain_item,
}
