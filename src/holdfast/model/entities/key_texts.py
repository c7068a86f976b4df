"""The key of an item as one text, for messages, addresses and idempotency keys.

A key of one value is that value; the two values of a longer key are joined by `#`, and escaped.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from holdfast.core.errors import InvalidRequest
from holdfast.model.entities.declaration import Declaration
from holdfast.model.entities.writes import KeyValues
from holdfast.operations.values import Item, Value

__all__ = ["format_key_text", "parse_key_text"]


def format_key_text(key: Item) -> str:
    """Return the stored key attributes, in order, as one text; different keys give different texts."""
    values = [str(value) for value in key.values()]
    return values[0] if len(values) == 1 else "#".join(map(_escape, values))


def parse_key_text(declaration: Declaration, text: str) -> KeyValues:
    """Return the stored key attributes that a text denotes; raise `InvalidRequest` if it is malformed."""
    table = declaration.table
    names = [(table.partition, table.partition_type)]
    names += [(table.sort, table.sort_type)] if table.sort is not None else []
    texts = [text] if len(names) == 1 else [_unescape(each) for each in text.split("#")]
    if len(texts) != len(names) or not all(texts):
        raise InvalidRequest(
            f"Invalid key {text!r:.80} of a {declaration.entity.__name__}: "
            f"expected {' and '.join(name for name, _ in names)}, joined by '#'."
        )
    return tuple((name, _parse_value(each, tag)) for (name, tag), each in zip(names, texts, strict=True))


def _escape(text: str) -> str:
    """Escape the separator `#`, and `%`, in a key value."""
    return text.replace("%", "%25").replace("#", "%23")


def _unescape(text: str) -> str:
    return text.replace("%23", "#").replace("%25", "%")


def _parse_value(text: str, tag: Any) -> Value:
    """Return the text as it is for a key of type S, otherwise as a number; raise `InvalidRequest` if it is
    not one.
    """
    if tag == "S":
        return text
    try:
        number = Decimal(text)
    except ArithmeticError as error:
        raise InvalidRequest(f"Invalid key value {text!r:.40}: expected a number.") from error
    return int(number) if number == number.to_integral_value() else number
