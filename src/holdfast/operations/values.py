"""Attribute values as plain Python values.

    S     str                      SS    frozenset of str
    N     int or Decimal           NS    frozenset of int and Decimal
    B     bytes                    BS    frozenset of bytes
    BOOL  bool                     L     list
    NULL  None                     M     dict with str keys

Numbers are canonical (see `numbers.py`): a whole number is an `int`, any other a normalised `Decimal`, so
equality and hashing are Python's own. A float never appears. A set is never empty, so any element shows its
type. `bool` is a subclass of `int` in Python but a separate type here: compare by `are_equal`, not `==`.

All code from the wire's decoder to storage uses these values; type tags exist only at the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from holdfast.core.errors import InvalidRequest
from holdfast.operations import numbers

if TYPE_CHECKING:
    Value: TypeAlias = (
        "str | int | Decimal | bytes | bool | list[Value] | dict[str, Value] | None"
        " | frozenset[str] | frozenset[int | Decimal] | frozenset[bytes]"
    )
else:
    # A recursive alias does not resolve from other modules, and `help` and `inspect` would fail on it.
    Value = Any
Item: TypeAlias = dict[str, Value]
TypeTag: TypeAlias = Literal["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"]

_TAGS: Final[dict[type, TypeTag]] = {
    str: "S",
    int: "N",
    Decimal: "N",
    bytes: "B",
    bool: "BOOL",
    type(None): "NULL",
    list: "L",
    dict: "M",
}
_CONTAINERS: Final = frozenset({list, dict})
_SET_TAGS: Final[dict[type, TypeTag]] = {str: "SS", int: "NS", Decimal: "NS", bytes: "BS"}


def get_type_tag(value: Value) -> TypeTag:
    """Return DynamoDB's name for the type of a value.

    Raise `InvalidRequest` for an unsupported Python type and for a set that is empty or of several types.
    """
    tag = _TAGS.get(type(value))
    if tag is not None:
        return tag
    if type(value) is frozenset:
        tags = {_SET_TAGS.get(type(element)) for element in value}
        if len(tags) == 1 and (tag := tags.pop()) is not None:
            return tag
    raise InvalidRequest(_format_unsupported_type(value))


def item_size(item: Mapping[str, Value]) -> int:
    """Return the size of an item in bytes by DynamoDB's rules: its attribute names and its values, in
    UTF-8.
    """
    total = 0
    try:
        for name, value in item.items():
            total += len(name) if name.isascii() else len(name.encode())
            if type(value) is str:
                total += len(value) if value.isascii() else len(value.encode())
            else:
                total += value_size(value)
    except AttributeError as error:
        raise InvalidRequest(
            "One or more parameter values were invalid: attribute names must be strings"
        ) from error
    return total


def value_size(value: Value) -> int:
    """Return the size of one value in bytes. A list or map costs 3, plus 1 per element, plus its contents."""
    sizer = _SIZERS.get(type(value))
    if sizer is None:
        raise InvalidRequest(_format_unsupported_type(value))
    return sizer(value)


# One lookup by exact type per value, because this runs for every value of every write.
_SIZERS: Final[dict[type, Callable[[Any], int]]] = {
    str: lambda text: len(text) if text.isascii() else len(text.encode()),
    int: numbers.size,
    Decimal: lambda number: numbers.size(number if number.is_finite() else numbers.canonicalize(number)),
    bytes: len,
    bool: lambda _: 1,
    type(None): lambda _: 1,
    list: lambda elements: 3 + len(elements) + sum(map(value_size, elements)),
    dict: lambda members: 3 + len(members) + item_size(members),
    frozenset: lambda elements: _set_size(elements),  # noqa: PLW0108 - defined below
}


def _set_size(elements: frozenset[Any]) -> int:
    """Return the sum of the elements' sizes. Raise `InvalidRequest` for a set that is empty or of several
    types.
    """
    get_type_tag(elements)  # raises for a set that is empty or of several types
    return sum(map(value_size, elements))


def are_equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal by DynamoDB's rules: of the same type, at every depth.

    In Python alone True equals 1, also inside lists, maps and sets.
    """
    if type(left) is str or type(right) is str:
        return left == right
    if left != right or get_type_tag(left) != get_type_tag(right):
        return False
    if type(left) is list:
        return all(map(are_equal, left, right))  # type: ignore[arg-type]
    if type(left) is dict:
        return all(are_equal(value, right[name]) for name, value in left.items())  # type: ignore[index,call-overload]
    return True


def sort_elements(elements: frozenset[str] | frozenset[int | Decimal] | frozenset[bytes]) -> list[Any]:
    """Return the elements of a non-empty set in display order: by value, strings by their UTF-8 bytes."""
    if type(next(iter(elements))) is str:
        return sorted(elements, key=str.encode)
    return sorted(elements)


def _format_unsupported_type(value: object) -> str:
    """Return the error text for a Python value that DynamoDB cannot store."""
    return (
        "One or more parameter values were invalid: a value of Python type "
        f"{type(value).__name__} cannot be stored; use str, int, Decimal, bytes, bool, None, list, dict, "
        "or a non-empty frozenset of str, numbers or bytes"
    )


def get_nesting_depth(item: Mapping[str, Value]) -> int:
    """Return the number of levels of lists and maps in the deepest attribute; the item itself does not
    count.
    """
    level, layer = 0, [value for value in item.values() if type(value) in _CONTAINERS]
    while layer:
        level += 1
        layer = [
            inner
            for value in layer
            for inner in (value.values() if type(value) is dict else value)  # type: ignore[union-attr]
            if type(inner) in _CONTAINERS
        ]
    return level
