"""What a key condition says of the key: for each attribute one operator and its values.

Only a few conditions can select by key; what else the language offers is refused here, in DynamoDB's words
and order. Which attributes are the key, and what may be asked of each, the table's schema decides later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from typing import Literal as Choice

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.nodes import And, BeginsWith, Between, Compare, Condition, Operand
from holdfast.operations.values import Value

KeyOperator = Choice["=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"]

_MIRRORED: Final[dict[str, KeyOperator]] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNFIT: Final[dict[type, str]] = {
    nodes.Or: "OR",
    nodes.Not: "NOT",
    nodes.In: "IN",
    nodes.AttributeExists: "attribute_exists",
    nodes.AttributeNotExists: "attribute_not_exists",
    nodes.AttributeType: "attribute_type",
    nodes.Contains: "contains",
}


class KeyCondition(msgspec.Struct, frozen=True):
    """`values` are two for BETWEEN, otherwise one."""

    operator: KeyOperator
    values: tuple[Value, ...]


def key_conditions(condition: Condition) -> dict[str, KeyCondition]:
    """By attribute, in the order of the text; the attribute always stands on the left."""
    found: dict[str, KeyCondition] = {}
    for part in _parts(condition):
        name, asked = _key_condition(part)
        if name in found:
            raise InvalidRequest("KeyConditionExpressions must only contain one condition per key")
        found[name] = asked
    return found


def _parts(condition: Condition) -> Iterator[Condition]:
    if not isinstance(condition, And):
        yield condition
        return
    for part in condition.conditions:
        yield from _parts(part)


def _key_condition(condition: Condition) -> tuple[str, KeyCondition]:
    match condition:
        case Compare(operator, left, right) if operator != "<>":
            name, values = _attribute_and_values((left, right))
            mirrored = not isinstance(left, nodes.Path)
            return name, KeyCondition(_MIRRORED[operator] if mirrored else operator, values)
        case Between(operand, low, high):
            return _named("BETWEEN", (operand, low, high))
        case BeginsWith(operand, prefix):
            return _named("begins_with", (operand, prefix))
    unfit = "<>" if isinstance(condition, Compare) else _UNFIT[type(condition)]
    raise InvalidRequest(f"Invalid operator used in KeyConditionExpression: {unfit}")


def _named(operator: KeyOperator, operands: tuple[Operand, ...]) -> tuple[str, KeyCondition]:
    if not isinstance(operands[0], nodes.Path):
        raise InvalidRequest(
            f"Invalid condition in KeyConditionExpression: {operator} operator must have the key attribute "
            "as its first operand"
        )
    name, values = _attribute_and_values(operands)
    return name, KeyCondition(operator, values)


def _attribute_and_values(operands: tuple[Operand, ...]) -> tuple[str, tuple[Value, ...]]:
    name: str | None = None
    values = []
    for operand in operands:
        match operand:
            case nodes.Literal(value):
                values.append(value)
            case nodes.Size():
                raise InvalidRequest("KeyConditionExpressions cannot contain nested operations")
            case nodes.Path() if name is not None:
                raise InvalidRequest(
                    "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"
                )
            case nodes.Path(root, steps):
                if steps:
                    raise InvalidRequest(
                        "KeyConditionExpressions cannot have conditions on nested attributes"
                    )
                name = root
    if name is None:
        raise InvalidRequest("Invalid condition in KeyConditionExpression: No key attribute specified")
    return name, tuple(values)
