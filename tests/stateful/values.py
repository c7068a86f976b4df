"""Tagged values as the protocol has them, `{"N": "1.5"}`: their order, equality, size and numbers.

Written from DynamoDB's documentation alone, without imports from Holdfast.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, TypeAlias

Tagged: TypeAlias = dict[str, Any]
Item: TypeAlias = dict[str, Tagged]

_WIDE = Context(prec=400)


def parse_number(text: str) -> Decimal:
    return Decimal(text)


def format_number(value: Decimal) -> str:
    """Format a number in plain notation without trailing zeros."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def add(left: str, right: str) -> str:
    """Add two numbers in the protocol's text form."""
    return format_number(_WIDE.add(Decimal(left), Decimal(right)))


def get_tag(value: Tagged) -> str:
    return next(iter(value))


def make_sort_key(value: Tagged) -> Any:
    """Return a key that orders values of one type: numbers by value, strings and binaries by their bytes."""
    tag, plain = next(iter(value.items()))
    if tag == "N":
        return parse_number(plain)
    return plain.encode() if tag == "S" else plain


def make_comparable(value: Any) -> Any:
    """Convert an answer so that equal answers compare equal: sets without order, all else unchanged."""
    if isinstance(value, dict):
        if len(value) == 1:
            tag, inner = next(iter(value.items()))
            if tag in ("SS", "NS", "BS") and isinstance(inner, list):
                return {tag: sorted(inner)}
        return {name: make_comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [make_comparable(each) for each in value]
    return value


def are_equal(left: Tagged, right: Tagged) -> bool:
    """Return True if the values are equal; the order in sets does not count."""
    return bool(make_comparable(left) == make_comparable(right))


def get_item_size(item: Item) -> int:
    """Return the size of an item in bytes, by DynamoDB's rules."""
    return sum(len(name.encode()) + get_value_size(value) for name, value in item.items())


def get_value_size(value: Tagged) -> int:
    """Return the size of a value in bytes, by DynamoDB's rules."""
    tag, plain = next(iter(value.items()))
    if tag == "S":
        return len(plain.encode())
    if tag == "N":
        return get_number_size(plain)
    if tag == "B":
        return len(plain)
    if tag in ("BOOL", "NULL"):
        return 1
    if tag == "L":
        return 3 + sum(1 + get_value_size(each) for each in plain)
    if tag == "M":
        return 3 + sum(1 + len(name.encode()) + get_value_size(each) for name, each in plain.items())
    return sum(get_value_size({tag[0]: each}) for each in plain)


def get_number_size(text: str) -> int:
    """Count a byte per pair of significant digits, one more, and one for a minus."""
    sign = text.startswith("-")
    whole, _, fraction = text.lstrip("-").partition(".")
    whole = whole.rjust(len(whole) + len(whole) % 2, "0")
    fraction = fraction.ljust(len(fraction) + len(fraction) % 2, "0")
    digits = whole + fraction
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    counting = [at for at, pair in enumerate(pairs) if pair != "00"]
    return 1 + counting[-1] - counting[0] + 1 + sign if counting else 1
