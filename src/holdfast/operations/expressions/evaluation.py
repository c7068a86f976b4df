"""Evaluate conditions on items.

`compile_condition` compiles a condition once into a function that tests any number of items: a filter tests
every item of a page. `evaluate_condition` compiles and tests in one call, for the single item of a
conditional write.

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
from holdfast.operations.values import Item, Value, are_equal, get_type_tag

Predicate: TypeAlias = Callable[[Mapping[str, Value]], bool]
_OperandGetter: TypeAlias = Callable[[Mapping[str, Value]], Any]


class _Missing:
    """The result of looking up a path that leads to nothing. It equals no value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

# The types that have an order. Two values are comparable if their types have the same tag here.
_ORDERED_TYPES: Final[dict[type, str]] = {str: "S", int: "N", Decimal: "N", bytes: "B"}
_ORDER_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate_condition(condition: Condition, item: Item | None) -> bool:
    """Return whether the condition holds for an item. If the item is absent (None), every path is absent."""
    return compile_condition(condition)(item or {})


def compile_condition(condition: Condition) -> Predicate:
    """Compile a condition into a function that tests items."""
    return _COMPILERS[type(condition)](condition)


def resolve_path(path: Path, item: Mapping[str, Value]) -> Any:
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


def _compile_operand(operand: Operand) -> _OperandGetter:
    """Return a function that gets the operand's value from an item, or MISSING."""
    if isinstance(operand, Literal):
        value = operand.value
        return lambda item: value
    if isinstance(operand, Size):
        measured = _compile_operand(operand.operand)
        return lambda item: _get_size(measured(item))
    if operand.steps:
        return lambda item: resolve_path(operand, item)
    root = operand.root
    return lambda item: item.get(root, MISSING)


def _get_size(value: Any) -> Any:
    """Return the size of a value as the `size` function defines it, or MISSING for a type that has none."""
    if type(value) is str:
        return len(value) if value.isascii() else len(value.encode("utf-16-le")) // 2
    if type(value) in (bytes, list, dict, frozenset):
        return len(value)
    return MISSING


# --- comparisons --------------------------------------------------------------------------------------------


def _compile_compare(condition: Compare) -> Predicate:
    """Compile a comparison. `<>` is the negation of `=`, so it holds for an absent value."""
    left, right = _compile_operand(condition.left), _compile_operand(condition.right)
    if condition.operator == "=":
        return _compile_equality(left, right, condition.right)
    if condition.operator == "<>":
        equals = _compile_equality(left, right, condition.right)
        return lambda item: not equals(item)
    in_order = _ORDER_OPERATORS[condition.operator]
    return lambda item: _are_ordered(in_order, left(item), right(item))


def _compile_equality(left: _OperandGetter, right: _OperandGetter, right_operand: Operand) -> Predicate:
    """Compile `left = right`; `right_operand` is the node of the right side, for the fast path of a
    literal.
    """
    if isinstance(right_operand, Literal) and type(right_operand.value) in (str, bytes):
        value = right_operand.value  # in Python too, a str or bytes equals no value of another type
        return lambda item: left(item) == value
    return lambda item: _are_equal(left(item), right(item))


def _are_equal(left: Any, right: Any) -> bool:
    """Return whether both values exist and are equal by DynamoDB's rules."""
    return left is not MISSING and right is not MISSING and are_equal(left, right)


def _are_ordered(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Return whether `compare` holds; False for values of different types or of types without an order.

    Strings compare by code point, which is the order of their UTF-8 bytes.
    """
    order = _ORDERED_TYPES.get(type(left))
    return order is not None and order == _ORDERED_TYPES.get(type(right)) and compare(left, right)


def _compile_between(condition: Between) -> Predicate:
    """Compile BETWEEN, with both bounds included; False for values that have no common order."""
    operand, low, high = map(_compile_operand, (condition.operand, condition.low, condition.high))

    def decide(item: Mapping[str, Value]) -> bool:
        value = operand(item)
        return _are_ordered(operator.ge, value, low(item)) and _are_ordered(operator.le, value, high(item))

    return decide


def _compile_in(condition: In) -> Predicate:
    operand = _compile_operand(condition.operand)
    choices = tuple(map(_compile_operand, condition.choices))

    def decide(item: Mapping[str, Value]) -> bool:
        value = operand(item)
        return any(_are_equal(value, choice(item)) for choice in choices)

    return decide


# --- functions ----------------------------------------------------------------------------------------------


def _compile_attribute_exists(condition: AttributeExists) -> Predicate:
    get = _compile_operand(condition.path)
    return lambda item: get(item) is not MISSING


def _compile_attribute_not_exists(condition: AttributeNotExists) -> Predicate:
    get = _compile_operand(condition.path)
    return lambda item: get(item) is MISSING


def _compile_attribute_type(condition: AttributeType) -> Predicate:
    get, tag = _compile_operand(condition.operand), condition.tag

    def decide(item: Mapping[str, Value]) -> bool:
        value = get(item)
        return value is not MISSING and get_type_tag(value) == tag

    return decide


def _compile_begins_with(condition: BeginsWith) -> Predicate:
    """Compile begins_with: both values must be strings, or both binaries."""
    get, prefix = _compile_operand(condition.operand), _compile_operand(condition.prefix)

    def decide(item: Mapping[str, Value]) -> bool:
        value, start = get(item), prefix(item)
        return type(value) in (str, bytes) and type(value) is type(start) and value.startswith(start)

    return decide


def _compile_contains(condition: Contains) -> Predicate:
    get, wanted = _compile_operand(condition.operand), _compile_operand(condition.element)
    return lambda item: _contains_value(get(item), wanted(item))


def _contains_value(value: Any, wanted: Any) -> bool:
    """Return whether `value` contains `wanted`: as a part of a string or binary, or an element of a set or
    list.
    """
    if wanted is MISSING:
        return False
    kind = type(value)
    if kind is str or kind is bytes:
        return type(wanted) is kind and wanted in value
    if kind is frozenset:
        return type(wanted) in _ORDERED_TYPES and wanted in value
    return kind is list and any(are_equal(element, wanted) for element in value)


# --- logic --------------------------------------------------------------------------------------------------


def _compile_not(condition: Not) -> Predicate:
    """Negate a condition. A chain of NOT can be hundreds long, so a loop reduces it instead of recursion."""
    negated, inner = True, condition.condition
    while isinstance(inner, Not):
        negated, inner = not negated, inner.condition
    decide = _COMPILERS[type(inner)](inner)
    return (lambda item: not decide(item)) if negated else decide


def _compile_and(condition: And) -> Predicate:
    parts = tuple(map(compile_condition, condition.conditions))
    if len(parts) == 2:
        first, second = parts
        return lambda item: first(item) and second(item)
    return lambda item: all(part(item) for part in parts)


def _compile_or(condition: Or) -> Predicate:
    parts = tuple(map(compile_condition, condition.conditions))
    if len(parts) == 2:
        first, second = parts
        return lambda item: first(item) or second(item)
    return lambda item: any(part(item) for part in parts)


_COMPILERS: Final[dict[type, Callable[[Any], Predicate]]] = {
    Compare: _compile_compare,
    Between: _compile_between,
    In: _compile_in,
    AttributeExists: _compile_attribute_exists,
    AttributeNotExists: _compile_attribute_not_exists,
    AttributeType: _compile_attribute_type,
    BeginsWith: _compile_begins_with,
    Contains: _compile_contains,
    Not: _compile_not,
    And: _compile_and,
    Or: _compile_or,
}
