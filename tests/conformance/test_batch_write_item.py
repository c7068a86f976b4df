"""BatchWriteItem over the wire: its shape, its refusals in order (all or nothing), and its writes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import MakeTable
from .protocol import (
    CAPACITY_ENUM,
    METRICS_ENUM,
    NOT_NULL,
    Raw,
    cases,
    constraint,
    split_constraints,
)

INVALID = "One or more parameter values were invalid: "
NOT_VALID = "One or more parameter values are not valid. "
MISMATCH = "The provided key element does not match the schema"
DUPLICATES = "Provided list of item keys contains duplicates"


def put(item: dict[str, Any]) -> dict[str, Any]:
    return {"PutRequest": {"Item": item}}


def delete(key: dict[str, Any]) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": key}}


def keys(count: int) -> list[dict[str, Any]]:
    """Return `count` different keys."""
    return [{"pk": {"S": f"k{n}"}} for n in range(count)]


# Shape


@pytest.mark.parametrize(
    ("body", "entries"),
    cases(
        {
            "nothing at all": ({}, {constraint("null", "requestItems", NOT_NULL)}),
            "bad enums": (
                {"ReturnConsumedCapacity": "hi", "ReturnItemCollectionMetrics": "hi"},
                {
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'hi'", "returnItemCollectionMetrics", METRICS_ENUM),
                    constraint("null", "requestItems", NOT_NULL),
                },
            ),
            "a put without an item": (
                {"RequestItems": {"abc": [{"PutRequest": {}}]}},
                {constraint("null", "requestItems.abc.member.1.member.putRequest.item", NOT_NULL)},
            ),
            "a delete without a key": (
                {"RequestItems": {"abc": [{"DeleteRequest": {}}]}},
                {constraint("null", "requestItems.abc.member.1.member.deleteRequest.key", NOT_NULL)},
            ),
        }
    ),
)
def test_constraints_of_members_are_reported_together(
    raw: Raw, body: dict[str, Any], entries: set[str]
) -> None:
    code, text = raw.refusal("BatchWriteItem", body)
    assert code == "ValidationException"
    assert split_constraints(text) == entries


def test_rejects_a_request_without_tables(raw: Raw) -> None:
    code, text = raw.refusal("BatchWriteItem", {"RequestItems": {}})
    assert code == "ValidationException"
    assert text in (
        "The requestItems parameter is required for BatchWriteItem",
        "1 validation error detected: Value '{}' at 'requestItems' failed to satisfy constraint: "
        "Member must have length greater than or equal to 1",
    )


# dynalite prints the value as JSON; AWS prints it as Java does.
@pytest.mark.parametrize("count", [0, 26])
def test_rejects_0_or_more_than_25_requests_of_one_table(raw: Raw, count: int) -> None:
    code, text = raw.refusal("BatchWriteItem", {"RequestItems": {"abc": [put(key) for key in keys(count)]}})
    assert code == "ValidationException"
    ending = (
        "' at 'requestItems' failed to satisfy constraint: Map value must satisfy constraint: [Member must "
        "have length less than or equal to 25, Member must have length greater than or equal to 1]"
    )
    assert re.match(r"1 validation error detected: Value '\{abc=\[", str(text))
    assert str(text).endswith(ending)


def test_more_than_25_requests_in_all_are_refused(raw: Raw) -> None:
    requests = [put(key) for key in keys(13)]
    code, text = raw.refusal("BatchWriteItem", {"RequestItems": {"abc": requests, "abd": requests}})
    assert (code, text) == ("ValidationException", "Too many items requested for the BatchWriteItem call")


# Validation, before the tables are looked up


@pytest.mark.parametrize(
    ("entry", "text"),
    cases(
        {
            "neither put nor delete": (
                {},
                "Supplied AttributeValue has more than one datatypes set, "
                "must contain exactly one of the supported datatypes",
            ),
            "a value without a type": (
                put({"pk": {}}),
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "an empty set": (put({"pk": {"NS": []}}), INVALID + "An number set  may not be empty"),
            "a key that is no number": (
                delete({"pk": {"N": "x"}}),
                "The parameter cannot be converted to a numeric value: x",
            ),
            "an item too large": (
                put({"pk": {"S": "a"}, "big": {"S": "b" * 409_600}}),
                "Item size has exceeded the maximum allowed size",
            ),
        }
    ),
)
def test_rejects_an_invalid_request_before_looking_up_tables(
    raw: Raw, entry: dict[str, Any], text: str
) -> None:
    assert raw.refusal("BatchWriteItem", {"RequestItems": {"abc": [entry]}}) == ("ValidationException", text)


# Validation against the tables: any error prevents the whole batch


@all_cases(
    ("requests", "text"),
    cases(
        {
            "an item without its key": ([put({"x": {"S": "a"}})], MISMATCH),
            "a put of a wrong key type": ([put({"pk": {"N": "1"}})], MISMATCH),
            "a put of a key that is a list": ([put({"pk": {"L": []}})], MISMATCH),
            "a delete of an empty key": ([delete({})], MISMATCH),
            "a delete with an attribute too many": ([delete({"pk": {"S": "a"}, "x": {"S": "a"}})], MISMATCH),
            "a delete of a wrong key type": ([delete({"pk": {"N": "1"}})], MISMATCH),
            "an empty key value": (
                [put({"pk": {"S": ""}})],
                NOT_VALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: pk",
            ),
            "a key too long": (
                [put({"pk": {"S": "a" * 2049}})],
                INVALID + "Size of hashkey has exceeded the maximum size limit of2048 bytes",
            ),
            "two puts of one key": (
                [put({"pk": {"S": "a"}}), put({"pk": {"S": "a"}, "v": {"N": "1"}})],
                DUPLICATES,
            ),
            "a put and a delete of one key": (
                [put({"pk": {"S": "a"}}), delete({"pk": {"S": "a"}})],
                DUPLICATES,
            ),
            "two deletes of one key": ([delete({"pk": {"S": "a"}}), delete({"pk": {"S": "a"}})], DUPLICATES),
        }
    ),
)
def test_one_invalid_request_refuses_the_whole_batch(
    raw: Raw, shared_hash_table: str, requests: list[dict[str, Any]], text: str
) -> None:
    good = {"pk": {"S": "good"}}
    body = {"RequestItems": {shared_hash_table: [put(good), *requests]}}
    assert raw.refusal("BatchWriteItem", body) == ("ValidationException", text)
    assert raw.item(shared_hash_table, good) is None


@pytest.mark.parametrize(
    ("attributes", "text"),
    cases(
        {
            "a global index key of the wrong type": (
                {"kind": {"N": "1"}},
                INVALID + "Type mismatch for Index Key kind Expected: S Actual: N IndexName: by_kind",
            ),
            "a local index key of the wrong type": (
                {"size": {"S": "1"}},
                INVALID + "Type mismatch for Index Key size Expected: N Actual: S IndexName: by_size",
            ),
            "an empty index key": (
                {"kind": {"S": ""}},
                NOT_VALID
                + "A value specified for a secondary index key is not supported. The AttributeValue for a "
                "key attribute cannot contain an empty string value. IndexName: by_kind, IndexKey: kind",
            ),
        }
    ),
)
def test_an_index_key_that_does_not_fit_refuses_the_whole_batch(
    raw: Raw, shared_index_table: str, attributes: dict[str, Any], text: str
) -> None:
    good = {"pk": {"S": "good"}, "sk": {"S": "b"}}
    bad = {"pk": {"S": "bad"}, "sk": {"S": "b"}} | attributes
    body = {"RequestItems": {shared_index_table: [put(good), put(bad)]}}
    assert raw.refusal("BatchWriteItem", body) == ("ValidationException", text)
    assert raw.item(shared_index_table, good) is None


def test_one_missing_table_fails_the_whole_request(raw: Raw, hash_table: str) -> None:
    good = {"pk": {"S": "good"}}
    body = {"RequestItems": {hash_table: [put(good)], "no_such_table": [put(good)]}}
    assert raw.refusal("BatchWriteItem", body) == (
        "ResourceNotFoundException",
        "Requested resource not found",
    )
    assert raw.item(hash_table, good) is None


# Behaviour


def test_puts_and_deletes_of_several_tables(raw: Raw, hash_table: str, range_table: str) -> None:
    old, new = {"pk": {"S": "old"}}, {"pk": {"S": "new"}, "v": {"N": "1"}}
    row = {"pk": {"S": "new"}, "sk": {"S": "b"}}
    raw.put(hash_table, old)
    answer = raw.answer(
        "BatchWriteItem", {"RequestItems": {hash_table: [put(new), delete(old)], range_table: [put(row)]}}
    )
    assert answer == {"UnprocessedItems": {}}
    assert raw.item(hash_table, old) is None
    assert raw.item(hash_table, {"pk": {"S": "new"}}) == new
    assert raw.item(range_table, row) == row


def test_a_put_replaces_and_a_delete_of_nothing_succeeds(raw: Raw, hash_table: str) -> None:
    raw.put(hash_table, {"pk": {"S": "a"}, "old": {"S": "x"}})
    requests = [put({"pk": {"S": "a"}, "new": {"S": "y"}}), delete({"pk": {"S": "absent"}})]
    assert raw.answer("BatchWriteItem", {"RequestItems": {hash_table: requests}}) == {"UnprocessedItems": {}}
    assert raw.item(hash_table, {"pk": {"S": "a"}}) == {"pk": {"S": "a"}, "new": {"S": "y"}}


def test_same_key_in_two_tables_is_not_a_duplicate(raw: Raw, make_table: MakeTable) -> None:
    one, two = make_table("pk:S"), make_table("pk:S")
    item = {"pk": {"S": "a"}}
    raw.answer("BatchWriteItem", {"RequestItems": {one: [put(item)], two: [put(item)]}})
    assert raw.item(one, item) == raw.item(two, item) == item


def test_a_batch_of_25_large_items_is_written(raw: Raw, hash_table: str) -> None:
    items = [key | {"big": {"S": "b" * 100_000}} for key in keys(25)]
    left: dict[str, Any] = {hash_table: [put(item) for item in items]}
    while left:
        left = raw.answer("BatchWriteItem", {"RequestItems": left})["UnprocessedItems"]
    assert all(raw.item(hash_table, key) is not None for key in keys(25))
