"""BatchGetItem over the wire: its shape, its refusals in order, its items and its unprocessed keys."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CAPACITY_ENUM,
    NOT_NULL,
    Raw,
    cases,
    constraint,
    split_constraints,
)

MISMATCH = "The provided key element does not match the schema"
DUPLICATES = "Provided list of item keys contains duplicates"
MAX_RESPONSE_BYTES = 16 * 1024 * 1024

# Shape


@pytest.mark.parametrize(
    ("body", "entries"),
    cases(
        {
            "nothing at all": ({}, {constraint("null", "requestItems", NOT_NULL)}),
            "no keys": (
                {"RequestItems": {"abc": {}}, "ReturnConsumedCapacity": "hi"},
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("null", "requestItems.abc.member.keys", NOT_NULL),
                },
            ),
            "an empty list of keys, and more": (
                {"RequestItems": {"abc": {"Keys": []}}, "ReturnConsumedCapacity": "hi"},
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint(
                        "'[]'",
                        "requestItems.abc.member.keys",
                        "Member must have length greater than or equal to 1",
                    ),
                },
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("BatchGetItem", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


def test_empty_key_list_is_reported_without_the_list(raw: Raw) -> None:
    text = (
        "1 validation error detected: Value at 'RequestItems.abc.member.Keys' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1"
    )
    assert raw.refusal("BatchGetItem", {"RequestItems": {"abc": {"Keys": []}}}) == (
        "ValidationException",
        text,
    )


def test_rejects_a_request_without_tables(raw: Raw) -> None:
    text = (
        "1 validation error detected: Value at 'RequestItems' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1"
    )
    assert raw.refusal("BatchGetItem", {"RequestItems": {}}) == ("ValidationException", text)


def test_invalid_table_name_is_reported_with_the_whole_request(raw: Raw) -> None:
    body = {"RequestItems": {"bad!": {"Keys": [{"pk": {"S": "a"}}]}}, "ReturnConsumedCapacity": "SOME"}
    text = (
        '2 validation errors detected: Value \'{"bad!":{"Keys":[{"pk":{"S":"a"}}]}}\' at \'requestItems\' failed '  # noqa: E501
        "to satisfy constraint: Map keys must satisfy constraint: [Member must have length less than or "
        "equal to 255, Member must have length greater than or equal to 3, Member must satisfy regular "
        "expression pattern: [a-zA-Z0-9_.-]+]; Value 'SOME' at 'returnConsumedCapacity' failed to satisfy "
        "constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
    )
    assert raw.refusal("BatchGetItem", body) == ("ValidationException", text)


def keys(count: int, prefix: str = "k") -> list[dict[str, Any]]:
    """Return `count` different keys."""
    return [{"pk": {"S": f"{prefix}{n}"}} for n in range(count)]


def test_more_than_100_keys_of_one_table_are_refused(raw: Raw) -> None:
    code, text = raw.refusal("BatchGetItem", {"RequestItems": {"abc": {"Keys": keys(101)}}})
    assert code == "ValidationException"
    ending = r" at 'requestItems\.abc\.member\.keys' failed to satisfy constraint: "
    ending += r"Member must have length less than or equal to 100$"
    assert re.match("1 validation error detected: Value", str(text))
    assert re.search(ending, str(text), re.IGNORECASE)


# Validation, before the tables are looked up


@all_cases(
    ("request_items", "text"),
    cases(
        {
            "more than 100 keys in all": (
                {"abc": {"Keys": keys(51)}, "abd": {"Keys": keys(50)}},
                "Too many items requested for the BatchGetItem call",
            ),
            "expression and non-expression parameters": (
                {"abc": {"Keys": [{}], "AttributesToGet": ["a"], "ProjectionExpression": ""}},
                "Can not use both expression and non-expression parameters in the same request: "
                "Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}",
            ),
            "names without a projection": (
                {"abc": {"Keys": [{}], "ExpressionAttributeNames": {}}},
                "ExpressionAttributeNames can only be specified when using expressions",
            ),
            "an empty projection": (
                {"abc": {"Keys": [{}], "ProjectionExpression": ""}},
                "Invalid ProjectionExpression: The expression can not be empty;",
            ),
            "a path twice": (
                {"abc": {"Keys": [{}], "ProjectionExpression": "a, a"}},
                "Invalid ProjectionExpression: Two document paths overlap with each other; "
                "must remove or rewrite one of these paths; path one: [a], path two: [a]",
            ),
            "a key value without a type": (
                {"abc": {"Keys": [{"pk": {}}]}},
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "a key that is no number": (
                {"abc": {"Keys": [{"pk": {"N": "x"}}]}},
                "The parameter cannot be converted to a numeric value: x",
            ),
        }
    ),
)
def test_rejects_an_invalid_request_before_looking_up_tables(
    raw: Raw, request_items: dict[str, Any], text: str
) -> None:
    assert raw.refusal("BatchGetItem", {"RequestItems": request_items}) == ("ValidationException", text)


# Validation against the tables


@pytest.mark.parametrize(
    ("requested", "text"),
    cases(
        {
            "an empty key": ([{}], MISMATCH),
            "another attribute": ([{"x": {"S": "a"}}], MISMATCH),
            "a number for a string": ([{"pk": {"N": "1"}}], MISMATCH),
            "the same key twice": ([{"pk": {"S": "a"}}, {"pk": {"S": "a"}}], DUPLICATES),
            "an empty key value": (
                [{"pk": {"S": ""}}],
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
                "contain an empty string value. Key: pk",
            ),
        }
    ),
)
def test_keys_that_do_not_fit_the_table_are_refused(
    raw: Raw, shared_hash_table: str, requested: list[dict[str, Any]], text: str
) -> None:
    body = {"RequestItems": {shared_hash_table: {"Keys": requested}}}
    assert raw.refusal("BatchGetItem", body) == ("ValidationException", text)


def test_numbers_that_are_equal_are_the_same_key(raw: Raw, number_table: str) -> None:
    requested = [{"pk": {"S": "a"}, "sk": {"N": n}} for n in ("1", "1.0")]
    body = {"RequestItems": {number_table: {"Keys": requested}}}
    assert raw.refusal("BatchGetItem", body) == ("ValidationException", DUPLICATES)


def test_one_missing_table_fails_the_whole_request(raw: Raw, shared_hash_table: str) -> None:
    body = {"RequestItems": {shared_hash_table: {"Keys": keys(1)}, "no_such_table": {"Keys": keys(1)}}}
    assert raw.refusal("BatchGetItem", body) == ("ResourceNotFoundException", "Requested resource not found")


# Behaviour


def sort_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort items: the order of a batch's response is not promised."""
    return sorted(items, key=json.dumps)


def test_items_of_several_tables_come_back_under_their_tables(
    raw: Raw, hash_table: str, range_table: str
) -> None:
    raw.put(hash_table, {"pk": {"S": "k0"}, "v": {"N": "1"}})
    raw.put(hash_table, {"pk": {"S": "k1"}, "v": {"N": "2"}})
    raw.put(range_table, {"pk": {"S": "k0"}, "sk": {"S": "b"}})
    answer = raw.answer(
        "BatchGetItem",
        {
            "RequestItems": {
                hash_table: {"Keys": keys(2), "ConsistentRead": True},
                range_table: {"Keys": [{"pk": {"S": "k0"}, "sk": {"S": "b"}}], "ConsistentRead": True},
            }
        },
    )
    assert answer["UnprocessedKeys"] == {}
    assert sort_items(answer["Responses"][hash_table]) == [
        {"pk": {"S": "k0"}, "v": {"N": "1"}},
        {"pk": {"S": "k1"}, "v": {"N": "2"}},
    ]
    assert answer["Responses"][range_table] == [{"pk": {"S": "k0"}, "sk": {"S": "b"}}]


def test_absent_items_leave_an_empty_list_for_their_table(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, {"pk": {"S": "k0"}})
    body = {"RequestItems": {hash_table: {"Keys": keys(3), "ConsistentRead": True}}}
    assert raw.answer("BatchGetItem", body) == {
        "Responses": {hash_table: [{"pk": {"S": "k0"}}]},
        "UnprocessedKeys": {},
    }
    body = {"RequestItems": {hash_table: {"Keys": keys(1, "absent"), "ConsistentRead": True}}}
    assert raw.answer("BatchGetItem", body) == {"Responses": {hash_table: []}, "UnprocessedKeys": {}}


def test_each_table_has_its_own_projection(raw: Raw, hash_table: str, range_table: str) -> None:
    raw.put(hash_table, {"pk": {"S": "k0"}, "v": {"N": "1"}, "w": {"N": "2"}})
    raw.put(
        range_table, {"pk": {"S": "k0"}, "sk": {"S": "b"}, "v": {"M": {"x": {"S": "in"}, "y": {"S": "out"}}}}
    )
    answer = raw.answer(
        "BatchGetItem",
        {
            "RequestItems": {
                hash_table: {"Keys": keys(1), "ProjectionExpression": "v", "ConsistentRead": True},
                range_table: {
                    "Keys": [{"pk": {"S": "k0"}, "sk": {"S": "b"}}],
                    "ProjectionExpression": "#v.x",
                    "ExpressionAttributeNames": {"#v": "v"},
                    "ConsistentRead": True,
                },
            }
        },
    )
    assert answer["Responses"] == {
        hash_table: [{"v": {"N": "1"}}],
        range_table: [{"v": {"M": {"x": {"S": "in"}}}}],
    }


def test_a_batch_of_100_keys_is_answered(raw: Raw, hash_table: str) -> None:
    for start in range(0, 100, 25):
        puts = [{"PutRequest": {"Item": key}} for key in keys(100)[start : start + 25]]
        raw.answer("BatchWriteItem", {"RequestItems": {hash_table: puts}})
    body = {"RequestItems": {hash_table: {"Keys": keys(100), "ConsistentRead": True}}}
    assert sort_items(raw.answer("BatchGetItem", body)["Responses"][hash_table]) == sort_items(keys(100))


# dynalite and DynamoDB Local stop after 1 MB, as AWS once did.
def test_keys_beyond_16_mb_are_left_unprocessed(raw: Raw, hash_table: str) -> None:
    wanted = keys(44)
    for key in wanted:
        raw.put(hash_table, key | {"big": {"S": "b" * 390_000}})
    left: dict[str, Any] = {
        hash_table: {
            "Keys": wanted,
            "ConsistentRead": True,
            "ProjectionExpression": "pk, #b",
            "ExpressionAttributeNames": {"#b": "big"},
        }
    }
    pages = []
    while left:
        answer = raw.answer("BatchGetItem", {"RequestItems": left})
        pages.append(answer["Responses"][hash_table])
        for rest in answer["UnprocessedKeys"].values():
            assert {name: value for name, value in rest.items() if name != "Keys"} == {
                name: value for name, value in left[hash_table].items() if name != "Keys"
            }
        left = answer["UnprocessedKeys"]
    assert len(pages) > 1
    assert all(pages) and all(len(page) * 390_000 <= MAX_RESPONSE_BYTES for page in pages)
    assert sort_items([{"pk": item["pk"]} for page in pages for item in page]) == sort_items(wanted)
