"""UpdateTimeToLive and DescribeTimeToLive over the wire: the attribute that holds an item's expiry time.

The removal of expired items and their stream records are tested in `test_streams.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import unique_name
from .protocol import NOT_NULL, Raw, constraint, split_constraints

Body = dict[str, Any]

SHORT_NAME = "TableName must be at least 3 characters long and at most 255 characters long"
CONSTRAINT = "Value {} at '{}' failed to satisfy constraint: Member must "


def ttl_request(table: str, attribute: Any = "ends_at", enabled: Any = True) -> Body:
    """Return the body of an UpdateTimeToLive request."""
    return {"TableName": table, "TimeToLiveSpecification": {"AttributeName": attribute, "Enabled": enabled}}


# Shape


@pytest.mark.parametrize("operation", ["UpdateTimeToLive", "DescribeTimeToLive"])
def test_requires_a_table_name(raw: Raw, operation: str) -> None:
    text = "The parameter 'TableName' is required but was not present in the request"
    assert raw.refusal(operation, {}) == ("ValidationException", text)


@pytest.mark.parametrize("operation", ["UpdateTimeToLive", "DescribeTimeToLive"])
def test_a_name_has_at_least_3_characters(raw: Raw, operation: str) -> None:
    code, text = raw.refusal(operation, ttl_request("ab"))
    long_text = "1 validation error detected: " + CONSTRAINT.format("'ab'", "tableName")
    assert code == "ValidationException"
    assert text in (SHORT_NAME, long_text + "have length greater than or equal to 3")


@pytest.mark.parametrize("operation", ["UpdateTimeToLive", "DescribeTimeToLive"])
def test_rejects_a_table_name_with_other_characters(raw: Raw, operation: str) -> None:
    rule = CONSTRAINT.format("'abc;'", "tableName") + "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    assert raw.refusal(operation, ttl_request("abc;")) == (
        "ValidationException",
        "1 validation error detected: " + rule,
    )


@pytest.mark.parametrize(
    ("specification", "missing"),
    [
        ({}, ["attributeName", "enabled"]),
        ({"Enabled": True}, ["attributeName"]),
        ({"AttributeName": "ends_at"}, ["enabled"]),
        ({"AttributeName": None, "Enabled": None}, ["attributeName", "enabled"]),
    ],
    ids=["nothing", "no attribute", "no flag", "nulls"],
)
def test_attribute_and_flag_are_both_needed(raw: Raw, specification: Body, missing: list[str]) -> None:
    code, text = raw.refusal(
        "UpdateTimeToLive", {"TableName": "abc", "TimeToLiveSpecification": specification}
    )
    parts = {constraint("null", f"timeToLiveSpecification.{name}", NOT_NULL) for name in missing}
    assert (code, split_constraints(text)) == ("ValidationException", parts)


def test_a_specification_is_needed(raw: Raw) -> None:
    text = (
        "1 validation error detected: " + CONSTRAINT.format("null", "timeToLiveSpecification") + "not be null"
    )
    assert raw.refusal("UpdateTimeToLive", {"TableName": "abc"}) == ("ValidationException", text)


def test_an_attribute_name_has_1_to_255_characters(raw: Raw) -> None:
    # The first text was recorded from AWS in 2019; since then the length is a constraint like any other.
    code, empty = raw.refusal("UpdateTimeToLive", ttl_request("abc", attribute=""))
    at = "timeToLiveSpecification.attributeName"
    assert code == "ValidationException"
    assert empty in (
        "TimeToLiveSpecification.AttributeName must be non empty",
        "1 validation error detected: "
        + CONSTRAINT.format("''", at)
        + "have length greater than or equal to 1",
    )
    code, long_text = raw.refusal("UpdateTimeToLive", ttl_request("abc", attribute="a" * 256))
    rule = CONSTRAINT.format(f"'{'a' * 256}'", at) + "have length less than or equal to 255"
    assert (code, long_text) == ("ValidationException", "1 validation error detected: " + rule)


# Validation


@pytest.mark.parametrize("operation", ["UpdateTimeToLive", "DescribeTimeToLive"])
def test_names_a_missing_table(raw: Raw, operation: str) -> None:
    name = unique_name()
    text = f"Requested resource not found: Table: {name} not found"
    assert raw.refusal(operation, ttl_request(name)) == ("ResourceNotFoundException", text)


def test_rejects_disabling_ttl_that_is_off(raw: Raw, hash_table: str) -> None:
    refusal = raw.refusal("UpdateTimeToLive", ttl_request(hash_table, enabled=False))
    assert refusal == ("ValidationException", "TimeToLive is already disabled")


def test_rejects_enabling_ttl_that_is_on(raw: Raw, hash_table: str) -> None:
    raw.answer("UpdateTimeToLive", ttl_request(hash_table))
    refusal = raw.refusal("UpdateTimeToLive", ttl_request(hash_table))
    assert refusal == ("ValidationException", "TimeToLive is already enabled")


@pytest.mark.parametrize("enabled", [True, False], ids=["turn on", "turn off"])
def test_rejects_an_attribute_other_than_the_enabled_one(raw: Raw, hash_table: str, enabled: bool) -> None:
    # DynamoDB Local does not name the attribute.
    raw.answer("UpdateTimeToLive", ttl_request(hash_table, "first"))
    refusal = raw.refusal("UpdateTimeToLive", ttl_request(hash_table, "second", enabled))
    text = "TimeToLive is active on a different AttributeName: current AttributeName is first"
    assert refusal == ("ValidationException", text)


# Behaviour


@pytest.fixture
def describe_ttl(raw: Raw) -> Callable[[str], Body]:
    """Return a function that describes the TTL of a table."""

    def describe(table: str) -> Body:
        description: Body = raw.answer("DescribeTimeToLive", {"TableName": table})["TimeToLiveDescription"]
        return description

    return describe


def test_ttl_is_off_on_a_new_table(describe_ttl: Callable[[str], Body], hash_table: str) -> None:
    assert describe_ttl(hash_table) == {"TimeToLiveStatus": "DISABLED"}


def test_ttl_can_be_enabled(raw: Raw, describe_ttl: Callable[[str], Body], hash_table: str) -> None:
    answer = raw.answer("UpdateTimeToLive", ttl_request(hash_table))
    assert answer == {"TimeToLiveSpecification": {"AttributeName": "ends_at", "Enabled": True}}
    # AWS may say ENABLING for up to an hour; our engine has nothing to wait for.
    assert describe_ttl(hash_table) == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ends_at"}


def test_ttl_can_be_disabled_again(raw: Raw, describe_ttl: Callable[[str], Body], hash_table: str) -> None:
    """AWS requires half an hour between two changes; our engine does not."""
    raw.answer("UpdateTimeToLive", ttl_request(hash_table))
    code, answer = raw.call("UpdateTimeToLive", ttl_request(hash_table, enabled=False))
    if code == 400:
        assert answer["message"] == "Time to live has been modified multiple times within a fixed interval"
        return
    assert answer["TimeToLiveSpecification"]["Enabled"] is False
    assert describe_ttl(hash_table) == {"TimeToLiveStatus": "DISABLED"}


def test_any_attribute_may_hold_the_ttl_even_a_key(
    raw: Raw, describe_ttl: Callable[[str], Body], make_table: Callable[..., str]
) -> None:
    table = make_table("pk:S", "ends_at:N")
    raw.answer("UpdateTimeToLive", ttl_request(table))
    assert describe_ttl(table)["AttributeName"] == "ends_at"
