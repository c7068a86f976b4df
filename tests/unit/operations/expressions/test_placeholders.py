"""Placeholders: the expression attribute names and values of a request, and the check that all are used."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import Placeholders, parse_condition, parse_projection, parse_update
from tests.cases import all_cases


@all_cases(
    ("names", "message"),
    [
        ({}, "ExpressionAttributeNames must not be empty"),
        ({"a": "a"}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "a"'),
        ({"#": "a"}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "#"'),
        ({"#a-b": "a"}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "#a-b"'),
        ({"#a\n": "a"}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "#a\n"'),
        ({"#é": "a"}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "#é"'),
        (
            {"": "a"},
            "ExpressionAttributeNames contains invalid key: The expression attribute map contains an empty "
            "key;",
        ),
        (
            {"#" + "a" * 255: "a"},
            "ExpressionAttributeNames contains invalid key: "
            "The expression attribute map contains a key that is too long; size of key: 256",
        ),
        ({"#a": ""}, "ExpressionAttributeNames contains invalid value: Empty attribute name for key #a"),
        (
            {"#a": "a" * 65536},
            "ExpressionAttributeNames contains invalid value: "
            "Attribute name is too large, must be less than 65536 bytes for key #a",
        ),
    ],
)
def test_names_that_cannot_be_used_are_refused(names: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Placeholders(names)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "ExpressionAttributeValues must not be empty"),
        ({"a": 1}, 'ExpressionAttributeValues contains invalid key: Syntax error; key: "a"'),
        (
            {"": 1},
            "ExpressionAttributeValues contains invalid key: The expression attribute map contains an empty "
            "key;",
        ),
        (
            {":" + "a" * 255: 1},
            "ExpressionAttributeValues contains invalid key: "
            "The expression attribute map contains a key that is too long;",
        ),
    ],
)
def test_values_that_cannot_be_used_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Placeholders(None, values)
    assert refused.value.message == message


def test_the_longest_key_and_name_are_accepted() -> None:
    Placeholders({"#" + "a" * 254: "é" * 32767 + "a"})


def test_a_value_of_null_or_false_is_a_value() -> None:
    placeholders = Placeholders(None, {":null": None, ":false": False})
    parse_condition("a = :null AND b = :false", "FilterExpression", placeholders)
    placeholders.check_all_used()


def test_rejects_unused_placeholders_names_first() -> None:
    placeholders = Placeholders({"#a": "a", "#b": "b"}, {":a": 1, ":b": 2, ":c": 3})
    parse_update("SET c = :a", placeholders)
    with pytest.raises(InvalidRequest) as refused:
        placeholders.check_all_used()
    assert (
        refused.value.message
        == "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #b}"
    )
    parse_projection("#b, #a", placeholders)
    with pytest.raises(InvalidRequest) as refused:
        placeholders.check_all_used()
    assert (
        refused.value.message
        == "Value provided in ExpressionAttributeValues unused in expressions: keys: {:b, :c}"
    )


def test_use_is_counted_over_all_the_expressions_of_a_request() -> None:
    placeholders = Placeholders({"#a": "a"}, {":a": 1})
    parse_projection("#a", placeholders)
    parse_condition("b = :a", "FilterExpression", placeholders)
    placeholders.check_all_used()


def test_a_cached_expression_still_counts_its_placeholders() -> None:
    for _ in range(2):
        placeholders = Placeholders({"#a": "a"}, {":a": 1})
        parse_condition("#a = :a", "FilterExpression", placeholders)
        placeholders.check_all_used()
