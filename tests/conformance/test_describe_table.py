"""DescribeTable over the wire: the description of a table, and the errors for invalid and unknown names."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from .conftest import MakeTable, index, unique_name
from .protocol import Raw

SHORT_NAME = "TableName must be at least 3 characters long and at most 255 characters long"
CONSTRAINT = (
    "1 validation error detected: Value '{}' at 'tableName' failed to satisfy constraint: Member must "
)


# Shape


def test_requires_a_name(raw: Raw) -> None:
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


def test_rejects_a_name_with_other_characters(raw: Raw) -> None:
    text = CONSTRAINT.format("abc;") + "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    assert raw.refusal("DescribeTable", {"TableName": "abc;"}) == ("ValidationException", text)


# Validation


def test_names_a_missing_table(raw: Raw) -> None:
    name = unique_name()
    text = f"Requested resource not found: Table: {name} not found"
    assert raw.refusal("DescribeTable", {"TableName": name}) == ("ResourceNotFoundException", text)


# Behaviour


def describe(raw: Raw, name: str) -> dict[str, Any]:
    table: dict[str, Any] = raw.answer("DescribeTable", {"TableName": name})["Table"]
    return table


def test_returns_the_key_schema_as_created(raw: Raw, make_table: MakeTable) -> None:
    table = describe(raw, make_table("pk:B", "sk:N"))
    assert table["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]
    assert sorted(table["AttributeDefinitions"], key=str) == [
        {"AttributeName": "pk", "AttributeType": "B"},
        {"AttributeName": "sk", "AttributeType": "N"},
    ]


def test_a_table_has_an_arn_and_an_id(raw: Raw, hash_table: str) -> None:
    table = describe(raw, hash_table)
    assert re.fullmatch(rf"arn:aws:dynamodb:[\w-]+:\d{{12}}:table/{hash_table}", table["TableArn"])
    # dynalite's ids lack four digits, DynamoDB Local of 2020 and moto have none.
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", table["TableId"])


def test_two_tables_have_two_ids(raw: Raw, make_table: MakeTable) -> None:
    first, second = (describe(raw, make_table("pk:S")) for _ in range(2))
    assert first["TableId"] != second["TableId"]


def test_creation_time_is_in_seconds_and_does_not_change(raw: Raw, make_table: MakeTable) -> None:
    before = time.time()
    name = make_table("pk:S")
    created = describe(raw, name)["CreationDateTime"]
    assert before - 2 < created < time.time() + 2
    assert describe(raw, name)["CreationDateTime"] == created


def test_on_demand_table_shows_when_it_became_on_demand(raw: Raw, make_table: MakeTable) -> None:
    # moto leaves the time out.
    table = describe(raw, make_table("pk:S", BillingMode="PAY_PER_REQUEST"))
    assert table["BillingModeSummary"] == {
        "BillingMode": "PAY_PER_REQUEST",
        "LastUpdateToPayPerRequestDateTime": table["CreationDateTime"],
    }


def test_a_table_paid_per_request_has_a_throughput_of_zero(raw: Raw, make_table: MakeTable) -> None:
    throughput = describe(raw, make_table("pk:S", BillingMode="PAY_PER_REQUEST"))["ProvisionedThroughput"]
    assert throughput["ReadCapacityUnits"] == throughput["WriteCapacityUnits"] == 0
    assert throughput["NumberOfDecreasesToday"] == 0


def test_provisioned_table_has_its_throughput(raw: Raw, make_table: MakeTable) -> None:
    units = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 2}
    name = make_table("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=units)
    assert units.items() <= describe(raw, name)["ProvisionedThroughput"].items()


@pytest.mark.parametrize(
    "member",
    ["StreamSpecification", "LatestStreamArn", "RestoreSummary", "SSEDescription", "Replicas"],
)
def test_omits_members_that_a_plain_table_lacks(raw: Raw, hash_table: str, member: str) -> None:
    assert member not in describe(raw, hash_table)


@pytest.mark.parametrize("member", ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"])
def test_omits_indexes_of_a_table_without_indexes(raw: Raw, hash_table: str, member: str) -> None:
    # moto lists none instead.
    assert member not in describe(raw, hash_table)


def test_deletion_protection_is_off_by_default(raw: Raw, hash_table: str) -> None:
    assert describe(raw, hash_table)["DeletionProtectionEnabled"] is False


def test_every_index_is_described(raw: Raw, make_table: MakeTable) -> None:
    name = make_table(
        "pk:S",
        "sk:S",
        lsi=[index("mine", "pk:S", "size:N", projection="KEYS_ONLY")],
        gsi=[index("ours", "kind:S", "size:N", include=["a", "b"])],
    )
    table = describe(raw, name)
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


def test_returns_an_item_count(raw: Raw, dynamodb: Any, hash_table: str) -> None:
    """AWS updates the count every six hours, so only the members can be relied on."""
    dynamodb.put_item(TableName=hash_table, Item={"pk": {"S": "a"}})
    table = describe(raw, hash_table)
    assert table["ItemCount"] in (0, 1)
    assert table["TableSizeBytes"] >= 0


def test_a_stream_is_described(raw: Raw, make_table: MakeTable) -> None:
    wanted = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    table = describe(raw, make_table("pk:S", StreamSpecification=wanted))
    assert table["StreamSpecification"] == wanted
    assert table["LatestStreamArn"] == f"{table['TableArn']}/stream/{table['LatestStreamLabel']}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}", table["LatestStreamLabel"])


def test_table_may_be_named_by_its_arn(dynamodb: Any, hash_table: str) -> None:
    # Accepted since 2024; the emulators refuse it as a name with colons.
    arn = dynamodb.describe_table(TableName=hash_table)["Table"]["TableArn"]
    assert dynamodb.describe_table(TableName=arn)["Table"]["TableName"] == hash_table
