"""Attribute values as plain Python values.

    S     str                      SS    frozenset of str
    N     int or Decimal           NS    frozenset of int and Decimal
    B     bytes                    BS    frozenset of bytes
    BOOL  bool                     L     list
    NULL  None                     M     dict with str keys

Numbers are canonical (see `numbers.py`): a whole number is an `int`, any other a normalised `Decimal`, so
equality and hashing are Python's own. A float never appears. A set is never empty, so any element shows its
type. `bool` is a subclass of `int` in Python but a separate type here: check `type_of`, never `==` alone.

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


def type_of(value: Value) -> TypeTag:
    """Return DynamoDB's name for the type of a value."""
    tag = _TAGS.get(type(value))
    if tag is not None:
        return tag
    if type(value) is frozenset:
        tags = {_SET_TAGS.get(type(element)) for element in value}
        if len(tags) == 1 and (tag := tags.pop()) is not None:
            return tag
    raise InvalidRequest(_unsupported(value))


def item_size(item: Mapping[str, Value]) -> int:
    """Return the bytes of an item by DynamoDB's rules: the names and the values, in UTF-8."""
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
            "One or more parameter values were invalid: the names of attributes must be text"
        ) from error
    return total


def value_size(value: Value) -> int:
    """Return the bytes of one value. A list or map costs 3, plus 1 for each element."""
    sizer = _SIZERS.get(type(value))
    if sizer is None:
        raise InvalidRequest(_unsupported(value))
    return sizer(value)


# One lookup by exact type per value, because this runs for every value of every write.
_SIZERS: Final[dict[type, Callable[[Any], int]]] = {
    str: lambda text: len(text) if text.isascii() else len(text.encode()),
    int: numbers.size,
    Decimal: lambda number: numbers.size(number if number.is_finite() else numbers.canonical(number)),
    bytes: len,
    bool: lambda _: 1,
    type(None): lambda _: 1,
    list: lambda elements: 3 + len(elements) + sum(map(value_size, elements)),
    dict: lambda members: 3 + len(members) + item_size(members),
    frozenset: lambda elements: _set_size(elements),  # noqa: PLW0108 - defined below
}


def _set_size(elements: frozenset[Any]) -> int:
    type_of(elements)  # raises for a set that is empty or of several types
    return sum(map(value_size, elements))


def same(left: Value, right: Value) -> bool:
    """Return whether two values are equal by DynamoDB's rules: of the same type, at every depth.

    In Python alone True equals 1, also inside lists, maps and sets.
    """
    if type(left) is str or type(right) is str:
        return left == right
    if left != right or type_of(left) != type_of(right):
        return False
    if type(left) is list:
        return all(map(same, left, right))  # type: ignore[arg-type]
    if type(left) is dict:
        return all(same(value, right[name]) for name, value in left.items())  # type: ignore[index,call-overload]
    return True


def ordered(elements: frozenset[str] | frozenset[int | Decimal] | frozenset[bytes]) -> list[Any]:
    """Return the elements of a set in display order: by value, strings by their bytes."""
    if type(next(iter(elements))) is str:
        return sorted(elements, key=str.encode)
    return sorted(elements)


def _unsupported(value: object) -> str:
    return (
        "One or more parameter values were invalid: a value of Python type "
        f"{type(value).__name__} cannot be stored; use str, int, Decimal, bytes, bool, None, list, dict, "
        "or a non-empty frozenset of str, numbers or bytes"
    )


def nesting(item: Mapping[str, Value]) -> int:
    """Return the number of levels of lists and maps in the deepest attribute, not counting the item
    itself.
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
