"""Format a value as DynamoDB does in an expression error: `{S:b}`, `{NS:[1, 2]}`, `{M:{a={S:b}}}`."""

from __future__ import annotations

import base64
from decimal import Decimal

from holdfast.operations import numbers
from holdfast.operations.values import Value, ordered, type_of


def describe(value: Value) -> str:
    return f"{{{type_of(value)}:{_inner(value)}}}"


def _inner(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "true"
        case int() | Decimal():
            return numbers.text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return f"[{', '.join(map(describe, value))}]"
        case dict():
            return f"{{{', '.join(f'{name}={describe(inner)}' for name, inner in value.items())}}}"
        case frozenset():
            return f"[{', '.join(map(_inner, ordered(value)))}]"
    return value
