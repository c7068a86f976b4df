"""Fixtures of every conformance test: an endpoint, its clients, and tables.

The endpoint is `HOLDFAST_CONFORMANCE_ENDPOINT` when set (any DynamoDB-compatible address), otherwise
Holdfast's own server, in process and in memory, one per test process. Table names are never used twice, so
tests may run in any order and in several processes against one endpoint.

    make_table("pk:S", "sk:N", gsi=[index("by_kind", "kind:S")])   any table, deleted when the test ends
    hash_table, range_table, number_table, binary_table            the usual ones, fresh for each test
    shared_hash_table, shared_range_table, shared_index_table      one per module, for refused requests
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from .protocol import ACCESS_KEY, REGION, SECRET_KEY, Raw

ENDPOINT_VARIABLE = "HOLDFAST_CONFORMANCE_ENDPOINT"
ACTIVE_WITHIN_S = 30.0
# Provisioned, because older emulators do not know on-demand billing.
THROUGHPUT = {"ReadCapacityUnits": 100, "WriteCapacityUnits": 100}

MakeTable = Callable[..., str]


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Yield the URL of the endpoint under test."""
    configured = os.environ.get(ENDPOINT_VARIABLE)
    if configured:
        yield configured
        return
    from holdfast.wire.http.server import start_server

    with start_server(memory=True) as url:
        yield url


@pytest.fixture(scope="session")
def dynamodb(endpoint: str) -> Iterator[Any]:
    """Yield a boto3 DynamoDB client of the endpoint that does not retry."""
    yield from _client("dynamodb", endpoint)


@pytest.fixture(scope="session")
def streams(endpoint: str) -> Iterator[Any]:
    """Yield a boto3 DynamoDB Streams client of the endpoint."""
    yield from _client("dynamodbstreams", endpoint)


@pytest.fixture(scope="session")
def raw(endpoint: str) -> Iterator[Raw]:
    """Yield a client that sends requests exactly as given."""
    client = Raw(endpoint)
    yield client
    client.close()


@pytest.fixture(scope="session")
def await_active(dynamodb: Any) -> Callable[[str], dict[str, Any]]:
    """Return a function that waits until a table and all its indexes are ACTIVE, and returns its
    description.
    """

    def wait(name: str) -> dict[str, Any]:
        deadline = time.monotonic() + ACTIVE_WITHIN_S
        while True:
            table: dict[str, Any] = dynamodb.describe_table(TableName=name)["Table"]
            if _is_active(table):
                return table
            assert time.monotonic() < deadline, f"{name} is still {table['TableStatus']}"
            time.sleep(0.02)

    return wait


@pytest.fixture
def make_table(dynamodb: Any, await_active: Callable[[str], dict[str, Any]]) -> Iterator[MakeTable]:
    """Yield a function that creates tables, which are deleted when the test ends."""
    yield from _make_tables(dynamodb, await_active)


@pytest.fixture(scope="module")
def make_shared_table(dynamodb: Any, await_active: Callable[[str], dict[str, Any]]) -> Iterator[MakeTable]:
    """Yield a function that creates tables, which are deleted when the module ends."""
    yield from _make_tables(dynamodb, await_active)


@pytest.fixture
def hash_table(make_table: MakeTable) -> str:
    return make_table("pk:S")


@pytest.fixture
def range_table(make_table: MakeTable) -> str:
    return make_table("pk:S", "sk:S")


@pytest.fixture
def number_table(make_table: MakeTable) -> str:
    return make_table("pk:S", "sk:N")


@pytest.fixture
def binary_table(make_table: MakeTable) -> str:
    return make_table("pk:S", "sk:B")


@pytest.fixture(scope="module")
def shared_hash_table(make_shared_table: MakeTable) -> str:
    return make_shared_table("pk:S")


@pytest.fixture(scope="module")
def shared_range_table(make_shared_table: MakeTable) -> str:
    return make_shared_table("pk:S", "sk:S")


@pytest.fixture(scope="module")
def shared_index_table(make_shared_table: MakeTable) -> str:
    """Create a table with the key pk, sk, the local index `by_size` on the number `size`, and the global
    index `by_kind` on `kind` and `at`.
    """
    return make_shared_table(
        "pk:S", "sk:S", lsi=[index("by_size", "pk:S", "size:N")], gsi=[index("by_kind", "kind:S", "at:S")]
    )


def unique_name(prefix: str = "conformance") -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def index(
    name: str,
    hash_key: str,
    range_key: str | None = None,
    *,
    projection: str = "ALL",
    include: list[str] | None = None,
) -> dict[str, Any]:
    """Return an index as CreateTable takes it, plus the attribute definitions it needs under
    `"attributes"`.
    """
    shape: dict[str, Any] = {"ProjectionType": "INCLUDE", "NonKeyAttributes": include} if include else {}
    return {
        "IndexName": name,
        "KeySchema": _key_schema(hash_key, range_key),
        "Projection": shape or {"ProjectionType": projection},
        "attributes": [attribute for attribute in (hash_key, range_key) if attribute],
    }


def _client(service: str, endpoint: str) -> Iterator[Any]:
    client = boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=32, parameter_validation=True),
    )
    yield client
    client.close()


def _is_active(table: dict[str, Any]) -> bool:
    indexes = table.get("GlobalSecondaryIndexes", [])
    return table["TableStatus"] == "ACTIVE" and all(entry["IndexStatus"] == "ACTIVE" for entry in indexes)


def _make_tables(dynamodb: Any, await_active: Callable[[str], dict[str, Any]]) -> Iterator[MakeTable]:
    """Yield `make("pk:S", "sk:N", lsi=[...], gsi=[...], **more)`; `more` goes to CreateTable unchanged."""
    made: list[str] = []

    def make(
        hash_key: str,
        range_key: str | None = None,
        *,
        lsi: list[dict[str, Any]] | None = None,
        gsi: list[dict[str, Any]] | None = None,
        **more: Any,
    ) -> str:
        request: dict[str, Any] = {"TableName": unique_name(), "KeySchema": _key_schema(hash_key, range_key)}
        request |= _split_indexes_and_attributes([hash_key, range_key], lsi or [], gsi or [])
        request |= _throughput(request, more) | more
        dynamodb.create_table(**request)
        made.append(request["TableName"])
        await_active(request["TableName"])
        return str(request["TableName"])

    yield make
    for name in made:
        _delete_if_exists(dynamodb, name)


def _split_indexes_and_attributes(
    keys: list[str | None], lsi: list[dict[str, Any]], gsi: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the indexes and all attribute definitions as CreateTable's members."""
    attributes = [key for key in keys if key]
    request: dict[str, Any] = {}
    for member, entries in (("LocalSecondaryIndexes", lsi), ("GlobalSecondaryIndexes", gsi)):
        for entry in entries:
            attributes += entry["attributes"]
        if entries:
            request[member] = [{k: v for k, v in entry.items() if k != "attributes"} for entry in entries]
    request["AttributeDefinitions"] = [_definition(attribute) for attribute in dict.fromkeys(attributes)]
    return request


def _throughput(request: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the default throughput, also set on each global index, unless the caller chose the billing."""
    if "BillingMode" in more or "ProvisionedThroughput" in more:
        return {}
    for entry in request.get("GlobalSecondaryIndexes", []):
        entry["ProvisionedThroughput"] = THROUGHPUT
    return {"ProvisionedThroughput": THROUGHPUT}


def _key_schema(hash_key: str, range_key: str | None) -> list[dict[str, str]]:
    schema = [{"AttributeName": hash_key.partition(":")[0], "KeyType": "HASH"}]
    if range_key:
        schema.append({"AttributeName": range_key.partition(":")[0], "KeyType": "RANGE"})
    return schema


def _definition(attribute: str) -> dict[str, str]:
    """Return the attribute definition of a text such as `pk:S`."""
    name, _, kind = attribute.partition(":")
    return {"AttributeName": name, "AttributeType": kind}


def _delete_if_exists(dynamodb: Any, name: str) -> None:
    try:
        dynamodb.delete_table(TableName=name)
    except dynamodb.exceptions.ResourceNotFoundException:
        pass
