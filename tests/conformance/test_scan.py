"""Scan over the wire: its shape, its refusals, filters and projections, and parallel segments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import MakeTable, unique_name
from .protocol import (
    CAPACITY_ENUM,
    NOT_NULL,
    TABLE_NAME_PATTERN,
    Raw,
    cases,
    constraint,
    split_constraints,
)

Body = dict[str, Any]

SELECT_ENUM = (
    "Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, "
    "ALL_PROJECTED_ATTRIBUTES]"
)
MIXED = "Can not use both expression and non-expression parameters in the same request: "
SCALARS = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "


# Shape


@pytest.mark.parametrize(
    ("body", "entries"),
    cases(
        {
            "nothing": ({}, {constraint("null", "tableName", NOT_NULL)}),
            "the characters of a name": (
                {"TableName": "abc;"},
                {constraint("'abc;'", "tableName", TABLE_NAME_PATTERN)},
            ),
            "no segments": (
                {"TableName": "abc", "Segment": -1, "TotalSegments": 0},
                {
                    constraint("'-1'", "segment", "Member must have value greater than or equal to 0"),
                    constraint("'0'", "totalSegments", "Member must have value greater than or equal to 1"),
                },
            ),
            "too many segments": (
                {"TableName": "abc", "Segment": 0, "TotalSegments": 1000001},
                {
                    constraint(
                        "'1000001'", "totalSegments", "Member must have value less than or equal to 1000000"
                    )
                },
            ),
            "several faults": (
                {"TableName": "abc;", "ReturnConsumedCapacity": "hi", "Select": "hi", "Limit": 0},
                {
                    constraint("'abc;'", "tableName", TABLE_NAME_PATTERN),
                    constraint("'hi'", "returnConsumedCapacity", CAPACITY_ENUM),
                    constraint("'hi'", "select", SELECT_ENUM),
                    constraint("'0'", "limit", "Member must have value greater than or equal to 1"),
                },
            ),
        }
    ),
)
def test_reports_all_violated_constraints_together(raw: Raw, body: Body, entries: set[str]) -> None:
    code, text = raw.refusal("Scan", body)
    assert (code, split_constraints(text)) == ("ValidationException", entries)


# Validation


@all_cases(
    ("body", "text"),
    cases(
        {
            "old and new ways of asking": (
                {"FilterExpression": "a = :a", "ScanFilter": {}, "AttributesToGet": ["a"]},
                MIXED
                + "Non-expression parameters: {AttributesToGet, ScanFilter} Expression parameters: {FilterExpression}",  # noqa: E501
            ),
            "names without an expression": (
                {"ExpressionAttributeNames": {"#a": "a"}},
                "ExpressionAttributeNames can only be specified when using expressions",
            ),
            "values without a filter": (
                {"ProjectionExpression": "a", "ExpressionAttributeValues": {":a": {"S": "a"}}},
                "ExpressionAttributeValues can only be specified when using expressions: FilterExpression is "
                "null",
            ),
            "no values": (
                {"FilterExpression": "a = :a", "ExpressionAttributeValues": {}},
                "ExpressionAttributeValues must not be empty",
            ),
            "a segment of none": (
                {"Segment": 1},
                "The TotalSegments parameter is required but was not present in the request "
                "when Segment parameter is present",
            ),
            "the first segment of none": (
                # dynalite reads the number 0 as no segment.
                {"Segment": 0},
                "The TotalSegments parameter is required but was not present in the request "
                "when Segment parameter is present",
            ),
            "segments and none chosen": (
                {"TotalSegments": 2},
                "The Segment parameter is required but was not present in the request "
                "when parameter TotalSegments is present",
            ),
            "the segment behind the last": (
                {"Segment": 2, "TotalSegments": 2},
                "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
                "Segment: 2 is not less than TotalSegments: 2",
            ),
            "an empty filter": (
                {"FilterExpression": ""},
                "Invalid FilterExpression: The expression can not be empty;",
            ),
            "a value not used": (
                {
                    "FilterExpression": "a = :a",
                    "ExpressionAttributeValues": {":a": {"S": "a"}, ":b": {"S": "b"}},
                },
                "Value provided in ExpressionAttributeValues unused in expressions: keys: {:b}",
            ),
        }
    ),
)
def test_rejects_invalid_parameters_before_looking_up_the_table(raw: Raw, body: Body, text: str) -> None:
    assert raw.refusal("Scan", {"TableName": unique_name()} | body) == ("ValidationException", text)


def test_missing_table_is_not_found(raw: Raw) -> None:
    refusal = raw.refusal("Scan", {"TableName": unique_name()})
    assert refusal == ("ResourceNotFoundException", "Requested resource not found")


@pytest.mark.parametrize(
    ("body", "text"),
    cases(
        {
            "an index it does not have": (
                {"IndexName": "absent"},
                "The table does not have the specified index: absent",
            ),
            "a consistent read of a global index": (
                # dynalite accepts it.
                {"IndexName": "by_kind", "ConsistentRead": True},
                "Consistent reads are not supported on global secondary indexes",
            ),
            "a path into a key": ({"ProjectionExpression": "pk.a"}, SCALARS + "Key: pk"),
            "a count of something": (
                {"Select": "COUNT", "ProjectionExpression": "a"},
                "Cannot specify the ProjectionExpression when choosing to get only the Count",
            ),
            "something unsaid": (
                {"Select": "SPECIFIC_ATTRIBUTES"},
                "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
                "SPECIFIC_ATTRIBUTES",
            ),
            "projected attributes of no index": (
                {"Select": "ALL_PROJECTED_ATTRIBUTES"},
                "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
            ),
        }
    ),
)
def test_a_scan_that_the_table_cannot_answer_is_refused(
    raw: Raw, shared_index_table: str, body: Body, text: str
) -> None:
    # Since 2026 some regions put the prefix before these texts too.
    code, refused = raw.refusal("Scan", {"TableName": shared_index_table} | body)
    assert (code, str(refused).removeprefix("1 validation error detected: ")) == ("ValidationException", text)


# Behaviour

ITEMS = [
    {"pk": {"S": f"p{number % 7}"}, "sk": {"S": f"s{number:03}"}, "n": {"N": str(number)}}
    for number in range(100)
]


@pytest.fixture(scope="module")
def filled_table(make_shared_table: MakeTable, raw: Raw) -> str:
    """Create a hundred items in seven partitions."""
    table = make_shared_table("pk:S", "sk:S")
    for item in ITEMS:
        raw.put(table, item)
    return table


def scan(raw: Raw, table: str, **request: Any) -> Body:
    answer: Body = raw.answer("Scan", {"TableName": table} | request)
    return answer


def sort_items(items: list[Body]) -> list[Body]:
    """Return the items by their number `n`."""
    return sorted(items, key=lambda item: int(item["n"]["N"]))


def test_every_item_is_found_once(raw: Raw, filled_table: str) -> None:
    answer = scan(raw, filled_table, ConsistentRead=True)
    assert sort_items(answer["Items"]) == ITEMS
    assert (answer["Count"], answer["ScannedCount"]) == (100, 100)
    assert "LastEvaluatedKey" not in answer


def test_returns_each_partition_contiguously_and_in_order(raw: Raw, filled_table: str) -> None:
    keys = [(item["pk"]["S"], item["sk"]["S"]) for item in scan(raw, filled_table)["Items"]]
    partitions = list(dict.fromkeys(pk for pk, _ in keys))
    assert len(partitions) == 7
    assert keys == [(pk, sk) for wanted in partitions for pk, sk in sorted(keys) if pk == wanted]


def test_a_filter_may_use_key_attributes(raw: Raw, filled_table: str) -> None:
    answer = scan(
        raw,
        filled_table,
        FilterExpression="pk = :p AND n < :n",
        ExpressionAttributeValues={":p": {"S": "p3"}, ":n": {"N": "20"}},
    )
    assert [item["n"]["N"] for item in sort_items(answer["Items"])] == ["3", "10", "17"]
    assert (answer["Count"], answer["ScannedCount"]) == (3, 100)


def test_a_count_has_no_items(raw: Raw, filled_table: str) -> None:
    assert scan(raw, filled_table, Select="COUNT") == {"Count": 100, "ScannedCount": 100}


def test_projection_returns_the_named_attributes(raw: Raw, filled_table: str) -> None:
    items = scan(raw, filled_table, ProjectionExpression="n, absent")["Items"]
    assert sort_items(items) == [{"n": item["n"]} for item in ITEMS]


def test_an_empty_table_has_no_items(raw: Raw, hash_table: str) -> None:
    assert scan(raw, hash_table) == {"Items": [], "Count": 0, "ScannedCount": 0}


@pytest.mark.parametrize("total", [1, 2, 3, 7, 50])
def test_segments_share_the_table_among_them(raw: Raw, filled_table: str, total: int) -> None:
    answers = [scan(raw, filled_table, Segment=segment, TotalSegments=total) for segment in range(total)]
    assert sort_items([item for answer in answers for item in answer["Items"]]) == ITEMS
    partitions = [{item["pk"]["S"] for item in answer["Items"]} for answer in answers]
    assert sum(map(len, partitions)) == 7, "a partition lies in one segment"


def test_many_partitions_are_spread_over_the_segments(raw: Raw, hash_table: str) -> None:
    for number in range(100):
        raw.put(hash_table, {"pk": {"S": str(number)}})
    counts = [scan(raw, hash_table, Segment=segment, TotalSegments=4)["Count"] for segment in range(4)]
    assert sum(counts) == 100
    assert min(counts) >= 5


def test_a_million_segments_are_allowed(raw: Raw, filled_table: str) -> None:
    assert scan(raw, filled_table, Segment=999999, TotalSegments=1000000)["ScannedCount"] <= 100


def test_a_segment_is_paged_to_its_end(raw: Raw, filled_table: str) -> None:
    found: list[Body] = []
    for segment in range(3):
        request: Body = {"Segment": segment, "TotalSegments": 3, "Limit": 7}
        while True:
            answer = scan(raw, filled_table, **request)
            found += answer["Items"]
            if "LastEvaluatedKey" not in answer:
                break
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    assert sort_items(found) == ITEMS


def test_rejects_a_start_key_of_another_segment(raw: Raw, filled_table: str) -> None:
    # DynamoDB Local: "Exclusive start key must lie within the segment".
    owner = next(
        segment
        for segment in range(2)
        if scan(raw, filled_table, Segment=segment, TotalSegments=2)["Count"] > 0
    )
    item = scan(raw, filled_table, Segment=owner, TotalSegments=2, Limit=1)["Items"][0]
    body = {
        "TableName": filled_table,
        "Segment": 1 - owner,
        "TotalSegments": 2,
        "ExclusiveStartKey": {"pk": item["pk"], "sk": item["sk"]},
    }
    text = (
        "The provided starting key is invalid: Invalid ExclusiveStartKey. "
        f"Please use ExclusiveStartKey with correct Segment. TotalSegments: 2 Segment: {1 - owner}"
    )
    assert raw.refusal("Scan", body) == ("ValidationException", text)
    # The filter is checked only afterwards.
    assert raw.refusal("Scan", body | {"FilterExpression": "attribute_exists(pk.a)"})[1] == text
