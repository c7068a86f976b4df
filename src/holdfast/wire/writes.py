"""The parts that the item writes share: their shapes, their checks, and the response of one write."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_ATTRIBUTE_NAME_BYTES, MAX_ITEM_BYTES, MAX_NUMBER_DIGITS
from holdfast.operations.tables import CapacityDetail, WriteResult
from holdfast.operations.values import Item, Value, item_size
from holdfast.wire import capacity
from holdfast.wire.shapes import Request, Response, Shape, string
from holdfast.wire.values import INVALID, UncheckedItem, encode_item, to_plain_item

RETURN_VALUES: Final[Shape] = string(enum=("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW"))
RETURN_VALUES_ON_FAILURE: Final[Shape] = string(enum=("ALL_OLD", "NONE"))
RETURN_ITEM_COLLECTION_METRICS: Final[Shape] = string(enum=("SIZE", "NONE"))
_MAX_UTF8_BYTES: Final = 4


def check_returns_old(request: Request) -> None:
    """Raise `InvalidRequest` unless ReturnValues is NONE or ALL_OLD: a put and a delete can return only the
    old item.
    """
    if request.get("ReturnValues", "NONE") not in ("ALL_OLD", "NONE"):
        raise InvalidRequest("ReturnValues can only be ALL_OLD or NONE")


def to_plain_put_item(read: Item | UncheckedItem) -> Item:
    """Return the item of a put as plain values. An attribute with an empty name is reported before any
    value.
    """
    if "" in (read.tagged if isinstance(read, UncheckedItem) else read):
        raise InvalidRequest("Empty attribute name")
    return to_plain_item(read)


def check_item_size(item: Item) -> None:
    """Raise `InvalidRequest` for an item that is too large or has an attribute name that is too long."""
    at_most = _estimate_max_size(item)
    if at_most > MAX_ATTRIBUTE_NAME_BYTES:
        _check_names(item)
    if at_most > MAX_ITEM_BYTES and item_size(item) > MAX_ITEM_BYTES:
        raise InvalidRequest("Item size has exceeded the maximum allowed size")


def _check_names(value: Value) -> None:
    """Raise `InvalidRequest` for an attribute name that is too long, at any depth."""
    if isinstance(value, dict):
        if any(len(name.encode()) > MAX_ATTRIBUTE_NAME_BYTES for name in value):
            raise InvalidRequest(
                f"{INVALID}Attribute name is too large, must be less than {MAX_ATTRIBUTE_NAME_BYTES + 1} "
                "bytes"
            )
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_names(each)


def _estimate_max_size(item: Item) -> int:
    """Return an upper bound of the size, much cheaper than the exact size and sufficient for nearly every
    item.
    """
    total = 0
    for name, value in item.items():
        kind = type(value)
        if kind is str:
            total += _MAX_UTF8_BYTES * (len(name) + len(value))  # type: ignore[arg-type]
        else:
            total += _MAX_UTF8_BYTES * len(name) + _MAX_VALUE_SIZES[kind](value)
    return total


_MAX_VALUE_SIZES: Final[dict[type, Callable[[Any], int]]] = {
    str: lambda value: _MAX_UTF8_BYTES * len(value),
    int: lambda _: MAX_NUMBER_DIGITS,
    Decimal: lambda _: MAX_NUMBER_DIGITS,
    bytes: len,
    bool: lambda _: 1,
    type(None): lambda _: 1,
    frozenset: lambda value: sum([_MAX_VALUE_SIZES[type(each)](each) for each in value]),
    list: lambda value: 3 + sum([1 + _MAX_VALUE_SIZES[type(each)](each) for each in value]),
    dict: lambda value: 3 + len(value) + _estimate_max_size(value),
}


def encode_write(result: WriteResult, detail: CapacityDetail) -> Response:
    """Encode the result of a put, update or delete: the requested attributes, and capacity if requested."""
    response = {} if result.attributes is None else {"Attributes": encode_item(result.attributes)}
    return capacity.add_consumed_capacity(response, result.capacity, detail)
