"""Query and Scan requests: decoded into operations, or refused in DynamoDB's order of checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import Compare, Literal, Path
from holdfast.operations.tables import Query, Scan
from holdfast.wire.dispatch import decode

KEYED: dict[str, Any] = {
    "KeyConditionExpression": "pk = :p",
    "ExpressionAttributeValues": {":p": {"S": "x"}},
}
BOTH = [("Query", KEYED), ("Scan", {})]


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
    assert decode_request("Query", **KEYED) == Query(table="abc", key_condition=(KeyTest("pk", "=", ("x",)),))
    assert decode_request("Scan") == Scan(table="abc")


def test_decodes_every_member() -> None:
    assert decode_request(
        "Scan",
        IndexName="byDate",
        FilterExpression="a = :a",
        ExpressionAttributeValues={":a": {"N": "1"}},
        ProjectionExpression="b",
        Select="SPECIFIC_ATTRIBUTES",
        Limit=7,
        ExclusiveStartKey={"pk": {"S": "x"}},
        ConsistentRead=True,
        Segment=0,
        TotalSegments=4,
        ReturnConsumedCapacity="TOTAL",
    ) == Scan(
        table="abc",
        index="byDate",
        filter=Compare("=", Path("a"), Literal(1)),
        projection=(Path("b"),),
        select="SPECIFIC_ATTRIBUTES",
        limit=7,
        start_key={"pk": "x"},
        consistent=True,
        segment=0,
        segments=4,
        capacity="TOTAL",
    )
    backwards = decode_request("Query", **KEYED, ScanIndexForward=False, Limit=1)
    assert (backwards.forward, backwards.limit) == (False, 1)


def test_rejects_legacy_conditions_with_our_message() -> None:
    conditions = {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "x"}]}}
    assert refusal("Query", KeyConditions=conditions) == (
        "The parameter KeyConditions is not supported yet: use KeyConditionExpression instead"
    )
    assert refusal("Scan", ScanFilter=conditions) == (
        "The parameter ScanFilter is not supported yet: use FilterExpression instead"
    )


def test_legacy_key_conditions_conflict_with_a_key_condition() -> None:
    conditions = {"pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "x"}]}}
    assert refusal("Query", **KEYED, KeyConditions=conditions, QueryFilter=conditions) == (
        "Can not use both expression and non-expression parameters in the same request: "
        "Non-expression parameters: {QueryFilter, KeyConditions} Expression parameters: "
        "{KeyConditionExpression}"
    )
    text = refusal("Query", KeyConditions=conditions, FilterExpression="attribute_exists(a)")
    assert text == "The parameter KeyConditions is not supported yet: use KeyConditionExpression instead"


def test_query_and_scan_word_a_zero_limit_differently() -> None:
    rule = "failed to satisfy constraint: Member must have value greater than or equal to 1"
    assert refusal("Query", **KEYED, Limit=0) == f"1 validation error detected: Value at 'Limit' {rule}"
    assert refusal("Scan", Limit=0) == f"1 validation error detected: Value '0' at 'limit' {rule}"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"Select": "ALL_ATTRIBUTES", "ProjectionExpression": "a"},
            "Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES",
        ),
        (
            {"Select": "COUNT", "ProjectionExpression": "a"},
            "Cannot specify the ProjectionExpression when choosing to get only the Count",
        ),
        (
            {"Select": "SPECIFIC_ATTRIBUTES"},
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
            "SPECIFIC_ATTRIBUTES",
        ),
        (
            {"Select": "ALL_PROJECTED_ATTRIBUTES"},
            "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
        ),
    ],
)
def test_select_must_match_the_projection(parameters: dict[str, Any], text: str) -> None:
    assert refusal("Scan", **parameters) == text
    assert refusal("Query", **KEYED, **parameters) == f"1 validation error detected: {text}"


@pytest.mark.parametrize(("operation", "request_"), BOTH)
def test_reports_an_invalid_start_key_before_the_expressions(
    operation: str, request_: dict[str, Any]
) -> None:
    text = refusal(operation, **request_, ExclusiveStartKey={"a": {}}, FilterExpression="!")
    assert text == (
        "The provided starting key is invalid: Supplied AttributeValue is empty, must contain exactly one "
        "of the supported datatypes"
    )


def test_the_key_condition_is_parsed_before_the_filter_and_the_projection() -> None:
    def text(key_condition: str, kept: str, projection: str) -> str:
        return refusal(
            "Query",
            KeyConditionExpression=key_condition,
            FilterExpression=kept,
            ProjectionExpression=projection,
            ExpressionAttributeValues={":p": {"S": "x"}},
        )

    assert text("!", "!", "!").startswith("Invalid KeyConditionExpression: ")
    assert text("pk = :p", "!", "!").startswith("Invalid FilterExpression: ")
    assert text("pk = :p", "a = :p", "!").startswith("Invalid ProjectionExpression: ")


def test_checks_the_key_condition_after_unused_placeholders() -> None:
    values = {":p": {"S": "x"}, ":q": {"S": "x"}}
    unused = "Value provided in ExpressionAttributeValues unused in expressions: keys: {:q}"
    assert refusal("Query", KeyConditionExpression="pk <> :p", ExpressionAttributeValues=values) == unused
    del values[":q"]
    assert refusal("Query", KeyConditionExpression="pk <> :p", ExpressionAttributeValues=values) == (
        "Invalid operator used in KeyConditionExpression: <>"
    )
