"""A suite with moto as a decorator: of tests, of functions that make tables, and inside a fixture."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Key
from moto import mock_aws

REGION = "us-east-1"


@mock_aws
def create_accounts() -> Any:
    """Create the table of accounts with its index, and return it."""
    return boto3.resource("dynamodb", region_name=REGION).create_table(
        TableName="accounts",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "owner", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by-owner",
                "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
    )


def transfer(source: str, target: str, amount: int) -> None:
    """Move money between two accounts, if the first has enough."""
    value = {":amount": {"N": str(amount)}}
    boto3.client("dynamodb", region_name=REGION).transact_write_items(
        TransactItems=[
            {
                "Update": {
                    "TableName": "accounts",
                    "Key": {"id": {"S": source}},
                    "UpdateExpression": "SET balance = balance - :amount",
                    "ConditionExpression": "balance >= :amount",
                    "ExpressionAttributeValues": value,
                }
            },
            {
                "Update": {
                    "TableName": "accounts",
                    "Key": {"id": {"S": target}},
                    "UpdateExpression": "ADD balance :amount",
                    "ExpressionAttributeValues": value,
                }
            },
        ]
    )


@pytest.fixture
def make_accounts() -> Callable[[], Any]:
    @mock_aws
    def make() -> Any:
        table = create_accounts()
        with table.batch_writer() as batch:
            for number in range(40):
                batch.put_item(
                    Item={"id": f"a{number}", "owner": f"owner-{number % 2}", "balance": Decimal(10)}
                )
        return table

    return make


@mock_aws
def test_transfers_between_accounts(make_accounts: Callable[[], Any]) -> None:
    table = make_accounts()
    transfer("a0", "a1", 4)

    balances = [table.get_item(Key={"id": name})["Item"]["balance"] for name in ("a0", "a1")]
    assert balances == [6, 14]


@mock_aws
def test_transfer_without_money_changes_nothing(make_accounts: Callable[[], Any]) -> None:
    table = make_accounts()
    client = table.meta.client
    with pytest.raises(client.exceptions.TransactionCanceledException) as refused:
        transfer("a0", "a1", 11)

    assert [each["Code"] for each in refused.value.response["CancellationReasons"]] == [
        "ConditionalCheckFailed",
        "None",
    ]
    assert table.get_item(Key={"id": "a1"})["Item"]["balance"] == 10


@mock_aws()
def test_paginator_reads_the_whole_table(make_accounts: Callable[[], Any]) -> None:
    make_accounts()
    paginator = boto3.client("dynamodb", region_name=REGION).get_paginator("scan")
    pages = list(paginator.paginate(TableName="accounts", PaginationConfig={"PageSize": 15}))

    assert sum(page["Count"] for page in pages) == 40


@mock_aws
def test_index_finds_the_accounts_of_an_owner(make_accounts: Callable[[], Any]) -> None:
    table = make_accounts()
    found = table.query(IndexName="by-owner", KeyConditionExpression=Key("owner").eq("owner-1"))

    assert found["Count"] == 20
