"""A suite that passes on moto because moto accepts requests that DynamoDB rejects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Attr, Key
from moto import mock_aws


@pytest.fixture
def orders() -> Iterator[Any]:
    with mock_aws():
        yield boto3.resource("dynamodb", region_name="us-east-1").create_table(
            TableName="orders",
            KeySchema=[
                {"AttributeName": "customer", "KeyType": "HASH"},
                {"AttributeName": "name", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "customer", "AttributeType": "S"},
                {"AttributeName": "name", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )


def test_filters_on_the_sort_key(orders: Any) -> None:
    found = orders.query(
        KeyConditionExpression=Key("customer").eq("ada"), FilterExpression=Attr("name").eq("o-1")
    )
    assert found["Count"] == 0


def test_names_a_reserved_word(orders: Any) -> None:
    found = orders.query(
        KeyConditionExpression="customer = :c AND name = :n",
        ExpressionAttributeValues={":c": "ada", ":n": "o-1"},
    )
    assert found["Count"] == 0


def test_retries_a_transaction_with_its_token(orders: Any) -> None:
    change = {
        "Update": {
            "TableName": "orders",
            "Key": {"customer": "ada", "name": "o-1"},
            "UpdateExpression": "ADD pieces :one",
            "ExpressionAttributeValues": {":one": 1},
        }
    }
    for _ in range(2):
        orders.meta.client.transact_write_items(TransactItems=[change], ClientRequestToken="token-1")
    assert orders.get_item(Key={"customer": "ada", "name": "o-1"})["Item"]["pieces"] == 2
