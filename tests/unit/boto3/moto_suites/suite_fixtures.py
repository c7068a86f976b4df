"""A suite with moto in fixtures: credentials, a client, a table in a nested context, a handler under test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError
from moto import mock_aws

REGION = "eu-west-1"


class Notes:
    """The code under test: notes of a user, newest first."""

    def __init__(self) -> None:
        self.table = boto3.resource("dynamodb").Table("notes")

    def add(self, user: str, at: str, text: str) -> None:
        condition = Attr("user").not_exists()
        self.table.put_item(Item={"user": user, "at": at, "text": text}, ConditionExpression=condition)

    def newest(self, user: str, count: int) -> list[str]:
        found = self.table.query(
            KeyConditionExpression=Key("user").eq(user), ScanIndexForward=False, Limit=count
        )
        return [str(each["text"]) for each in found["Items"]]

    def count_reads(self, user: str, at: str) -> int:
        changed = self.table.update_item(
            Key={"user": user, "at": at},
            UpdateExpression="SET #r = if_not_exists(#r, :none) + :one",
            ExpressionAttributeNames={"#r": "reads"},
            ExpressionAttributeValues={":none": 0, ":one": 1},
            ReturnValues="UPDATED_NEW",
        )
        return int(changed["Attributes"]["reads"])


@pytest.fixture(autouse=True)
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


@pytest.fixture
def dynamodb(aws_credentials: None) -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("dynamodb")


@pytest.fixture
def notes(dynamodb: Any) -> Notes:
    with mock_aws():
        dynamodb.create_table(
            TableName="notes",
            KeySchema=[
                {"AttributeName": "user", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "user", "AttributeType": "S"},
                {"AttributeName": "at", "AttributeType": "S"},
            ],
            ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
        )
        dynamodb.get_waiter("table_exists").wait(TableName="notes")
    return Notes()


def test_table_is_active(dynamodb: Any, notes: Notes) -> None:
    assert dynamodb.describe_table(TableName="notes")["Table"]["TableStatus"] == "ACTIVE"


def test_newest_notes_come_first(notes: Notes) -> None:
    for day in ("01", "02", "03"):
        notes.add("ada", f"2026-03-{day}", f"note {day}")

    assert notes.newest("ada", 2) == ["note 03", "note 02"]


def test_same_note_cannot_be_added_twice(notes: Notes) -> None:
    notes.add("ada", "2026-03-01", "first")

    with pytest.raises(ClientError) as refused:
        notes.add("ada", "2026-03-01", "second")

    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"


def test_reads_are_counted(notes: Notes) -> None:
    notes.add("ada", "2026-03-01", "first")

    assert [notes.count_reads("ada", "2026-03-01") for _ in range(3)] == [1, 2, 3]


def test_each_test_begins_without_notes(notes: Notes) -> None:
    assert notes.newest("ada", 10) == []
