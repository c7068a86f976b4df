"""BatchGetItem and BatchWriteItem requests: decoded into operations, or refused; limits and duplicates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.tables import BatchGetItem, BatchWriteItem, Delete, KeysAndAttributes, Put
from holdfast.wire.dispatch import decode


def decode_request(operation: str, items: Any, **request: Any) -> Any:
    """Decode a request of this operation and return the operation value."""
    body = json.dumps({"RequestItems": items, **request}).encode()
    return decode(f"DynamoDB_20120810.{operation}", body)[1]


def refusal(operation: str, items: Any, **request: Any) -> str:
    """Decode an invalid request and return the message of its `InvalidRequest`."""
    with pytest.raises(InvalidRequest) as refused:
        decode_request(operation, items, **request)
    return refused.value.message


def keys(count: int, start: int = 0) -> list[Any]:
    """Return `count` tagged keys with consecutive numbers."""
    return [{"a": {"N": str(number)}} for number in range(start, start + count)]


def test_decodes_a_batch_of_reads() -> None:
    wanted = {
        "Keys": keys(2),
        "ConsistentRead": True,
        "ProjectionExpression": "#x",
        "ExpressionAttributeNames": {"#x": "y"},
    }
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/abd"
    assert decode_request("BatchGetItem", {"abc": wanted, arn: {"Keys": keys(1)}}) == BatchGetItem(
        requests=(
            KeysAndAttributes(
                "abc",
                ({"a": 0}, {"a": 1}),
                consistent=True,
                projection=(Path("y"),),
                raw_expressions={"ProjectionExpression": "#x", "ExpressionAttributeNames": {"#x": "y"}},
            ),
            KeysAndAttributes("abd", ({"a": 0},)),
        )
    )


def test_decodes_a_batch_of_writes_in_order() -> None:
    items = {
        "abc": [{"DeleteRequest": {"Key": {"a": {"S": "x"}}}}, {"PutRequest": {"Item": {"a": {"S": "y"}}}}],
        "abd": [{"PutRequest": {"Item": {"a": {"S": "z"}}}}],
    }
    assert decode_request("BatchWriteItem", items) == BatchWriteItem(
        writes=(Delete("abc", {"a": "x"}), Put("abc", {"a": "y"}), Put("abd", {"a": "z"}))
    )


def test_reports_an_invalid_key_value() -> None:
    assert refusal("BatchGetItem", {"abc": {"Keys": [{"a": {"NS": ["1", "1"]}}]}}) == (
        "Input collection contains duplicates"
    )


def test_the_parameters_of_each_table_are_checked() -> None:
    assert refusal("BatchGetItem", {"abc": {"Keys": keys(1), "ExpressionAttributeNames": {"#a": "b"}}}) == (
        "ExpressionAttributeNames can only be specified when using expressions"
    )
    assert refusal("BatchGetItem", {"abc": {"Keys": keys(1), "AttributesToGet": ["a"]}}) == (
        "The parameter AttributesToGet is not supported yet: use ProjectionExpression instead"
    )


def test_errors_name_the_position_in_the_batch() -> None:
    text = refusal("BatchWriteItem", {"aa;": [{"PutRequest": {}, "DeleteRequest": {}}]})
    assert text.startswith(
        "3 validation errors detected: Value '{aa;=[WriteRequest(deleteRequest=DeleteRequest(), "
        "putRequest=PutRequest())]}'"
    )
    assert "Value null at 'requestItems.aa;.member.1.member.deleteRequest.key' failed" in text
    assert "Value null at 'requestItems.aa;.member.1.member.putRequest.item' failed" in text
