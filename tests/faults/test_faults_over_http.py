"""Injected throttling and conflicts as boto3 sees them over HTTP, from an engine and `holdfast serve`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.operations.tables import Scan
from holdfast.stores.tables.embedded import EngineFaults, open_tables
from holdfast.wire.http.server import start_server

ROOT = Path(__file__).parents[2]
ONCE = Config(retries={"total_max_attempts": 1})
KEY = {"pk": {"S": "a"}}


def make_client(url: str) -> Any:
    """Return a client without retries, after creating the table."""
    client = boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", config=ONCE)
    client.create_table(
        TableName="tab",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


def get_refusal(client: Any, method: str, **request: Any) -> Any:
    """Call a method of the client that must be refused; return the response."""
    with pytest.raises(ClientError) as refused:
        getattr(client, method)(**request)
    return refused.value.response


def transact(client: Any) -> Any:
    """Put two items in a transaction that must be refused; return the response."""
    puts = [{"Put": {"TableName": "tab", "Item": {"pk": {"S": key}}}} for key in "ab"]
    return get_refusal(client, "transact_write_items", TransactItems=puts)


@contextmanager
def serve(*options: str) -> Iterator[str]:
    """Start the server from a shell; yield its address."""
    command = [sys.executable, "-m", "holdfast", "serve", "--memory", "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://\S+", process.stdout.readline())
            assert address is not None
            yield address[0]
        finally:
            process.terminate()


def test_boto3_sees_the_services_throttling_error() -> None:
    with open_tables(faults=EngineFaults(throttled=1.0)) as tables, start_server(tables=tables) as url:
        client = make_client(url)
        for response in (
            get_refusal(client, "put_item", TableName="tab", Item=KEY),
            get_refusal(client, "get_item", TableName="tab", Key=KEY),
            get_refusal(client, "scan", TableName="tab"),
        ):
            assert response["Error"]["Code"] == "ProvisionedThroughputExceededException"
            assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert client.describe_table(TableName="tab")["Table"]["ItemCount"] == 0


def test_boto3_sees_a_conflict_with_a_reason_for_each_action() -> None:
    with open_tables(faults=EngineFaults(conflicts=1.0)) as tables, start_server(tables=tables) as url:
        client = make_client(url)
        response = transact(client)
        assert response["Error"]["Code"] == "TransactionCanceledException"
        assert response["CancellationReasons"] == [
            {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"},
            {"Code": "None"},
        ]
        single = get_refusal(client, "put_item", TableName="tab", Item=KEY)
        assert single["Error"]["Code"] == "TransactionConflictException"
        assert tables.run_blocking(Scan("tab")).count == 0


def test_serve_injects_the_configured_faults() -> None:
    with serve("--conflicts", "1") as url:
        client = make_client(url)
        assert transact(client)["Error"]["Code"] == "TransactionCanceledException"
        assert client.scan(TableName="tab")["Count"] == 0
