"""DeleteTable over the wire: removes a table with its items, unless it is protected."""

from __future__ import annotations

from typing import Any

from .conftest import MakeTable, unique_name
from .protocol import Raw

SHORT_NAME = "TableName must be at least 3 characters long and at most 255 characters long"
CONSTRAINT = (
    "1 validation error detected: Value '{}' at 'tableName' failed to satisfy constraint: Member must "
)
PROTECTED = "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first."  # noqa: E501


# Shape


def test_requires_a_name(raw: Raw) -> None:
    text = "The parameter 'TableName' is required but was not present in the request"
    assert raw.refusal("DeleteTable", {}) == ("ValidationException", text)


def test_a_name_has_at_least_3_characters(raw: Raw) -> None:
    code, text = raw.refusal("DeleteTable", {"TableName": "ab"})
    assert code == "ValidationException"
    assert text in (SHORT_NAME, CONSTRAINT.format("ab") + "have length greater than or equal to 3")


def test_rejects_a_name_with_other_characters(raw: Raw) -> None:
    text = CONSTRAINT.format("abc;") + "satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
    assert raw.refusal("DeleteTable", {"TableName": "abc;"}) == ("ValidationException", text)


# Validation


def test_names_a_missing_table(raw: Raw) -> None:
    name = unique_name()
    text = f"Requested resource not found: Table: {name} not found"
    assert raw.refusal("DeleteTable", {"TableName": name}) == ("ResourceNotFoundException", text)


def test_protected_table_is_not_deleted(raw: Raw, dynamodb: Any, make_table: MakeTable) -> None:
    # The emulators do not protect; moto has an exception of its own for it.
    name = make_table("pk:S", DeletionProtectionEnabled=True)
    dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}})
    try:
        assert raw.refusal("DeleteTable", {"TableName": name}) == ("ValidationException", PROTECTED)
        assert dynamodb.get_item(TableName=name, Key={"pk": {"S": "a"}})["Item"] == {"pk": {"S": "a"}}
    finally:
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)


# Behaviour


def delete_and_wait(dynamodb: Any, name: str) -> dict[str, Any]:
    """Delete the table, wait until it is gone, and return the response."""
    description: dict[str, Any] = dynamodb.delete_table(TableName=name)["TableDescription"]
    dynamodb.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    return description


def test_answer_describes_the_deleting_table(dynamodb: Any, make_table: MakeTable) -> None:
    description = delete_and_wait(dynamodb, make_table("pk:S"))
    # DynamoDB Local says ACTIVE: it is done before it answers.
    assert description["TableStatus"] == "DELETING"
    assert description["TableArn"].endswith(description["TableName"])
    assert description["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0
    assert description["ItemCount"] >= 0


def test_deleted_table_is_not_found(raw: Raw, dynamodb: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S")
    delete_and_wait(dynamodb, name)
    key = {"TableName": name, "Key": {"pk": {"S": "a"}}}
    assert raw.refusal("DescribeTable", {"TableName": name})[0] == "ResourceNotFoundException"
    assert raw.refusal("GetItem", key) == ("ResourceNotFoundException", "Requested resource not found")
    assert raw.refusal("DeleteTable", {"TableName": name})[0] == "ResourceNotFoundException"


def test_recreated_table_is_empty(dynamodb: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S")
    first_id = dynamodb.describe_table(TableName=name)["Table"].get("TableId", "first")
    dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}})
    delete_and_wait(dynamodb, name)
    make_table("pk:S", TableName=name)
    assert dynamodb.scan(TableName=name)["Count"] == 0
    assert dynamodb.describe_table(TableName=name)["Table"].get("TableId") != first_id


def test_another_table_keeps_its_items(dynamodb: Any, make_table: MakeTable) -> None:
    kept, dropped = make_table("pk:S"), make_table("pk:S")
    for name in (kept, dropped):
        dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}})
    delete_and_wait(dynamodb, dropped)
    assert dynamodb.scan(TableName=kept)["Count"] == 1
