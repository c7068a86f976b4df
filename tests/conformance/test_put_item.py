"""PutItem over the wire: its shape, its refusals in order, and its effects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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

INVALID = "One or more parameter values were invalid: "
NOT_VALID = "One or more parameter values are not valid. "
EMPTY_VALUE = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
TWO_TYPES = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"  # noqa: E501

# Shape


@all_cases(
    ("body", "entries"),
    cases(
        {
            "nothing at all": (
                {},
                {constraint("null", "tableName", NOT_NULL), constraint("null", "item", NOT_NULL)},
            ),
            "no item": ({"TableName": "abc"}, {constraint("null", "item", NOT_NULL)}),
            "a table name of 256": (
                {"TableName": "a" * 256, "Item": {}},
                {
                    constraint(
                        f"'{'a' * 256}'", "tableName", "Member must have length less than or equal to 255"
                    )
                },
            ),
            "a table name with a space": (
                {"TableName": "bad name", "Item": {}},
                {constraint("'bad name'", "tableName", TABLE_NAME_PATTERN)},
            ),
            "a bad value for every enum": (
                {
                    "TableName": "abc",
                    "Item": {},
                    "ReturnConsumedCapacity": "hi",
                    "ReturnItemCollectionMetrics": "hi",
                    "ReturnValues": "hi",
                },
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'hi'", "returnItemCollectionMetrics", METRICS_ENUM),
                    constraint("'hi'", "returnValues", RETURN_VALUES_ENUM),
                },
            ),
            "an enum in lower case": (
                {"TableName": "abc", "Item": {}, "ReturnConsumedCapacity": "total"},
                {constraint("'total'", "returnConsumedCapacity", CAPACITY_ENUM)},
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("PutItem", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


def test_an_empty_table_name_is_too_short(raw: Raw) -> None:
    code, text = raw.refusal("PutItem", {"TableName": "", "Item": {}})
    assert code == "ValidationException"
    assert "Member must have length greater than or equal to " in str(text)


@pytest.mark.parametrize("value", ["UPDATED_OLD", "ALL_NEW", "DUMMY"])
def test_only_all_old_and_none_may_be_returned_when_a_condition_fails(raw: Raw, value: str) -> None:
    body = {"TableName": "abc", "Item": {}, "ReturnValuesOnConditionCheckFailure": value}
    code, text = raw.refusal("PutItem", body)
    assert code == "ValidationException"
    assert f"Value '{value}' at 'returnValuesOnConditionCheckFailure' failed to satisfy constraint: " in str(
        text
    )


# Validation, before the table is looked up: the table `abc` does not exist


@all_cases(
    ("more", "text"),
    cases(
        {
            "expression and non-expression parameters": (
                {"Expected": {"a": {}}, "ConditionExpression": ""},
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
            "a value without a type": ({"Item": {"a": {}}}, EMPTY_VALUE),
            "a value of an unknown type": ({"Item": {"a": {"X": ""}}}, EMPTY_VALUE),
            "an empty value in a map": ({"Item": {"a": {"M": {"b": {}}}}}, EMPTY_VALUE),
            "an empty value in a list": ({"Item": {"a": {"L": [{}]}}}, EMPTY_VALUE),
            "a value of two types": ({"Item": {"a": {"S": "a", "N": "1"}}}, TWO_TYPES),
            "an invalid value before two types": (
                {"Item": {"a": {"S": "a", "N": "b"}}},
                "The parameter cannot be converted to a numeric value: b",
            ),
            "values before return values": ({"Item": {"a": {}}, "ReturnValues": "ALL_NEW"}, EMPTY_VALUE),
            "return values all new": (
                {"ReturnValues": "ALL_NEW"},
                "ReturnValues can only be ALL_OLD or NONE",
            ),
            "return values updated old": (
                {"ReturnValues": "UPDATED_OLD"},
                "ReturnValues can only be ALL_OLD or NONE",
            ),
            "return values updated new": (
                {"ReturnValues": "UPDATED_NEW"},
                "ReturnValues can only be ALL_OLD or NONE",
            ),
            "return values before the expression": (
                {"ReturnValues": "ALL_NEW", "ConditionExpression": ""},
                "ReturnValues can only be ALL_OLD or NONE",
            ),
            "an item too large before the expression": (
                {"Item": {"a": {"S": "a" * 409_600}}, "ConditionExpression": ""},
                "Item size has exceeded the maximum allowed size",
            ),
            "no names": (
                {"ExpressionAttributeNames": {}, "ConditionExpression": ""},
                "ExpressionAttributeNames must not be empty",
            ),
            "a name without a hash sign": (
                {"ExpressionAttributeNames": {"a": "a"}, "ConditionExpression": ""},
                'ExpressionAttributeNames contains invalid key: Syntax error; key: "a"',
            ),
            "no values": (
                {"ExpressionAttributeValues": {}, "ConditionExpression": ""},
                "ExpressionAttributeValues must not be empty",
            ),
            "a value without a colon": (
                {"ExpressionAttributeValues": {"b": {"S": "a"}}, "ConditionExpression": ""},
                'ExpressionAttributeValues contains invalid key: Syntax error; key: "b"',
            ),
            "an empty value for a name": (
                {"ExpressionAttributeValues": {":b": {}}, "ConditionExpression": ""},
                f"ExpressionAttributeValues contains invalid value: {EMPTY_VALUE} for key :b",
            ),
            "an empty expression": (
                {"ConditionExpression": ""},
                "Invalid ConditionExpression: The expression can not be empty;",
            ),
            "a name not defined": (
                {"ConditionExpression": "attribute_exists(#a)"},
                "Invalid ConditionExpression: An expression attribute name used in the document path is not "
                "defined; attribute name: #a",
            ),
            "a value not defined": (
                {"ConditionExpression": "a = :a"},
                "Invalid ConditionExpression: An expression attribute value used in expression is not "
                "defined; attribute value: :a",
            ),
            "a reserved word": (
                {"ConditionExpression": "attribute_exists(abort)"},
                "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: abort",
            ),
            "an unknown function": (
                {"ConditionExpression": "nope(a)"},
                "Invalid ConditionExpression: Invalid function name; function: nope",
            ),
            "redundant parentheses": (
                {"ConditionExpression": "((attribute_exists(a)))"},
                "Invalid ConditionExpression: The expression has redundant parentheses;",
            ),
            "a name not used": (
                {"ConditionExpression": "attribute_exists(a)", "ExpressionAttributeNames": {"#b": "b"}},
                "Value provided in ExpressionAttributeNames unused in expressions: keys: {#b}",
            ),
            "a value not used": (
                {
                    "ConditionExpression": "attribute_exists(a)",
                    "ExpressionAttributeValues": {":b": {"S": "b"}},
                },
                "Value provided in ExpressionAttributeValues unused in expressions: keys: {:b}",
            ),
        }
    ),
)
def test_rejects_an_invalid_request_before_looking_up_the_table(
    raw: Raw, more: dict[str, Any], text: str
) -> None:
    body = {"TableName": "abc", "Item": {}} | more
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


def test_an_attribute_without_a_name_is_refused(raw: Raw, shared_hash_table: str) -> None:
    body = {"TableName": shared_hash_table, "Item": {"pk": {"S": "a"}, "": {"S": "b"}}}
    assert raw.refusal("PutItem", body) == ("ValidationException", "Empty attribute name")


def test_reports_a_missing_table_before_checking_the_item(raw: Raw) -> None:
    body = {"TableName": "no_such_table", "Item": {}}
    assert raw.refusal("PutItem", body) == ("ResourceNotFoundException", "Requested resource not found")


# Validation against the table


@all_cases(
    ("item", "text"),
    cases(
        {
            "no hash key": ({"sk": {"S": "b"}}, INVALID + "Missing the key pk in the item"),
            "no range key": ({"pk": {"S": "a"}}, INVALID + "Missing the key sk in the item"),
            "neither key": ({}, INVALID + "Missing the key pk in the item"),
            "a number for the hash key": (
                {"pk": {"N": "1"}, "sk": {"S": "b"}},
                INVALID + "Type mismatch for key pk expected: S actual: N",
            ),
            "a map for the range key": (
                {"pk": {"S": "a"}, "sk": {"M": {}}},
                INVALID + "Type mismatch for key sk expected: S actual: M",
            ),
            "null for the hash key": (
                {"pk": {"NULL": True}, "sk": {"S": "b"}},
                INVALID + "Type mismatch for key pk expected: S actual: NULL",
            ),
            "an empty hash key": (
                {"pk": {"S": ""}, "sk": {"S": "b"}},
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            "an empty range key": (
                {"pk": {"S": "a"}, "sk": {"S": ""}},
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: sk",
            ),
            "a hash key too long": (
                {"pk": {"S": "a" * 2049}, "sk": {"S": "b"}},
                INVALID + "Size of hashkey has exceeded the maximum size limit of2048 bytes",
            ),
            "a range key too long": (
                {"pk": {"S": "a"}, "sk": {"S": "b" * 1025}},
                INVALID + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
            ),
            "a global index key of the wrong type": (
                {"pk": {"S": "a"}, "sk": {"S": "b"}, "kind": {"N": "1"}},
                INVALID + "Type mismatch for Index Key kind Expected: S Actual: N IndexName: by_kind",
            ),
            "a global index range key of the wrong type": (
                {"pk": {"S": "a"}, "sk": {"S": "b"}, "at": {"L": []}},
                INVALID + "Type mismatch for Index Key at Expected: S Actual: L IndexName: by_kind",
            ),
            "a local index key of the wrong type": (
                {"pk": {"S": "a"}, "sk": {"S": "b"}, "size": {"S": "1"}},
                INVALID + "Type mismatch for Index Key size Expected: N Actual: S IndexName: by_size",
            ),
            "the table's key before the index's": (
                {"pk": {"S": "a"}, "size": {"S": "1"}},
                INVALID + "Missing the key sk in the item",
            ),
            # dynalite accepts an empty index key; AWS does not.
            "an empty index key": (
                {"pk": {"S": "a"}, "sk": {"S": "b"}, "kind": {"S": ""}},
                NOT_VALID
                + "A value specified for a secondary index key is not supported. The AttributeValue for a "
                "key attribute cannot contain an empty string value. IndexName: by_kind, IndexKey: kind",
            ),
        }
    ),
)
def test_an_item_that_does_not_fit_the_table_is_refused(
    raw: Raw, shared_index_table: str, item: dict[str, Any], text: str
) -> None:
    body = {"TableName": shared_index_table, "Item": item}
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


def test_an_empty_binary_key_is_refused(raw: Raw, binary_table: str) -> None:
    body = {"TableName": binary_table, "Item": {"pk": {"S": "a"}, "sk": {"B": ""}}}
    text = NOT_VALID + "The AttributeValue for a key attribute cannot contain an empty binary value. Key: sk"
    assert raw.refusal("PutItem", body) == ("ValidationException", text)


# Behaviour


def test_a_put_answers_an_empty_object_and_stores_the_item(raw: Raw, hash_table: str) -> None:
    item = {"pk": {"S": "a"}, "n": {"N": "1"}, "m": {"M": {"x": {"L": [{"BOOL": True}, {"NULL": True}]}}}}
    assert raw.answer("PutItem", {"TableName": hash_table, "Item": item}) == {}
    assert raw.item(hash_table, {"pk": {"S": "a"}}) == item


def test_a_put_replaces_the_whole_item(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, {"pk": {"S": "a"}, "old": {"S": "x"}})
    raw.put(hash_table, {"pk": {"S": "a"}, "new": {"S": "y"}})
    assert raw.item(hash_table, {"pk": {"S": "a"}}) == {"pk": {"S": "a"}, "new": {"S": "y"}}


def test_range_key_distinguishes_items_of_a_partition(raw: Raw, range_table: str) -> None:
    for sk in ("b", "c"):
        raw.put(range_table, {"pk": {"S": "a"}, "sk": {"S": sk}, "v": {"S": sk}})
    assert raw.item(range_table, {"pk": {"S": "a"}, "sk": {"S": "b"}})["v"] == {"S": "b"}


@pytest.mark.parametrize(("return_values", "returned"), [("NONE", False), ("ALL_OLD", True), (None, False)])
def test_return_values_gives_the_item_that_was_replaced(
    raw: Raw, hash_table: str, return_values: str | None, returned: bool
) -> None:
    old = {"pk": {"S": "a"}, "v": {"N": "1"}}
    raw.put(hash_table, old)
    body: dict[str, Any] = {"TableName": hash_table, "Item": {"pk": {"S": "a"}, "v": {"N": "2"}}}
    if return_values:
        body["ReturnValues"] = return_values
    assert raw.answer("PutItem", body) == ({"Attributes": old} if returned else {})


def test_all_old_of_a_new_item_has_no_attributes(raw: Raw, hash_table: str) -> None:
    body = {"TableName": hash_table, "Item": {"pk": {"S": "a"}}, "ReturnValues": "ALL_OLD"}
    assert raw.answer("PutItem", body) == {}


def test_attributes_outside_the_index_keys_may_have_any_type(raw: Raw, shared_index_table: str) -> None:
    item = {"pk": {"S": "sparse"}, "sk": {"S": "b"}, "other": {"N": "1"}}
    raw.put(shared_index_table, item)
    assert raw.item(shared_index_table, {"pk": {"S": "sparse"}, "sk": {"S": "b"}}) == item


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    cases(
        {
            "the item is there": ("attribute_exists(pk)", None, True),
            "the item is not there": ("attribute_not_exists(pk)", None, False),
            "an attribute equals": ("v = :v", {":v": {"N": "1"}}, True),
            "an attribute equals in another notation": ("v = :v", {":v": {"N": "1.0"}}, True),
            "an attribute of another type": ("v = :v", {":v": {"S": "1"}}, False),
            "an attribute differs": ("v <> :v", {":v": {"N": "1"}}, False),
            "an attribute is absent": ("gone = :v", {":v": {"N": "1"}}, False),
            "an absent attribute differs": ("gone <> :v", {":v": {"N": "1"}}, True),
            "between": ("v BETWEEN :a AND :b", {":a": {"N": "0"}, ":b": {"N": "1"}}, True),
            "in": ("v IN (:a, :b)", {":a": {"N": "0"}, ":b": {"N": "1"}}, True),
            "not": ("NOT v = :v", {":v": {"N": "1"}}, False),
            "or": ("v = :v OR attribute_not_exists(pk)", {":v": {"N": "2"}}, False),
        }
    ),
)
def test_a_conditional_put_writes_only_when_the_condition_holds_on_the_old_item(
    raw: Raw, hash_table: str, condition: str, values: dict[str, Any] | None, holds: bool
) -> None:
    old, new = {"pk": {"S": "a"}, "v": {"N": "1"}}, {"pk": {"S": "a"}, "v": {"N": "9"}}
    raw.put(hash_table, old)
    body: dict[str, Any] = {"TableName": hash_table, "Item": new, "ConditionExpression": condition}
    if values:
        body["ExpressionAttributeValues"] = values
    status, answer = raw.call("PutItem", body)
    assert status == (200 if holds else 400), answer
    assert raw.item(hash_table, {"pk": {"S": "a"}}) == (new if holds else old)


def test_failed_condition_is_reported(raw: Raw, hash_table: str) -> None:
    body = {
        "TableName": hash_table,
        "Item": {"pk": {"S": "a"}},
        "ConditionExpression": "attribute_exists(pk)",
    }
    status, answer = raw.call("PutItem", body)
    assert (status, answer) == (
        400,
        {
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message": "The conditional request failed",
        },
    )


# dynalite does not know ReturnValuesOnConditionCheckFailure.
@pytest.mark.parametrize(
    ("wanted", "stored", "returned"),
    [("ALL_OLD", True, True), ("NONE", True, False), ("ALL_OLD", False, False)],
)
def test_failed_condition_returns_the_old_item_on_request(
    raw: Raw, hash_table: str, wanted: str, stored: bool, returned: bool
) -> None:
    old = {"pk": {"S": "a"}, "v": {"N": "1"}}
    if stored:
        raw.put(hash_table, old)
    status, answer = raw.call(
        "PutItem",
        {
            "TableName": hash_table,
            "Item": {"pk": {"S": "a"}},
            "ConditionExpression": "v = :v",
            "ExpressionAttributeValues": {":v": {"N": "2"}},
            "ReturnValuesOnConditionCheckFailure": wanted,
        },
    )
    assert status == 400
    assert answer.get("Item") == (old if returned else None)


def test_exactly_one_of_racing_conditional_puts_wins(raw: Raw, hash_table: str) -> None:
    def put(writer: int) -> int:
        item = {"pk": {"S": "a"}, "writer": {"N": str(writer)}}
        body = {"TableName": hash_table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
        return raw.call("PutItem", body)[0]

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(put, range(16)))
    assert sorted(statuses) == [200] + [400] * 15
    winner = statuses.index(200)
    assert raw.item(hash_table, {"pk": {"S": "a"}})["writer"] == {"N": str(winner)}
