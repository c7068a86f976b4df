"""DescribeTable: everything a table says about itself, and the words for one that is not there."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from .conftest import MakeTable, index, unique_name
from .protocol import Raw, malformed

SHORT_NAME = "TableName must be at least 3 characters long and at most 255 characters long"
CONSTRAINT = (
    "1 validation error detected: Value '{}' at 'tableName' failed to satisfy constraint: Member must "
)


# Shape


@pytest.mark.parametrize(("body", "text"), malformed({"TableName": "string"}))
def test_a_name_that_is_no_string_is_refused(raw: Raw, body: dict[str, Any], text: str) -> None:
    assert raw.refusal("DescribeTable", body) == ("SerializationException", text)


def test_a_name_must_be_given(raw: Raw) -> None:
    text = "The parameter 'TableName' is required but was not present in the request"
    assert raw.refusal("DescribeTable", {}) == ("ValidationException", text)


@pytest.mark.parametrize("name", ["ab", "a" * 256], ids=["short", "long"])
def test_a_name_has_3_to_255_characters(raw: Raw, name: str) -> None:
    # Two texts: AWS's until about 2024 (and dynalite's), and AWS's since.
    bound = (
        "have length greater than or equal to 3" if name == "ab" else "have length less than or equal to 255"
    )
    code, text = raw.refusal("DescribeTable", {"TableName": name})
    assert code == "ValidationException"
    assert text in (SHORT_NAME, CONSTRAINT.format(name) + bound)


def test_a_name_has_letters_digits_and_three_signs(raw: Raw) -> None:
    text = CONSTRAINT.format("abc;") + "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    assert raw.refusal("DescribeTable", {"TableName": "abc;"}) == ("ValidationException", text)


# Validation


def test_a_table_that_is_not_there_is_named(raw: Raw) -> None:
    name = unique_name()
    text = f"Requested resource not found: Table: {name} not found"
    assert raw.refusal("DescribeTable", {"TableName": name}) == ("ResourceNotFoundException", text)


# Behaviour


def described(raw: Raw, name: str) -> dict[str, Any]:
    table: dict[str, Any] = raw.answer("DescribeTable", {"TableName": name})["Table"]
    return table


def test_the_keys_are_told_as_they_were_given(raw: Raw, make_table: MakeTable) -> None:
    table = described(raw, make_table("pk:B", "sk:N"))
    assert table["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert sorted(table["AttributeDefinitions"], key=str) == [
        {"AttributeName": "pk", "AttributeType": "B"},
        {"AttributeName": "sk", "AttributeType": "N"},
    ]


def test_a_table_has_an_arn_and_an_id(raw: Raw, hash_table: str) -> None:
    table = described(raw, hash_table)
    assert re.fullmatch(rf"arn:aws:dynamodb:[\w-]+:\d{{12}}:table/{hash_table}", table["TableArn"])
    # dynalite's ids lack four digits, DynamoDB Local of 2020 and moto have none.
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", table["TableId"])


def test_two_tables_have_two_ids(raw: Raw, make_table: MakeTable) -> None:
    first, second = (described(raw, make_table("pk:S")) for _ in range(2))
    assert first["TableId"] != second["TableId"]


def test_the_time_of_creation_is_told_in_seconds_and_does_not_move(raw: Raw, make_table: MakeTable) -> None:
    before = time.time()
    name = make_table("pk:S")
    created = described(raw, name)["CreationDateTime"]
    assert before - 2 < created < time.time() + 2
    assert described(raw, name)["CreationDateTime"] == created


def test_a_table_paid_per_request_says_since_when(raw: Raw, make_table: MakeTable) -> None:
    # moto leaves the time out.
    table = described(raw, make_table("pk:S", BillingMode="PAY_PER_REQUEST"))
    assert table["BillingModeSummary"] == {
        "BillingMode": "PAY_PER_REQUEST",
        "LastUpdateToPayPerRequestDateTime": table["CreationDateTime"],
    }


def test_a_table_paid_per_request_has_a_throughput_of_zero(raw: Raw, make_table: MakeTable) -> None:
    throughput = described(raw, make_table("pk:S", BillingMode="PAY_PER_REQUEST"))["ProvisionedThroughput"]
    assert throughput["ReadCapacityUnits"] == throughput["WriteCapacityUnits"] == 0
    assert throughput["NumberOfDecreasesToday"] == 0


def test_a_provisioned_table_says_what_was_provisioned(raw: Raw, make_table: MakeTable) -> None:
    units = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 2}
    name = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=units)
    assert units.items() <= described(raw, name)["ProvisionedThroughput"].items()


@pytest.mark.parametrize(
    "member",
    ["StreamSpecification", "LatestStreamArn", "RestoreSummary", "SSEDescription", "Replicas"],
)
def test_what_a_plain_table_does_not_have_is_left_out(raw: Raw, hash_table: str, member: str) -> None:
    assert member not in described(raw, hash_table)


@pytest.mark.parametrize("member", ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"])
def test_indexes_a_table_does_not_have_are_left_out(raw: Raw, hash_table: str, member: str) -> None:
    # moto lists none instead.
    assert member not in described(raw, hash_table)


def test_deletion_protection_is_off_unless_asked_for(raw: Raw, hash_table: str) -> None:
    assert described(raw, hash_table)["DeletionProtectionEnabled"] is False


def test_every_index_is_described(raw: Raw, make_table: MakeTable) -> None:
    name = make_table(
        "pk:S",
        "sk:S",
        lsi=[index("mine", "pk:S", "size:N", projection="KEYS_ONLY")],
        gsi=[index("ours", "kind:S", "size:N", include=["a", "b"])],
    )
    table = described(raw, name)
    (mine,), (ours,) = table["LocalSecondaryIndexes"], table["GlobalSecondaryIndexes"]
    assert mine["KeySchema"][1] == {"AttributeName": "size", "KeyType": "RANGE"}
    assert mine["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert ours["KeySchema"][0] == {"AttributeName": "kind", "KeyType": "HASH"}
    assert ours["Projection"]["ProjectionType"] == "INCLUDE"
    assert sorted(ours["Projection"]["NonKeyAttributes"]) == ["a", "b"]
    assert ours["IndexStatus"] == "ACTIVE"
    for entry in (mine, ours):
        assert entry["IndexArn"] == f"{table['TableArn']}/index/{entry['IndexName']}"
        assert entry["ItemCount"] >= 0
        assert entry["IndexSizeBytes"] >= 0


def test_the_count_of_items_is_there(raw: Raw, dynamodb: Any, hash_table: str) -> None:
    """AWS counts anew every six hours, so only the members can be relied on."""
    dynamodb.put_item(TableName=hash_table, Item={"pk": {"S": "a"}})
    table = described(raw, hash_table)
    assert table["ItemCount"] in (0, 1)
    assert table["TableSizeBytes"] >= 0


def test_a_stream_is_described(raw: Raw, make_table: MakeTable) -> None:
    wanted = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    table = described(raw, make_table("pk:S", StreamSpecification=wanted))
    assert table["StreamSpecification"] == wanted
    assert table["LatestStreamArn"] == f"{table['TableArn']}/stream/{table['LatestStreamLabel']}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}", table["LatestStreamLabel"])


def test_the_arn_serves_as_the_name(dynamodb: Any, hash_table: str) -> None:
    # Since 2024; the emulators take it for a name with colons and refuse it.
    arn = dynamodb.describe_table(TableName=hash_table)["Table"]["TableArn"]
    assert dynamodb.describe_table(TableName=arn)["Table"]["TableName"] == hash_table
