"""DeleteItem over the wire: its shape, its refusals in order, and its effects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CAPACITY_ENUM,
    METRICS_ENUM,
    NOT_NULL,
    RETURN_VALUES_ENUM,
    TABLE_NAME_PATTERN,
    Raw,
    cases,
    constraint,
    split_constraints,
)

MISMATCH = "The provided key element does not match the schema"
KEY = {"pk": {"S": "a"}}

# Shape


@pytest.mark.parametrize(
    ("body", "entries"),
    cases(
        {
            "nothing at all": (
                {},
                {constraint("null", "tableName", NOT_NULL), constraint("null", "key", NOT_NULL)},
            ),
            "several faults": (
                {
                    "TableName": "abc;",
                    "ReturnConsumedCapacity": "hi",
                    "ReturnItemCollectionMetrics": "hi",
                    "ReturnValues": "hi",
                },
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'abc;'", "tableName", TABLE_NAME_PATTERN),
                    constraint("'hi'", "returnItemCollectionMetrics", METRICS_ENUM),
                    constraint("'hi'", "returnValues", RETURN_VALUES_ENUM),
                    constraint("null", "key", NOT_NULL),
                },
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("DeleteItem", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


# Validation, before the table is looked up: the table `abc` does not exist


@pytest.mark.parametrize(
    ("more", "text"),
    cases(
        {
            "expression and non-expression parameters": (
                {"Expected": {"a": {}}, "ConditionExpression": "", "ReturnValues": "ALL_NEW"},
                "Can not use both expression and non-expression parameters in the same request: "
                "Non-expression parameters: {Expected} Expression parameters: {ConditionExpression}",
            ),
            "names without an expression": (
                {"ExpressionAttributeNames": {}},
                "ExpressionAttributeNames can only be specified when using expressions",
            ),
            "values without an expression": (
                {"ExpressionAttributeValues": {}},
                "ExpressionAttributeValues can only be specified when using expressions: ConditionExpression "
                "is null",
            ),
            "a key value without a type": (
                {"Key": {"a": {}}, "ConditionExpression": ""},
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "an empty expression": (
                {"ConditionExpression": ""},
                "Invalid ConditionExpression: The expression can not be empty;",
            ),
        }
    ),
)
def test_rejects_an_invalid_request_before_looking_up_the_table(
    raw: Raw, more: dict[str, Any], text: str
) -> None:
    body = {"TableName": "abc", "Key": {}} | more
    assert raw.refusal("DeleteItem", body) == ("ValidationException", text)


# dynalite ignores ReturnValues here; AWS refuses values that DeleteItem cannot return.
@pytest.mark.parametrize("value", ["ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"])
def test_rejects_return_values_other_than_all_old_and_none(
    raw: Raw, shared_hash_table: str, value: str
) -> None:
    body = {"TableName": shared_hash_table, "Key": KEY, "ReturnValues": value}
    assert raw.refusal("DeleteItem", body) == (
        "ValidationException",
        "ReturnValues can only be ALL_OLD or NONE",
    )


def test_reports_a_missing_table_before_checking_the_key(raw: Raw) -> None:
    body = {"TableName": "no_such_table", "Key": {}}
    assert raw.refusal("DeleteItem", body) == ("ResourceNotFoundException", "Requested resource not found")


# Validation against the table


@all_cases(
    ("key", "text"),
    cases(
        {
            "an empty key": ({}, MISMATCH),
            "another attribute": ({"x": {"S": "a"}}, MISMATCH),
            "an attribute too many": ({"pk": {"S": "a"}, "x": {"S": "a"}}, MISMATCH),
            "a number for a string": ({"pk": {"N": "1"}}, MISMATCH),
            "null for a string": ({"pk": {"NULL": True}}, MISMATCH),
            "an empty key value": (
                {"pk": {"S": ""}},
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
                "contain an empty string value. Key: pk",
            ),
            "a key too long": (
                {"pk": {"S": "a" * 2049}},
                "One or more parameter values were invalid: "
                "Size of hashkey has exceeded the maximum size limit of2048 bytes",
            ),
        }
    ),
)
def test_a_key_that_does_not_fit_the_table_is_refused(
    raw: Raw, shared_hash_table: str, key: dict[str, Any], text: str
) -> None:
    body = {"TableName": shared_hash_table, "Key": key}
    assert raw.refusal("DeleteItem", body) == ("ValidationException", text)


# Behaviour


def test_a_delete_removes_the_item_and_answers_an_empty_object(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, KEY | {"v": {"N": "1"}})
    assert raw.answer("DeleteItem", {"TableName": hash_table, "Key": KEY}) == {}
    assert raw.item(hash_table, KEY) is None


def test_deleting_a_missing_item_succeeds(raw: Raw, hash_table: str) -> None:
    body = {"TableName": hash_table, "Key": KEY, "ReturnValues": "ALL_OLD"}
    assert raw.answer("DeleteItem", body) == {}


def test_only_the_item_with_that_range_key_is_deleted(raw: Raw, range_table: str) -> None:
    for sk in ("b", "c"):
        raw.put(range_table, KEY | {"sk": {"S": sk}})
    raw.answer("DeleteItem", {"TableName": range_table, "Key": KEY | {"sk": {"S": "b"}}})
    assert raw.item(range_table, KEY | {"sk": {"S": "b"}}) is None
    assert raw.item(range_table, KEY | {"sk": {"S": "c"}}) is not None


@pytest.mark.parametrize(("return_values", "returned"), [("NONE", False), ("ALL_OLD", True)])
def test_return_values_gives_the_item_that_was_deleted(
    raw: Raw, hash_table: str, return_values: str, returned: bool
) -> None:
    old = KEY | {"v": {"N": "1"}}
    raw.put(hash_table, old)
    body = {"TableName": hash_table, "Key": KEY, "ReturnValues": return_values}
    assert raw.answer("DeleteItem", body) == ({"Attributes": old} if returned else {})


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("v = :v", True), ("v > :v", False), ("attribute_not_exists(pk) OR v <> :v", False)],
)
def test_a_conditional_delete_removes_only_when_the_condition_holds(
    raw: Raw, hash_table: str, condition: str, holds: bool
) -> None:
    old = KEY | {"v": {"N": "1"}}
    raw.put(hash_table, old)
    body = {
        "TableName": hash_table,
        "Key": KEY,
        "ConditionExpression": condition,
        "ExpressionAttributeValues": {":v": {"N": "1"}},
    }
    status, answer = raw.call("DeleteItem", body)
    assert status == (200 if holds else 400), answer
    assert raw.item(hash_table, KEY) == (None if holds else old)


def test_condition_on_an_absent_item_sees_no_attributes(raw: Raw, hash_table: str) -> None:
    body = {"TableName": hash_table, "Key": KEY, "ConditionExpression": "attribute_exists(pk)"}
    refusal = ("ConditionalCheckFailedException", "The conditional request failed")
    assert raw.refusal("DeleteItem", body) == refusal
    assert raw.answer("DeleteItem", body | {"ConditionExpression": "attribute_not_exists(pk)"}) == {}


# dynalite does not know ReturnValuesOnConditionCheckFailure.
@pytest.mark.parametrize(("wanted", "returned"), [("ALL_OLD", True), ("NONE", False)])
def test_failed_condition_returns_the_item_on_request(
    raw: Raw, hash_table: str, wanted: str, returned: bool
) -> None:
    old = KEY | {"v": {"N": "1"}}
    raw.put(hash_table, old)
    status, answer = raw.call(
        "DeleteItem",
        {
            "TableName": hash_table,
            "Key": KEY,
            "ConditionExpression": "attribute_not_exists(pk)",
            "ReturnValuesOnConditionCheckFailure": wanted,
        },
    )
    assert status == 400
    assert answer.get("Item") == (old if returned else None)
