"""`decode` and `encode_error`: malformed JSON, unknown operations, and the body of every kind of error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core import errors
from holdfast.operations.tables import GetItem
from holdfast.wire.dispatch import decode, encode_error
from holdfast.wire.operations import CODECS
from tests.cases import all_cases

GET_ITEM = "DynamoDB_20120810.GetItem"
GOOD = b'{"TableName": "abc", "Key": {"a": {"S": "b"}}}'


def encode_json(error: BaseException) -> tuple[int, Any]:
    """Return the status and the parsed body of an encoded error."""
    status, body = encode_error(error)
    return status, json.loads(body)


def test_a_request_becomes_an_operation() -> None:
    codec, operation = decode(GET_ITEM, GOOD)
    assert codec is CODECS[GET_ITEM]
    assert operation == GetItem(table="abc", key={"a": "b"})


@all_cases(
    "body",
    [
        b"",
        b"hello",
        b"[]",
        b'"a"',
        b"null",
        b"NaN",
        b'{"TableName": NaN}',
        b'{"TableName": 1e999}',
        b'{"Limit": ' + b"9" * 5000 + b"}",
        b'{"TableName": "\xff"}',
        b'{"TableName": "\\ud800"}',
        b'{"TableName": "\\udc00"}',
        b'{"TableName": "\\ud800\\u0041"}',
        b'{"\\ud800x": 1}',
        b"\xef\xbb\xbf{}",
        GOOD + b" x",
        GOOD[:-1],
        b'{"TableName": "abc", "Key": ' + b'{"a":' * 100_000,
        b'{"Key": ' + b'{"M":{"a":' * 100_000 + b"1" + b"}}" * 100_000 + b"}",
        b"[" * 100_000,
    ],
)
def test_rejects_what_is_not_a_json_object_without_a_message(body: bytes) -> None:
    with pytest.raises(errors.MalformedRequest) as refused:
        decode(GET_ITEM, body)
    assert encode_json(refused.value) == (400, {"__type": "com.amazon.coral.service#SerializationException"})


def test_last_of_duplicate_members_wins() -> None:
    _, operation = decode(GET_ITEM, b'{"TableName": "abc", "TableName": "abd", "Key": {"a": {"S": "b"}}}')
    assert operation == GetItem(table="abd", key={"a": "b"})


@pytest.mark.parametrize(
    "target",
    [
        "",
        "GetItem",
        "DynamoDB_20120810.Nothing",
        "DynamoDB_20111205.GetItem",
        "DynamoDBStreams_20120810.GetItem",
    ],
)
def test_unsupported_operation_is_unknown(target: str) -> None:
    with pytest.raises(errors.UnknownOperation) as refused:
        decode(target, GOOD)
    assert encode_json(refused.value) == (
        400,
        {"__type": "com.amazon.coral.service#UnknownOperationException"},
    )


def test_wrong_type_is_reported_under_the_capital_message_member() -> None:
    with pytest.raises(errors.MalformedRequest) as refused:
        decode(GET_ITEM, b'{"TableName": 1}')
    assert encode_json(refused.value) == (
        400,
        {
            "__type": "com.amazon.coral.service#SerializationException",
            "Message": "NUMBER_VALUE cannot be converted to String",
        },
    )


@all_cases(
    ("error", "status", "body"),
    [
        (
            errors.InvalidRequest("No"),
            400,
            {"__type": "com.amazon.coral.validate#ValidationException", "message": "No"},
        ),
        (
            errors.NotFound("Requested resource not found"),
            400,
            {
                "__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
                "message": "Requested resource not found",
            },
        ),
        (
            errors.AccessRefused("UnrecognizedClientException", "No"),
            400,
            {"__type": "com.amazon.coral.service#UnrecognizedClientException", "message": "No"},
        ),
        (
            errors.ConditionFailed(),
            400,
            {
                "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
                "message": "The conditional request failed",
            },
        ),
        (
            errors.ConditionFailed(item={"a": 1}),
            400,
            {
                "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
                "message": "The conditional request failed",
                "Item": {"a": {"N": "1"}},
            },
        ),
        (
            errors.IdempotencyMismatch("No"),
            400,
            {
                "__type": "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException",
                "Message": "No",
            },
        ),
        (
            errors.StoreBusy("Later"),
            503,
            {"__type": "com.amazonaws.dynamodb.v20120810#ServiceUnavailable", "message": "Later"},
        ),
    ],
)
def test_each_failure_has_the_services_envelope(
    error: errors.HoldfastError, status: int, body: dict[str, Any]
) -> None:
    assert encode_json(error) == (status, body)


def test_cancelled_transaction_has_a_reason_per_action() -> None:
    failed = errors.CancellationReason("ConditionalCheckFailed", "The conditional request failed", {"a": "b"})
    assert encode_json(errors.TransactionCancelled([errors.CancellationReason(), failed])) == (
        400,
        {
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons"
            " [None, ConditionalCheckFailed]",
            "CancellationReasons": [
                {"Code": "None"},
                {
                    "Code": "ConditionalCheckFailed",
                    "Message": "The conditional request failed",
                    "Item": {"a": {"S": "b"}},
                },
            ],
        },
    )


@pytest.mark.parametrize(
    "error", [errors.InternalError("secret"), ValueError("secret"), errors.StoreFileError("secret")]
)
def test_internal_error_reveals_no_details(error: Exception) -> None:
    status, body = encode_error(error)
    assert status == 500
    assert json.loads(body)["__type"] == "com.amazonaws.dynamodb.v20120810#InternalServerError"
    assert b"secret" not in body
