"""Tagged values as the protocol has them, `{"N": "1.5"}`: their order, their size, their numbers.

Written from DynamoDB's documentation alone; nothing of Holdfast is used here.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, TypeAlias

Tagged: TypeAlias = dict[str, Any]
Item: TypeAlias = dict[str, Tagged]

_WIDE = Context(prec=400)


def number(text: str) -> Decimal:
    return Decimal(text)


def written(value: Decimal) -> str:
    """Plain notation without trailing zeros."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def added(left: str, right: str) -> str:
    return written(_WIDE.add(Decimal(left), Decimal(right)))


def tag_of(value: Tagged) -> str:
    return next(iter(value))


def sort_key(value: Tagged) -> Any:
    """Orders values of one type: numbers by value, strings and binaries by their bytes."""
    tag, plain = next(iter(value.items()))
    if tag == "N":
        return number(plain)
    return plain.encode() if tag == "S" else plain


def comparable(value: Any) -> Any:
    """A form in which equal answers are equal: sets without order, everything else as it is."""
    if isinstance(value, dict):
        if len(value) == 1:
            tag, inner = next(iter(value.items()))
            if tag in ("SS", "NS", "BS") and isinstance(inner, list):
                return {tag: sorted(inner)}
        return {name: comparable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return value


def are_equal(left: Tagged, right: Tagged) -> bool:
    return bool(comparable(left) == comparable(right))


def item_size(item: Item) -> int:
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


def value_size(value: Tagged) -> int:
    tag, plain = next(iter(value.items()))
    if tag == "S":
        return len(plain.encode())
    if tag == "N":
        return number_size(plain)
    if tag == "B":
        return len(plain)
    if tag in ("BOOL", "NULL"):
        return 1
    if tag == "L":
        return 3 + sum(1 + value_size(each) for each in plain)
    if tag == "M":
        return 3 + sum(1 + len(name.encode()) + value_size(each) for name, each in plain.items())
    return sum(value_size({tag[0]: each}) for each in plain)


def number_size(text: str) -> int:
    """A byte for each pair of digits from the first to the last that counts, one more, and one for a minus."""
    sign = text.startswith("-")
    whole, _, fraction = text.lstrip("-").partition(".")
    whole = whole.rjust(len(whole) + len(whole) % 2, "0")
    fraction = fraction.ljust(len(fraction) + len(fraction) % 2, "0")
    digits = whole + fraction
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    counting = [at for at, pair in enumerate(pairs) if pair != "00"]
    return 1 + counting[-1] - counting[0] + 1 + sign if counting else 1
