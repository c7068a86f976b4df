"""Format a value as DynamoDB does in an expression error: `{S:b}`, `{NS:[1, 2]}`, `{M:{a={S:b}}}`."""

from __future__ import annotations

import base64
from decimal import Decimal

from holdfast.operations import numbers
from holdfast.operations.values import Value, get_type_tag, sort_elements


def format_value(value: Value) -> str:
    """Format a value with its type, as the service shows it in an error."""
    return f"{{{get_type_tag(value)}:{_format_content(value)}}}"


def _format_content(value: Value) -> str:
    """Format the part after the type tag; NULL is `true`, binary is base64."""
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "true"
        case int() | Decimal():
            return numbers.to_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return f"[{', '.join(map(format_value, value))}]"
        case dict():
            return f"{{{', '.join(f'{name}={format_value(inner)}' for name, inner in value.items())}}}"
        case frozenset():
            return f"[{', '.join(map(_format_content, sort_elements(value)))}]"
    return value
