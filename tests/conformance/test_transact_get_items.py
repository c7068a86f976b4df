"""TransactGetItems over the wire: shape, errors that refuse the request or cancel it, and its snapshot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CAPACITY_ENUM,
    NOT_NULL,
    SERVICE_ERROR,
    Raw,
    cases,
    constraint,
    split_constraints,
)

MISMATCH = "The provided key element does not match the schema"


def get(table: str, key: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Get": {"TableName": table, "Key": key} | more}


def key(value: str) -> dict[str, Any]:
    return {"pk": {"S": value}}


# Shape


@pytest.mark.parametrize(
    ("body", "entries"),
    cases(
        {
            "nothing at all": (
                {"ReturnConsumedCapacity": "hi"},
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("null", "transactItems", NOT_NULL),
                },
            ),
            "no gets": (
                {"TransactItems": []},
                {constraint("'[]'", "transactItems", "Member must have length greater than or equal to 1")},
            ),
            "an action without a get": (
                {"TransactItems": [{}]},
                {constraint("null", "transactItems.1.member.get", NOT_NULL)},
            ),
            "an empty get": (
                {"TransactItems": [get("abc", key("a")), {"Get": {}}]},
                {
                    constraint("null", "transactItems.2.member.get.key", NOT_NULL),
                    constraint("null", "transactItems.2.member.get.tableName", NOT_NULL),
                },
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("TransactGetItems", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


def test_more_than_100_gets_are_refused(raw: Raw) -> None:
    body = {"TransactItems": [get("abc", key(str(n))) for n in range(101)]}
    code, text = raw.refusal("TransactGetItems", body)
    assert code == "ValidationException"
    assert str(text).startswith("1 validation error detected: Value '[")
    ending = "]' at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100"  # noqa: E501
    assert str(text).endswith(ending)


# Validation


@all_cases(
    ("more", "text"),
    cases(
        {
            "a syntax error": (
                {"ProjectionExpression": "!!!"},
                'Invalid ProjectionExpression: Syntax error; token: "!", near: "!!"',
            ),
            "an empty projection": (
                {"ProjectionExpression": ""},
                "Invalid ProjectionExpression: The expression can not be empty;",
            ),
            "a name not defined": (
                {"ProjectionExpression": "#a"},
                "Invalid ProjectionExpression: An expression attribute name used in the document path is not "
                "defined; attribute name: #a",
            ),
            "a name not used": (
                {"ProjectionExpression": "a", "ExpressionAttributeNames": {"#b": "b"}},
                "Value provided in ExpressionAttributeNames unused in expressions: keys: {#b}",
            ),
            "names without a projection": (
                {"ExpressionAttributeNames": {"#b": "b"}},
                "ExpressionAttributeNames can only be specified when using expressions",
            ),
            "an empty key value": (
                {"Key": key("")},
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
                "contain an empty string value. Key: pk",
            ),
        }
    ),
)
def test_invalid_request_is_refused_without_reasons(
    raw: Raw, shared_hash_table: str, more: dict[str, Any], text: str
) -> None:
    body = {"TransactItems": [{"Get": {"TableName": shared_hash_table, "Key": key("a")} | more}]}
    assert raw.refusal("TransactGetItems", body) == ("ValidationException", text)


def test_the_same_item_twice_is_refused(raw: Raw, shared_hash_table: str) -> None:
    body = {"TransactItems": [get(shared_hash_table, key("a")), get(shared_hash_table, key("a"))]}
    text = "Transaction request cannot include multiple operations on one item"
    assert raw.refusal("TransactGetItems", body) == ("ValidationException", text)


def test_reports_a_missing_table(raw: Raw, shared_hash_table: str) -> None:
    body = {"TransactItems": [get(shared_hash_table, key("a")), get("no_such_table", key("a"))]}
    assert raw.refusal("TransactGetItems", body) == (
        "ResourceNotFoundException",
        "Requested resource not found",
    )


@pytest.mark.parametrize("bad", [{}, {"pk": {"N": "1"}}, {"pk": {"S": "a"}, "x": {"S": "b"}}])
def test_a_key_that_does_not_fit_the_table_cancels_with_its_reason(
    raw: Raw, shared_hash_table: str, bad: dict[str, Any]
) -> None:
    body = {"TransactItems": [get(shared_hash_table, key("a")), get(shared_hash_table, bad)]}
    status, answer = raw.call("TransactGetItems", body)
    assert (status, answer["__type"]) == (400, SERVICE_ERROR + "TransactionCanceledException")
    assert answer["CancellationReasons"] == [
        {"Code": "None"},
        {"Code": "ValidationError", "Message": MISMATCH},
    ]
    text = "Transaction cancelled, please refer cancellation reasons for specific reasons [None, ValidationError]"  # noqa: E501
    assert answer.get("Message", answer.get("message")) == text


# Behaviour


def test_items_come_back_in_the_order_of_the_request(raw: Raw, hash_table: str, range_table: str) -> None:
    raw.put(hash_table, key("a") | {"v": {"N": "1"}})
    raw.put(hash_table, key("b") | {"v": {"N": "2"}})
    row = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    raw.put(range_table, row)
    gets = [
        get(hash_table, key("b")),
        get(range_table, row),
        get(hash_table, key("absent")),
        get(hash_table, key("a")),
    ]
    assert raw.answer("TransactGetItems", {"TransactItems": gets}) == {
        "Responses": [
            {"Item": key("b") | {"v": {"N": "2"}}},
            {"Item": row},
            {},
            {"Item": key("a") | {"v": {"N": "1"}}},
        ]
    }


def test_each_get_has_its_own_projection(raw: Raw, hash_table: str) -> None:
    for name in ("a", "b"):
        raw.put(hash_table, key(name) | {"v": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}}, "w": {"N": "3"}})
    gets = [
        get(hash_table, key("a"), ProjectionExpression="#v.x", ExpressionAttributeNames={"#v": "v"}),
        get(hash_table, key("b"), ProjectionExpression="w, gone"),
    ]
    assert raw.answer("TransactGetItems", {"TransactItems": gets})["Responses"] == [
        {"Item": {"v": {"M": {"x": {"N": "1"}}}}},
        {"Item": {"w": {"N": "3"}}},
    ]


# DynamoDB Local still has the old limit of 10.
def test_100_gets_are_answered(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, key("99"))
    gets = [get(hash_table, key(str(n))) for n in range(100)]
    answer = raw.answer("TransactGetItems", {"TransactItems": gets})
    assert answer["Responses"] == [{}] * 99 + [{"Item": key("99")}]


def test_transaction_is_visible_entirely_or_not_at_all(raw: Raw, hash_table: str) -> None:
    def write(n: int) -> None:
        items = [key(name) | {"n": {"N": str(n)}} for name in ("a", "b")]
        body = {"TransactItems": [{"Put": {"TableName": hash_table, "Item": item}} for item in items]}
        status, answer = raw.call("TransactWriteItems", body)
        assert status == 200 or answer["__type"].endswith("TransactionCanceledException"), answer

    def read(_: int) -> bool:
        body = {"TransactItems": [get(hash_table, key("a")), get(hash_table, key("b"))]}
        status, answer = raw.call("TransactGetItems", body)
        return status != 200 or answer["Responses"][0].get("Item", {}).get("n") == answer["Responses"][1].get(
            "Item", {}
        ).get("n")

    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write, n) for n in range(20)]
        assert all(pool.map(read, range(20)))
        for done in writes:
            done.result()
