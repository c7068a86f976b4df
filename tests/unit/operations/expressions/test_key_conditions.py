"""Key conditions: valid ones split into tests, invalid ones refused with DynamoDB's messages."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import Placeholders, parse_condition
from holdfast.operations.expressions.key_conditions import (
    ONE_CONDITION_PER_KEY,
    KeyCondition,
    KeyTest,
    split_key_condition,
)
from tests.cases import all_cases


def _parse_key_tests(text: str) -> KeyCondition:
    placeholders = Placeholders(None, {":a": "a", ":b": "b", ":ts": "S"})
    return split_key_condition(parse_condition(text, "KeyConditionExpression", placeholders))


@all_cases(
    ("text", "found"),
    [
        ("p = :a", (KeyTest("p", "=", ("a",)),)),
        (":a = p", (KeyTest("p", "=", ("a",)),)),
        ("p = :a AND :b < r", (KeyTest("p", "=", ("a",)), KeyTest("r", ">", ("b",)))),
        ("(r >= :a) AND (p = :a)", (KeyTest("r", ">=", ("a",)), KeyTest("p", "=", ("a",)))),
        ("r BETWEEN :a AND :b", (KeyTest("r", "between", ("a", "b")),)),
        ("begins_with(r, :a)", (KeyTest("r", "begins_with", ("a",)),)),
    ],
)
def test_splits_a_key_condition_into_tests(text: str, found: KeyCondition) -> None:
    assert _parse_key_tests(text) == found


_OPERATOR = "Invalid operator used in KeyConditionExpression: "
_CONDITION = "Invalid condition in KeyConditionExpression: "
_FIRST = " operator must have the key attribute as its first operand"


@all_cases(
    ("text", "message"),
    [
        ("p = :a OR r = :b", _OPERATOR + "OR"),
        ("NOT p = :a", _OPERATOR + "NOT"),
        ("p <> :a", _OPERATOR + "<>"),
        ("p = :a AND r IN (:a, :b)", _OPERATOR + "IN"),
        ("p = :a AND (r = :a OR r = :b)", _OPERATOR + "OR"),
        ("attribute_exists(p)", _OPERATOR + "attribute_exists"),
        ("attribute_not_exists(p)", _OPERATOR + "attribute_not_exists"),
        ("attribute_type(p, :ts)", _OPERATOR + "attribute_type"),
        ("contains(p, :a)", _OPERATOR + "contains"),
        ("size(p) = :a", "KeyConditionExpressions cannot contain nested operations"),
        ("p.x = :a", "KeyConditionExpressions cannot have conditions on nested attributes"),
        ("p = :a AND p = :b", ONE_CONDITION_PER_KEY),
        ("p = :a AND (r > :a AND r < :b)", ONE_CONDITION_PER_KEY),
        ("p = r", _CONDITION + "Multiple attribute names used in one condition"),
        ("r BETWEEN :a AND p", _CONDITION + "Multiple attribute names used in one condition"),
        (":a = :b", _CONDITION + "No key attribute specified"),
        (":a BETWEEN r AND :b", _CONDITION + "BETWEEN" + _FIRST),
        ("begins_with(:a, r)", _CONDITION + "begins_with" + _FIRST),
    ],
)
def test_rejects_an_invalid_key_condition(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _parse_key_tests(text)
    assert refused.value.message == message
