"""Key conditions: the tests that a query makes on the partition key and, at most once, on the sort key.

A key condition has the syntax of a condition but not all of its forms. `split_key_condition` splits the
parsed condition into tests, or raises DynamoDB's error for an invalid one. Only the store knows whether the
attributes are the table's keys.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from holdfast.core.errors import InvalidRequest
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
    Not,
    Or,
    Path,
    Size,
)
from holdfast.operations.expressions.nodes import Literal as Constant
from holdfast.operations.values import Value

__all__ = [
    "KeyCondition",
    "KeyOperator",
    "KeyTest",
    "split_key_condition",
]

KeyOperator: TypeAlias = Literal["=", "<", "<=", ">", ">=", "between", "begins_with"]
"""An operator that a sort key's condition may use."""

ONE_CONDITION_PER_KEY: Final = (
    "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"
)
_MIRRORED_OPERATORS: Final[dict[str, KeyOperator]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNSUPPORTED_OPERATORS: Final[dict[type, str]] = {
    Or: "OR",
    Not: "NOT",
    In: "IN",
    AttributeExists: "attribute_exists",
    AttributeNotExists: "attribute_not_exists",
    AttributeType: "attribute_type",
    Contains: "contains",
}


class KeyTest(msgspec.Struct, frozen=True):
    """One comparison of an attribute with one or two values."""

    attribute: str
    operator: KeyOperator
    values: tuple[Value, ...]


KeyCondition: TypeAlias = tuple[KeyTest, ...]
"""A condition on the partition key, and on the sort key if it has one."""


def split_key_condition(condition: Condition) -> KeyCondition:
    """Return the tests of a parsed KeyConditionExpression, in the order of the text. Raise `InvalidRequest`
    for a form that a key condition cannot have, and for two tests of one attribute.
    """
    tests: list[KeyTest] = []
    pending: list[Condition] = [condition]
    while pending:
        node = pending.pop()
        if isinstance(node, And):
            pending += reversed(node.conditions)
            continue
        test = _to_key_test(node)
        if any(test.attribute == known.attribute for known in tests):
            raise InvalidRequest(ONE_CONDITION_PER_KEY)
        tests.append(test)
    return tuple(tests)


def _to_key_test(node: Condition) -> KeyTest:
    """Return the test of one comparison, with the attribute on the left. Raise `InvalidRequest` for other
    operators.
    """
    unsupported = (
        "<>"
        if isinstance(node, Compare) and node.operator == "<>"
        else _UNSUPPORTED_OPERATORS.get(type(node))
    )
    if unsupported is not None:
        raise InvalidRequest(f"Invalid operator used in KeyConditionExpression: {unsupported}")
    if isinstance(node, Between):
        return _test_first_operand("between", "BETWEEN", (node.operand, node.low, node.high))
    if isinstance(node, BeginsWith):
        return _test_first_operand("begins_with", "begins_with", (node.operand, node.prefix))
    assert isinstance(node, Compare)
    attribute = _get_only_attribute((node.left, node.right))
    if isinstance(node.left, Path):
        return KeyTest(attribute, node.operator, _get_constants((node.right,)))  # type: ignore[arg-type]
    return KeyTest(attribute, _MIRRORED_OPERATORS[node.operator], _get_constants((node.left,)))


def _test_first_operand(operator: KeyOperator, display_name: str, operands: tuple[object, ...]) -> KeyTest:
    """Build a test of BETWEEN or begins_with. Raise `InvalidRequest` unless the first operand is the
    attribute.
    """
    if not isinstance(operands[0], Path) and not isinstance(operands[0], Size):
        raise InvalidRequest(
            f"Invalid condition in KeyConditionExpression: {display_name} operator must have the key "
            "attribute"
            " as its first operand"
        )
    return KeyTest(_get_only_attribute(operands), operator, _get_constants(operands[1:]))


def _get_only_attribute(operands: tuple[object, ...]) -> str:
    """Return the one top-level attribute among the operands. Raise `InvalidRequest` for none, several or a
    nested one.
    """
    found: list[Path] = []
    for operand in operands:
        if isinstance(operand, Size):
            raise InvalidRequest("KeyConditionExpressions cannot contain nested operations")
        if isinstance(operand, Path):
            if found:
                raise InvalidRequest(
                    "Invalid condition in KeyConditionExpression: Multiple attribute names used in one "
                    "condition"
                )
            if operand.steps:
                raise InvalidRequest("KeyConditionExpressions cannot have conditions on nested attributes")
            found.append(operand)
    if not found:
        raise InvalidRequest("Invalid condition in KeyConditionExpression: No key attribute specified")
    return found[0].root


def _get_constants(operands: tuple[object, ...]) -> tuple[Value, ...]:
    """Return the values of the literals among the operands."""
    return tuple(operand.value for operand in operands if isinstance(operand, Constant))
