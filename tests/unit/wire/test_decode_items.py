"""GetItem, PutItem, UpdateItem and DeleteItem requests: decoded, or refused in DynamoDB's order of checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.nodes import AttributeNotExists, Path
from holdfast.operations.tables import DeleteItem, GetItem, PutItem, UpdateItem
from holdfast.wire.dispatch import decode

KEY = {"a": {"S": "b"}}
ITEM = {"a": {"S": "b"}, "n": {"N": "1"}}
WRITES = [("PutItem", {"Item": ITEM}), ("UpdateItem", {"Key": KEY}), ("DeleteItem", {"Key": KEY})]


def decode_request(operation: str, **request: Any) -> Any:
    """Decode a request of this operation and return the operation value."""
    body = json.dumps({"TableName": "abc", **request}).encode()
    return decode(f"DynamoDB_20120810.{operation}", body)[1]


def refusal(operation: str, **request: Any) -> str:
    """Decode an invalid request and return the message of its `InvalidRequest`."""
    with pytest.raises(InvalidRequest) as refused:
        decode_request(operation, **request)
    return refused.value.message


def test_omitted_members_have_defaults() -> None:
    assert decode_request("GetItem", Key=KEY) == GetItem(table="abc", key={"a": "b"})
    assert decode_request("PutItem", Item=ITEM) == PutItem(table="abc", item={"a": "b", "n": 1})
    assert decode_request("UpdateItem", Key=KEY) == UpdateItem(table="abc", key={"a": "b"})
    assert decode_request("DeleteItem", Key=KEY) == DeleteItem(table="abc", key={"a": "b"})


def test_decodes_every_member() -> None:
    assert decode_request(
        "GetItem",
        Key=KEY,
        ConsistentRead=True,
        ProjectionExpression="#x",
        ExpressionAttributeNames={"#x": "y"},
        ReturnConsumedCapacity="TOTAL",
    ) == GetItem(table="abc", key={"a": "b"}, consistent=True, projection=(Path("y"),), capacity="TOTAL")
    assert decode_request(
        "PutItem",
        Item=ITEM,
        ConditionExpression="attribute_not_exists(a)",
        ReturnValues="ALL_OLD",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
        ReturnConsumedCapacity="INDEXES",
    ) == PutItem(
        table="abc",
        item={"a": "b", "n": 1},
        condition=AttributeNotExists(Path("a")),
        returns="ALL_OLD",
        returns_on_failure="ALL_OLD",
        capacity="INDEXES",
    )


@pytest.mark.parametrize(("operation", "request_"), WRITES)
def test_rejects_legacy_parameters_with_our_message(operation: str, request_: dict[str, Any]) -> None:
    text = refusal(operation, **request_, Expected={"a": {"Exists": False}})
    assert text == "The parameter Expected is not supported yet: use ConditionExpression instead"
    decode_request(operation, **request_, Expected={})


def test_names_and_values_are_checked_before_the_expressions() -> None:
    def text(**given: Any) -> str:
        return refusal("DeleteItem", Key=KEY, ConditionExpression="!", **given)

    assert text(ExpressionAttributeNames={}) == "ExpressionAttributeNames must not be empty"
    assert text(ExpressionAttributeValues={}) == "ExpressionAttributeValues must not be empty"
    assert text(ExpressionAttributeNames={"a": "b"}) == (
        'ExpressionAttributeNames contains invalid key: Syntax error; key: "a"'
    )
    assert text(ExpressionAttributeValues={":a": {}, "b": {"S": "a"}}) == (
        'ExpressionAttributeValues contains invalid key: Syntax error; key: "b"'
    )
    assert text(ExpressionAttributeValues={":a": {"N": "x"}}) == (
        "ExpressionAttributeValues contains invalid value: "
        "The parameter cannot be converted to a numeric value: x for key :a"
    )
    assert text().startswith("Invalid ConditionExpression: Syntax error")


@pytest.mark.parametrize(("operation", "request_"), WRITES)
def test_reports_an_unused_value_last(operation: str, request_: dict[str, Any]) -> None:
    given = {":a": {"S": "b"}, ":c": {"S": "d"}}
    assert refusal(operation, **request_, ConditionExpression="a = :a", ExpressionAttributeValues=given) == (
        "Value provided in ExpressionAttributeValues unused in expressions: keys: {:c}"
    )


def test_reports_an_invalid_value_before_return_values_and_expressions() -> None:
    text = refusal("PutItem", Item={"a": {"SS": []}}, ReturnValues="ALL_NEW", ConditionExpression="!")
    assert text == "One or more parameter values were invalid: An string set  may not be empty"
    text = refusal("PutItem", Item=ITEM, ReturnValues="ALL_NEW", ConditionExpression="!")
    assert text == "ReturnValues can only be ALL_OLD or NONE"


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_rejects_an_attribute_name_of_64_kib_at_any_depth(depth: int) -> None:
    def item(name: str) -> dict[str, Any]:
        found: dict[str, Any] = {name: {"S": "x"}}
        for _ in range(depth):
            found = {"a": {"L": [{"M": found}]}}
        return found

    decode_request("PutItem", Item=item("n" * 65_535))
    assert refusal("PutItem", Item=item("n" * 65_536)) == (
        "One or more parameter values were invalid: "
        "Attribute name is too large, must be less than 65536 bytes"
    )


def test_put_errors_come_in_the_order_of_the_service() -> None:
    text = refusal(
        "PutItem",
        TableName="abc;",
        ReturnConsumedCapacity="hi",
        ReturnItemCollectionMetrics="hi",
        ReturnValues="hi",
    )
    assert text == (
        "5 validation errors detected: Value 'hi' at 'returnConsumedCapacity' failed to satisfy constraint: "
        "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]; "
        "Value 'abc;' at 'tableName' failed to satisfy constraint: "
        "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+; "
        "Value null at 'item' failed to satisfy constraint: Member must not be null; "
        "Value 'hi' at 'returnValues' failed to satisfy constraint: "
        "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]; "
        "Value 'hi' at 'returnItemCollectionMetrics' failed to satisfy constraint: "
        "Member must satisfy enum value set: [SIZE, NONE]"
    )
