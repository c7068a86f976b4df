"""Pages of Query and Scan over the wire: one megabyte at a time, limits, and start keys."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import MakeTable, index
from .protocol import Raw, cases

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "
BAD_START = "The provided starting key is invalid"
NO_MATCH = "The provided key element does not match the schema"
OUTSIDE = "The provided starting key is outside query boundaries based on provided conditions"
BIG = "x" * 100_000
BIG_ITEMS = 12
IN_A_MEGABYTE = {10, 11}


def partition(**request: Any) -> Body:
    """Return the Query parameters for the partition `p`."""
    return {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "p"}}} | request


# The limit of one megabyte


@pytest.fixture(scope="module")
def big(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create twelve items of 100 KB in one partition, in a wide index and in a narrow one."""
    name = make_shared_table(
        "pk:S",
        "sk:N",
        gsi=[index("wide", "kind:S"), index("narrow", "kind:S", projection="KEYS_ONLY")],
    )
    for number in range(BIG_ITEMS):
        key = {"pk": {"S": "p"}, "sk": {"N": str(number)}}
        raw.put(name, key | {"kind": {"S": "k"}, "fill": {"S": BIG}})
    return name


def of_kind(name: str) -> Body:
    """Return the Query parameters for the kind `k` in an index."""
    condition = {"KeyConditionExpression": "kind = :k", "ExpressionAttributeValues": {":k": {"S": "k"}}}
    return {"IndexName": name} | condition


READS: dict[str, tuple[str, Body]] = {
    "query": ("Query", partition()),
    "query backward": ("Query", partition(ScanIndexForward=False)),
    "scan": ("Scan", {}),
    "query of an index": ("Query", of_kind("wide")),
    "scan of an index": ("Scan", {"IndexName": "wide"}),
}


@pytest.mark.parametrize(("operation", "body"), cases(READS))
def test_a_page_ends_at_a_megabyte(raw: Raw, big: str, operation: str, body: Body) -> None:
    # AWS still includes the item that crosses the megabyte: a full scan costs 128.5 units a page.
    first = raw.answer(operation, {"TableName": big} | body)
    assert first["Count"] == first["ScannedCount"] == len(first["Items"])
    assert first["Count"] in IN_A_MEGABYTE
    second = raw.answer(operation, {"TableName": big, "ExclusiveStartKey": first["LastEvaluatedKey"]} | body)
    assert "LastEvaluatedKey" not in second
    numbers = [int(item["sk"]["N"]) for item in first["Items"] + second["Items"]]
    assert sorted(numbers) == list(range(BIG_ITEMS))


def test_page_limit_counts_data_read_not_data_returned(raw: Raw, big: str) -> None:
    answer = raw.answer("Query", {"TableName": big} | partition(ProjectionExpression="sk"))
    assert answer["Count"] in IN_A_MEGABYTE
    counted = raw.answer("Query", {"TableName": big} | partition(Select="COUNT"))
    assert counted["Count"] in IN_A_MEGABYTE
    assert "LastEvaluatedKey" in counted


def test_page_without_matches_still_returns_a_last_key(raw: Raw, big: str) -> None:
    values = {":p": {"S": "p"}, ":no": {"S": "no"}}
    body = {"TableName": big} | partition(FilterExpression="fill = :no", ExpressionAttributeValues=values)
    first = raw.answer("Query", body)
    assert (first["Items"], first["Count"]) == ([], 0)
    assert first["ScannedCount"] in IN_A_MEGABYTE
    second = raw.answer("Query", body | {"ExclusiveStartKey": first["LastEvaluatedKey"]})
    assert second["ScannedCount"] == BIG_ITEMS - first["ScannedCount"]
    assert "LastEvaluatedKey" not in second


def test_a_narrow_index_has_many_items_in_a_page(raw: Raw, big: str) -> None:
    answer = raw.answer("Query", {"TableName": big} | of_kind("narrow"))
    assert answer["Count"] == BIG_ITEMS
    assert "LastEvaluatedKey" not in answer


def test_last_key_contains_only_key_attributes(raw: Raw, big: str) -> None:
    on_table = raw.answer("Query", {"TableName": big} | partition())
    assert on_table["LastEvaluatedKey"] == {name: on_table["Items"][-1][name] for name in ("pk", "sk")}
    on_index = raw.answer("Query", {"TableName": big} | of_kind("wide"))
    assert on_index["LastEvaluatedKey"] == {
        name: on_index["Items"][-1][name] for name in ("pk", "sk", "kind")
    }


def test_boto3_pages_to_the_end(dynamodb: Any, big: str) -> None:
    found = [page["Count"] for page in dynamodb.get_paginator("scan").paginate(TableName=big)]
    assert sum(found) == BIG_ITEMS
    assert len(found) == 2


# Limits


@pytest.fixture(scope="module")
def small(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create ten items in the partition `p` and one in `q`."""
    name = make_shared_table("pk:S", "sk:N")
    for number in range(10):
        raw.put(name, {"pk": {"S": "p"}, "sk": {"N": str(number)}, "odd": {"BOOL": number % 2 == 1}})
    raw.put(name, {"pk": {"S": "q"}, "sk": {"N": "0"}})
    return name


def numbers(answer: Body) -> list[int]:
    """Return the numeric sort keys of the items in a response."""
    return [int(item["sk"]["N"]) for item in answer["Items"]]


@pytest.mark.parametrize("limit", [1, 3, 9, 10, 11])
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "backward"])
def test_a_limit_cuts_pages(raw: Raw, small: str, limit: int, forward: bool) -> None:
    body = {"TableName": small, "Limit": limit} | partition(ScanIndexForward=forward)
    found: list[int] = []
    while True:
        answer = raw.answer("Query", body)
        assert answer["Count"] <= limit
        found += numbers(answer)
        if "LastEvaluatedKey" not in answer:
            break
        body["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    assert found == (list(range(10)) if forward else list(range(9, -1, -1)))


def test_page_that_reaches_the_limit_has_a_last_key(raw: Raw, small: str) -> None:
    """The service stops at the limit without checking for more items."""
    first = raw.answer("Query", {"TableName": small, "Limit": 10} | partition())
    assert first["LastEvaluatedKey"] == {"pk": {"S": "p"}, "sk": {"N": "9"}}
    body = {"TableName": small, "ExclusiveStartKey": first["LastEvaluatedKey"]} | partition()
    assert raw.answer("Query", body) == {"Items": [], "Count": 0, "ScannedCount": 0}


def test_page_below_the_limit_has_no_last_key(raw: Raw, small: str) -> None:
    assert "LastEvaluatedKey" not in raw.answer("Query", {"TableName": small, "Limit": 11} | partition())


def test_limit_counts_items_before_the_filter(raw: Raw, small: str) -> None:
    values = {":p": {"S": "p"}, ":yes": {"BOOL": True}}
    body = partition(FilterExpression="odd = :yes", ExpressionAttributeValues=values, Limit=3)
    answer = raw.answer("Query", {"TableName": small} | body)
    assert (numbers(answer), answer["ScannedCount"]) == ([1], 3)
    assert answer["LastEvaluatedKey"]["sk"] == {"N": "2"}


def test_a_start_key_need_not_be_an_item(raw: Raw, small: str) -> None:
    body = {"TableName": small, "ExclusiveStartKey": {"pk": {"S": "p"}, "sk": {"N": "6.5"}}} | partition()
    assert numbers(raw.answer("Query", body)) == [7, 8, 9]
    assert numbers(raw.answer("Query", body | {"ScanIndexForward": False})) == [6, 5, 4, 3, 2, 1, 0]


# Invalid start keys


@pytest.fixture(scope="module")
def empty(make_shared_table: MakeTable) -> str:
    """Create an empty table with a local and a global index."""
    return make_shared_table(
        "pk:S", "sk:S", lsi=[index("local", "pk:S", "weight:N")], gsi=[index("global", "kind:S", "at:S")]
    )


def start(**attributes: str | Body) -> Body:
    """Return a start key; a plain string becomes an S value."""
    return {name: {"S": value} if isinstance(value, str) else value for name, value in attributes.items()}


LOCAL = partition(IndexName="local")
GLOBAL = partition(IndexName="global", KeyConditionExpression="kind = :p")
RANGE = partition(
    KeyConditionExpression="pk = :p AND sk > :s",
    ExpressionAttributeValues={":p": {"S": "p"}, ":s": {"S": "m"}},
)


@pytest.mark.parametrize(
    ("body", "key", "text"),
    cases(
        {
            "nothing": (partition(), {}, BAD_START),
            "half a key": (partition(), start(pk="p"), BAD_START),
            "more than a key": (partition(), start(pk="p", sk="s", more="m"), BAD_START),
            "another attribute": (partition(), start(pk="p", more="m"), BAD_START),
            "another partition": (partition(), start(pk="q", sk="s"), OUTSIDE),
            "a range key of another type": (partition(), start(pk="p", sk={"N": "1"}), NO_MATCH),
            "an empty range key": (
                partition(),
                start(pk="p", sk=""),
                INVALID
                + "The AttributeValue for a key attribute cannot contain an empty string value. Key: sk",
            ),
            "a long range key": (
                partition(),
                start(pk="p", sk="x" * 1025),
                INVALID + "Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
            ),
            "a value of no type": (
                partition(),
                start(pk="p", sk={}),
                BAD_START
                + ": Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "a value of two types": (
                partition(),
                start(pk="p", sk={"S": "s", "N": "1"}),
                BAD_START
                + ": Supplied AttributeValue has more than one datatypes set, "
                + "must contain exactly one of the supported datatypes",
            ),
            "a number that is none": (
                partition(),
                start(pk="p", sk={"N": "one"}),
                "The parameter cannot be converted to a numeric value: one",
            ),
            "before the range asked for": (
                RANGE,
                start(pk="p", sk="a"),
                "The provided starting key does not match the range key predicate",
            ),
            "another partition and in range": (
                RANGE,
                start(pk="q", sk="z"),
                "The query can return at most one row and cannot be restarted",
            ),
            "only the tables key for a local index": (LOCAL, start(pk="p", sk="s"), BAD_START),
            "another partition of a local index": (LOCAL, start(pk="q", sk="s", weight={"N": "1"}), OUTSIDE),
            "only the indexs key for a global index": (GLOBAL, start(kind="p", at="t"), BAD_START),
            "another partition of a global index": (GLOBAL, start(kind="q", at="t", pk="p", sk="s"), OUTSIDE),
            "an index key of another type": (
                GLOBAL,
                start(kind="p", at={"N": "1"}, pk="p", sk="s"),
                NO_MATCH,
            ),
            "a tables key of another type": (
                GLOBAL,
                start(kind="p", at="t", pk={"N": "1"}, sk="s"),
                f"{BAD_START}: {NO_MATCH}",
            ),
        }
    ),
)
def test_query_rejects_an_invalid_start_key(raw: Raw, empty: str, body: Body, key: Body, text: str) -> None:
    # DynamoDB Local has its own texts for most, dynalite has AWS's.
    request = {"TableName": empty, "ExclusiveStartKey": key} | body
    assert raw.refusal("Query", request) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("body", "key", "text"),
    cases(
        {
            "half a key": ({}, start(pk="p"), f"{BAD_START}: {NO_MATCH}"),
            "more than a key": ({}, start(pk="p", sk="s", more="m"), f"{BAD_START}: {NO_MATCH}"),
            "another attribute": ({}, start(pk="p", more="m"), f"{BAD_START}: {NO_MATCH}"),
            "a range key of another type": ({}, start(pk="p", sk={"N": "1"}), f"{BAD_START}: {NO_MATCH}"),
            "an empty range key": (
                {},
                start(pk="p", sk=""),
                f"{BAD_START}: {INVALID}"
                "The AttributeValue for a key attribute cannot contain an empty string value. Key: sk",
            ),
            "a value of no type": (
                {},
                start(pk="p", sk={}),
                BAD_START
                + ": Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
            ),
            "only the tables key for an index": ({"IndexName": "global"}, start(pk="p", sk="s"), BAD_START),
            "an index key of another type": (
                {"IndexName": "global"},
                start(kind="k", at={"N": "1"}, pk="p", sk="s"),
                NO_MATCH,
            ),
            "a tables key of another type": (
                {"IndexName": "global"},
                start(kind="k", at="t", pk="p", sk={"N": "1"}),
                f"{BAD_START}: {NO_MATCH}",
            ),
        }
    ),
)
def test_scan_rejects_an_invalid_start_key(raw: Raw, empty: str, body: Body, key: Body, text: str) -> None:
    request = {"TableName": empty, "ExclusiveStartKey": key} | body
    assert raw.refusal("Scan", request) == ("ValidationException", text)


@pytest.mark.parametrize(
    ("key", "text"),
    cases(
        {
            "an index key of another type": (start(kind="k", at={"N": "1"}, pk="p", sk="s"), NO_MATCH),
            "other attributes than the tables key": (
                start(kind="k", at="t", x="p", y="s"),
                INVALID + "Select type ALL_ATTRIBUTES is not supported for global secondary index narrow"
                " because its projection type is not ALL",
            ),
        }
    ),
)
def test_scan_checks_select_between_index_key_and_table_key(
    raw: Raw, make_table: MakeTable, key: Body, text: str
) -> None:
    # The index's part of the start key is checked before it, the table's part after it.
    table = make_table("pk:S", "sk:S", gsi=[index("narrow", "kind:S", "at:S", projection="KEYS_ONLY")])
    body = {"TableName": table, "IndexName": "narrow", "Select": "ALL_ATTRIBUTES", "ExclusiveStartKey": key}
    assert raw.refusal("Scan", body) == ("ValidationException", text)
