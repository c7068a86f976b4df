"""TransactWriteItems and TransactGetItems requests: decoded or refused, limits, and fingerprints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_ITEM_BYTES
from holdfast.operations.expressions.nodes import AttributeExists, Literal, Path, SetAction, Update
from holdfast.operations.tables import (
    ConditionCheck,
    DeleteItem,
    PutItem,
    TransactGet,
    TransactGetItems,
    UpdateItem,
)
from holdfast.wire.dispatch import decode

KEY = {"a": {"S": "b"}}
PUT = {"Put": {"TableName": "abc", "Item": KEY}}


def decode_request(operation: str, items: Any, **request: Any) -> Any:
    """Decode a request of this operation and return the operation value."""
    body = json.dumps({"TransactItems": items, **request}).encode()
    return decode(f"DynamoDB_20120810.{operation}", body)[1]


def refusal(operation: str, items: Any, **request: Any) -> str:
    """Decode an invalid request and return the message of its `InvalidRequest`."""
    with pytest.raises(InvalidRequest) as refused:
        decode_request(operation, items, **request)
    return refused.value.message


def test_decodes_each_kind_of_action() -> None:
    items = [
        {"Put": {"TableName": "abc", "Item": KEY, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}},
        {"Delete": {"TableName": "abc", "Key": KEY, "ConditionExpression": "attribute_exists(a)"}},
        {
            "Update": {
                "TableName": "abc",
                "Key": KEY,
                "UpdateExpression": "SET b = :b",
                "ExpressionAttributeValues": {":b": {"N": "1"}},
            }
        },
        {"ConditionCheck": {"TableName": "abc", "Key": KEY, "ConditionExpression": "attribute_exists(a)"}},
    ]
    exists = AttributeExists(Path("a"))
    assert decode_request("TransactWriteItems", items).actions == (
        PutItem(table="abc", item={"a": "b"}, returns_on_failure="ALL_OLD"),
        DeleteItem(table="abc", key={"a": "b"}, condition=exists),
        UpdateItem(table="abc", key={"a": "b"}, update=Update(sets=(SetAction(Path("b"), Literal(1)),))),
        ConditionCheck(table="abc", key={"a": "b"}, condition=exists),
    )


def test_decodes_the_reads_of_a_transaction() -> None:
    items = [{"Get": {"TableName": "abc", "Key": KEY, "ProjectionExpression": "x"}}]
    assert decode_request("TransactGetItems", items) == TransactGetItems(
        gets=(TransactGet("abc", {"a": "b"}, projection=(Path("x"),)),)
    )


def test_errors_name_the_action() -> None:
    bad = {"Put": {"TableName": "bad!name", "Item": KEY}}
    assert refusal("TransactWriteItems", [PUT, bad]) == (
        "1 validation error detected: Value 'bad!name' at 'transactItems.2.member.put.tableName' failed to "
        "satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    )
    assert "Value null at 'transactItems.1.member.conditionCheck.conditionExpression'" in refusal(
        "TransactWriteItems", [{"ConditionCheck": {"TableName": "abc", "Key": KEY}}]
    )
    assert "Value null at 'transactItems.1.member.get'" in refusal("TransactGetItems", [{}])


def test_a_token_has_1_to_36_characters() -> None:
    assert decode_request("TransactWriteItems", [PUT], ClientRequestToken="x" * 36).token == "x" * 36
    for token in ("", "x" * 37):
        assert "at 'clientRequestToken' failed" in refusal(
            "TransactWriteItems", [PUT], ClientRequestToken=token
        )


def test_the_expressions_of_every_action_are_checked_while_decoding() -> None:
    unused = {
        "ConditionCheck": {
            "TableName": "abc",
            "Key": KEY,
            "ConditionExpression": "attribute_exists(a)",
            "ExpressionAttributeValues": {":v": {"S": "x"}},
        }
    }
    assert refusal("TransactWriteItems", [PUT, unused]) == (
        "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}"
    )
    empty = {"Put": {"TableName": "abc", "Item": KEY, "ConditionExpression": ""}}
    assert refusal("TransactWriteItems", [empty]) == (
        "Invalid ConditionExpression: The expression can not be empty;"
    )


def test_an_item_that_is_too_big_and_a_transaction_that_is_too_big_are_refused() -> None:
    def put(size: int) -> dict[str, Any]:
        return {"Put": {"TableName": "abc", "Item": {"a": {"S": "x" * size}}}}

    assert refusal("TransactWriteItems", [put(MAX_ITEM_BYTES)]) == (
        "Item size has exceeded the maximum allowed size"
    )
    decode_request("TransactWriteItems", [put(350_000)] * 11)
    assert "4 MB" in refusal("TransactWriteItems", [put(350_000)] * 12)


def fingerprint(items: Any, **request: Any) -> bytes:
    """Decode a TransactWriteItems request and return its fingerprint."""
    found = decode_request("TransactWriteItems", items, **request).fingerprint
    assert isinstance(found, bytes)
    return found


def test_equal_requests_have_equal_fingerprints_however_they_are_written() -> None:
    """Write numbers, sets and members in another order or form, under another token: the fingerprint is the
    same.
    """
    one = [{"Put": {"TableName": "abc", "Item": {"n": {"N": "1.0"}, "s": {"SS": ["a", "b"]}}}}]
    two = [{"Put": {"Item": {"s": {"SS": ["b", "a"]}, "n": {"N": "1"}}, "TableName": "abc"}}]
    assert fingerprint(one, ClientRequestToken="x") == fingerprint(two, ClientRequestToken="y")


def test_different_requests_have_different_fingerprints() -> None:
    def put(value: Any) -> list[Any]:
        return [{"Put": {"TableName": "abc", "Item": {"a": value}}}]

    different = [put({"S": "1"}), put({"N": "1"}), put({"BOOL": True}), put({"SS": ["1"]}), put({"L": []})]
    found = {fingerprint(items, ClientRequestToken="x") for items in different}
    assert len(found) == len(different)


def test_request_without_a_token_has_no_fingerprint() -> None:
    assert fingerprint([PUT]) == b""
