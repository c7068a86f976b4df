"""Evaluate conditions on items.

`predicate` compiles a condition once into a function that tests any number of items: a filter tests every
item of a page. `holds` compiles and tests in one call, for the single item of a conditional write.

DynamoDB's rules: values of different types are never equal and have no order; an absent value equals nothing,
not even another absent value; `size` is defined only for types that have one, and the size of a string counts
characters as Java does (AWS documents "characters", and DynamoDB Local counts the same way).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from holdfast.operations.expressions.nodes import (
    And,
    AttributeExists,
    AttributeNotExists,
    AttributeType,
    BeginsWith,
    Between,
    Compare,
    Condition,
    Contains,
    In,
    Literal,
    Not,
    Operand,
    Or,
    Path,
    Size,
)
from holdfast.operations.values import Item, Value, same, type_of

Predicate: TypeAlias = Callable[[Mapping[str, Value]], bool]
_Getter: TypeAlias = Callable[[Mapping[str, Value]], Any]


class _Missing:
    """The result of looking up a path that leads to nothing. It equals no value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

# The types that have an order, each with the types it can be compared to.
_ORDERS: Final[dict[type, str]] = {str: "S", int: "N", Decimal: "N", bytes: "B"}
_IN_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(condition: Condition, item: Item | None) -> bool:
    """Return whether the condition holds for an item. If the item is absent (None), every path is absent."""
    return predicate(condition)(item or {})


def predicate(condition: Condition) -> Predicate:
    """Compile a condition into a function that tests items."""
    return _MAKERS[type(condition)](condition)


def lookup(path: Path, item: Mapping[str, Value]) -> Any:
    """Return the value that a path leads to, or MISSING."""
    value: Any = item.get(path.root, MISSING)
    for step in path.steps:
        if isinstance(step, str):
            value = value.get(step, MISSING) if type(value) is dict else MISSING
        elif type(value) is list and 0 <= step < len(value):
            value = value[step]
        else:
            return MISSING
    return value


# --- operands -----------------------------------------------------------------------------------------------


def _getter(operand: Operand) -> _Getter:
    if isinstance(operand, Literal):
        value = operand.value
        return lambda item: value
    if isinstance(operand, Size):
        measured = _getter(operand.operand)
        return lambda item: _size(measured(item))
    if operand.steps:
        return lambda item: lookup(operand, item)
    root = operand.root
    return lambda item: item.get(root, MISSING)


def _size(value: Any) -> Any:
    if type(value) is str:
        return len(value) if value.isascii() else len(value.encode("utf-16-le")) // 2
    if type(value) in (bytes, list, dict, frozenset):
        return len(value)
    return MISSING


# --- comparisons --------------------------------------------------------------------------------------------


def _compare(condition: Compare) -> Predicate:
    left, right = _getter(condition.left), _getter(condition.right)
    if condition.operator == "=":
        return _equals(left, right, condition.right)
    if condition.operator == "<>":
        equals = _equals(left, right, condition.right)
        return lambda item: not equals(item)
    in_order = _IN_ORDER[condition.operator]
    return lambda item: _are_in_order(in_order, left(item), right(item))


def _equals(left: _Getter, right: _Getter, told: Operand) -> Predicate:
    if isinstance(told, Literal) and type(told.value) in (str, bytes):
        value = told.value  # in Python too, a str or bytes equals no value of another type
        return lambda item: left(item) == value
    return lambda item: _are_equal(left(item), right(item))


def _are_equal(left: Any, right: Any) -> bool:
    return left is not MISSING and right is not MISSING and same(left, right)


def _are_in_order(in_order: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Compare two values. Strings compare by code point, which is the order of their UTF-8 bytes."""
    order = _ORDERS.get(type(left))
    return order is not None and order == _ORDERS.get(type(right)) and in_order(left, right)


def _between(condition: Between) -> Predicate:
    operand, low, high = map(_getter, (condition.operand, condition.low, condition.high))

    def decide(item: Mapping[str, Value]) -> bool:
        value = operand(item)
        return _are_in_order(operator.ge, value, low(item)) and _are_in_order(operator.le, value, high(item))

    return decide


def _in(condition: In) -> Predicate:
    operand = _getter(condition.operand)
    choices = tuple(map(_getter, condition.choices))

    def decide(item: Mapping[str, Value]) -> bool:
        value = operand(item)
        return any(_are_equal(value, choice(item)) for choice in choices)

    return decide


# --- functions ----------------------------------------------------------------------------------------------


def _attribute_exists(condition: AttributeExists) -> Predicate:
    get = _getter(condition.path)
    return lambda item: get(item) is not MISSING


def _attribute_not_exists(condition: AttributeNotExists) -> Predicate:
    get = _getter(condition.path)
    return lambda item: get(item) is MISSING


def _attribute_type(condition: AttributeType) -> Predicate:
    get, tag = _getter(condition.operand), condition.tag

    def decide(item: Mapping[str, Value]) -> bool:
        value = get(item)
        return value is not MISSING and type_of(value) == tag

    return decide


def _begins_with(condition: BeginsWith) -> Predicate:
    get, prefix = _getter(condition.operand), _getter(condition.prefix)

    def decide(item: Mapping[str, Value]) -> bool:
        value, start = get(item), prefix(item)
        return type(value) in (str, bytes) and type(value) is type(start) and value.startswith(start)

    return decide


def _contains(condition: Contains) -> Predicate:
    get, wanted = _getter(condition.operand), _getter(condition.element)
    return lambda item: _has(get(item), wanted(item))


def _has(value: Any, wanted: Any) -> bool:
    """Return whether `value` contains `wanted`: as a part of a string or binary, or an element of a set or
    list.
    """
    if wanted is MISSING:
        return False
    kind = type(value)
    if kind is str or kind is bytes:
        return type(wanted) is kind and wanted in value
    if kind is frozenset:
        return type(wanted) in _ORDERS and wanted in value
    return kind is list and any(same(element, wanted) for element in value)


# --- logic --------------------------------------------------------------------------------------------------


def _not(condition: Not) -> Predicate:
    """Negate a condition. A chain of NOT can be hundreds long, so a loop reduces it instead of recursion."""
    negated, inner = True, condition.condition
    while isinstance(inner, Not):
        negated, inner = not negated, inner.condition
    decide = _MAKERS[type(inner)](inner)
    return (lambda item: not decide(item)) if negated else decide


def _and(condition: And) -> Predicate:
    parts = tuple(map(predicate, condition.conditions))
    if len(parts) == 2:
        first, second = parts
        return lambda item: first(item) and second(item)
    return lambda item: all(part(item) for part in parts)


def _or(condition: Or) -> Predicate:
    parts = tuple(map(predicate, condition.conditions))
    if len(parts) == 2:
        first, second = parts
        return lambda item: first(item) or second(item)
    return lambda item: any(part(item) for part in parts)


_MAKERS: Final[dict[type, Callable[[Any], Predicate]]] = {
    Compare: _compare,
    Between: _between,
    In: _in,
    AttributeExists: _attribute_exists,
    AttributeNotExists: _attribute_not_exists,
    AttributeType: _attribute_type,
    BeginsWith: _begins_with,
    Contains: _contains,
    Not: _not,
    And: _and,
    Or: _or,
}
