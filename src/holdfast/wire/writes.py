"""The parts that the item writes share: their parameters, and the response of one write."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import ATTRIBUTE_NAME_BYTES_MAX, ITEM_BYTES_MAX, NUMBER_DIGITS_MAX
from holdfast.operations.tables import CapacityDetail, WriteResult
from holdfast.operations.values import Item, Value, item_size
from holdfast.wire import capacity
from holdfast.wire.shapes import Answer, Request, Shape, string
from holdfast.wire.values import INVALID, Suspect, settled, tagged_item

RETURN_VALUES: Final[Shape] = string(enum=("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"))
RETURN_VALUES_ON_FAILURE: Final[Shape] = string(enum=("ALL_OLD", "NONE"))
RETURN_ITEM_COLLECTION_METRICS: Final[Shape] = string(enum=("SIZE", "NONE"))
_UTF8_BYTES_MAX: Final = 4


def check_returns_old(request: Request) -> None:
    """Require ReturnValues NONE or ALL_OLD: a put and a delete can return only the old item."""
    if request.get("ReturnValues", "NONE") not in ("ALL_OLD", "NONE"):
        raise InvalidRequest("ReturnValues can only be ALL_OLD or NONE")


def settled_item(read: Item | Suspect) -> Item:
    """Return the item of a put as plain values. An attribute with an empty name is reported before any
    value.
    """
    if "" in (read.tagged if isinstance(read, Suspect) else read):
        raise InvalidRequest("Empty attribute name")
    return settled(read)


def check_item_size(whole: Item) -> None:
    """Raise for an item that is too large or has an attribute name that is too long."""
    at_most = _size_at_most(whole)
    if at_most > ATTRIBUTE_NAME_BYTES_MAX:
        _check_names(whole)
    if at_most > ITEM_BYTES_MAX and item_size(whole) > ITEM_BYTES_MAX:
        raise InvalidRequest("Item size has exceeded the maximum allowed size")


def _check_names(value: Value) -> None:
    if isinstance(value, dict):
        if any(len(name.encode()) > ATTRIBUTE_NAME_BYTES_MAX for name in value):
            raise InvalidRequest(
                f"{INVALID}Attribute name is too large, must be less than {ATTRIBUTE_NAME_BYTES_MAX + 1} "
                "bytes"
            )
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_names(each)


def _size_at_most(whole: Item) -> int:
    """Return an upper bound of the size, much cheaper than the exact size and sufficient for nearly every
    item.
    """
    total = 0
    for name, value in whole.items():
        kind = type(value)
        if kind is str:
            total += _UTF8_BYTES_MAX * (len(name) + len(value))  # type: ignore[arg-type]
        else:
            total += _UTF8_BYTES_MAX * len(name) + _VALUE_AT_MOST[kind](value)
    return total


_VALUE_AT_MOST: Final[dict[type, Callable[[Any], int]]] = {
    str: lambda value: _UTF8_BYTES_MAX * len(value),
    int: lambda _: NUMBER_DIGITS_MAX,
    Decimal: lambda _: NUMBER_DIGITS_MAX,
    bytes: len,
    bool: lambda _: 1,
    type(None): lambda _: 1,
    frozenset: lambda value: sum([_VALUE_AT_MOST[type(each)](each) for each in value]),
    list: lambda value: 3 + sum([1 + _VALUE_AT_MOST[type(each)](each) for each in value]),
    dict: lambda value: 3 + len(value) + _size_at_most(value),
}


def encode_write(result: WriteResult, detail: CapacityDetail) -> Answer:
    answer = {} if result.attributes is None else {"Attributes": tagged_item(result.attributes)}
    return capacity.tell(answer, result.capacity, detail)
