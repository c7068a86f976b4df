"""Malformed requests to the DynamoDB endpoint over HTTP: a 4xx with a DynamoDB error, no changed item.

The server runs in this process. The tests print their seed; HOLDFAST_SOAK=1 sends ten times as much.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.operations.tables import CreateTable, KeyAttribute, KeySchema, PutItem, Scan, TableDefinition
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.wire.http.server import start_server
from holdfast.wire.operations import CODECS

SEED = int(os.environ.get("HOLDFAST_SEED", "20261115"))
ROUNDS = 3000 if os.environ.get("HOLDFAST_SOAK") else 300
TARGETS = sorted(CODECS)
TABLE = "Kept"
KEPT: Item = {"pk": "a", "sk": 1, "text": "as it was", "map": {"list": [1, {"deep": b"x"}]}}
KEY = {"pk": {"S": "a"}, "sk": {"N": "1"}}
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test/20261115/us-east-1/dynamodb/aws4_request,"
    " SignedHeaders=host;x-amz-date, Signature=" + "0" * 64
)

Send = Callable[[str, bytes], tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def tables() -> Iterator[EmbeddedTables]:
    with open_tables() as opened:
        definition = TableDefinition(
            TABLE,
            (KeyAttribute("pk", "S"), KeyAttribute("sk", "N")),
            KeySchema("pk", "sk"),
            billing_mode="PAY_PER_REQUEST",
            deletion_protection=True,
        )
        opened.run_blocking(CreateTable(definition))
        opened.run_blocking(PutItem(TABLE, KEPT))
        yield opened


@pytest.fixture(scope="module")
def send(tables: EmbeddedTables) -> Iterator[Send]:
    with start_server(tables=tables) as url, make_sender(url) as sender:
        yield sender


@contextmanager
def make_sender(url: str) -> Iterator[Send]:
    """Yield a function that sends a body to a target and returns the status and the JSON of the response."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)

    def send(target: str, body: bytes) -> tuple[int, dict[str, Any]]:
        headers = {
            "X-Amz-Target": target,
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Date": "20261115T100000Z",
            "Authorization": AUTHORIZATION,
        }
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    yield send
    connection.close()


def assert_refused(send: Send, tables: EmbeddedTables, target: str, body: bytes) -> None:
    """Check that the request gets a 4xx with an error type, and that the table is unchanged."""
    status, answer = send(target, body)
    assert 400 <= status < 500, (target, body[:500], answer)
    assert "#" in answer["__type"]
    assert tables.run_blocking(Scan(TABLE)).items == [KEPT]


def test_random_bytes_are_refused(send: Send, tables: EmbeddedTables) -> None:
    chance = make_random()
    for _ in range(ROUNDS):
        assert_refused(send, tables, chance.choice(TARGETS), chance.randbytes(chance.randrange(1, 200)))


def test_request_with_changed_bytes_causes_no_500_and_no_change(send: Send, tables: EmbeddedTables) -> None:
    """A changed byte may leave a legal read; it must never be a 500 or change the table."""
    chance = make_random()
    read = json.dumps({"TableName": TABLE, "Key": KEY, "ProjectionExpression": "pk, #m.list[1]"}).encode()
    for _ in range(ROUNDS):
        body = bytearray(read)
        for _ in range(chance.randrange(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        status, answer = send("DynamoDB_20120810.GetItem", bytes(body))
        assert status < 500, (bytes(body), answer)
    assert tables.run_blocking(Scan(TABLE)).items == [KEPT]


def _nest(levels: int, opening: str, core: str, closing: str) -> str:
    """Return the core inside so many opening and closing texts."""
    return opening * levels + core + closing * levels


DEEP = 5000
BODIES: dict[str, str | bytes] = {
    "nothing": b"",
    "a list": "[]",
    "null": "null",
    "a number": "1",
    "half an object": '{"TableName": "Kept"',
    "bad UTF-8": b'{"TableName": "\xff\xfe"}',
    "a lone surrogate": '{"TableName": "Kept", "Item": {"pk": {"S": "\\ud800"}, "sk": {"N": "1"}}}',
    "lists nested thousands deep": '{"TableName": ' + _nest(DEEP, "[", "1", "]") + "}",
    "objects nested thousands deep": '{"TableName": ' + _nest(DEEP, '{"a":', "1", "}") + "}",
    "a value nested thousands deep": '{"TableName": "Kept", "Item": {"pk": {"S": "a"}, "sk": {"N": "1"}, "x": '  # noqa: E501
    + _nest(DEEP, '{"L": [', '{"NULL": true}', "]}")
    + "}}",
    "a value nested forty deep": '{"TableName": "Kept", "Item": {"pk": {"S": "a"}, "sk": {"N": "1"}, "x": '
    + _nest(40, '{"L": [', '{"NULL": true}', "]}")
    + "}}",
    "a condition nested thousands deep": json.dumps(
        {
            "TableName": TABLE,
            "Item": KEY,
            "ConditionExpression": _nest(2000, "(", "attribute_exists(pk)", ")"),
        }
    ),
    "a chain of NOT": json.dumps(
        {"TableName": TABLE, "Item": KEY, "ConditionExpression": "NOT " * 1000 + "attribute_exists(pk)"}
    ),
    "a number of a million digits": json.dumps(
        {"TableName": TABLE, "Item": {**KEY, "n": {"N": "9" * 1_000_000}}}
    ),
    "an exponent of a thousand digits": json.dumps(
        {"TableName": TABLE, "Item": {**KEY, "n": {"N": "1e" + "9" * 1000}}}
    ),
    "a huge JSON number": '{"TableName": "Kept", "Limit": 1' + "0" * 400 + "}",
    "not a number": '{"TableName": "Kept", "Limit": NaN}',
    "a duplicate key": '{"TableName": "Kept", "TableName": 5}',
    "a wrong type everywhere": '{"TableName": [], "Item": 1, "Key": "x", "Limit": {}, "RequestItems": []}',
    "an unknown type tag": json.dumps({"TableName": TABLE, "Item": {"pk": {"X": "a"}}}),
    "two type tags": json.dumps({"TableName": TABLE, "Item": {"pk": {"S": "a", "N": "1"}}}),
    "an item over 400 KB": json.dumps({"TableName": TABLE, "Item": {**KEY, "x": {"S": "x" * 420_000}}}),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_writes_reject_malformed_input(send: Send, tables: EmbeddedTables, body: str | bytes) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    for operation in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"):
        assert_refused(send, tables, f"DynamoDB_20120810.{operation}", raw)


def test_wrong_types_never_cause_a_server_error(send: Send, tables: EmbeddedTables) -> None:
    chance = make_random()
    for _ in range(ROUNDS):
        target = chance.choice(TARGETS)
        status, answer = send(target, json.dumps(make_nonsense(chance, 3)).encode())
        assert status < 500, (target, answer)
    assert tables.run_blocking(Scan(TABLE)).items == [KEPT]


MEMBERS = (
    "TableName Key Item RequestItems TransactItems KeyConditionExpression FilterExpression UpdateExpression "
    "ConditionExpression ProjectionExpression ExpressionAttributeNames ExpressionAttributeValues Limit "
    "Select ExclusiveStartKey IndexName ReturnValues ReturnConsumedCapacity Segment TotalSegments StreamArn "
    "ShardIterator ShardId BackupArn BackupName AttributeDefinitions KeySchema BillingMode "
    "GlobalSecondaryIndexUpdates TimeToLiveSpecification SourceTableName TargetTableName RestoreDateTime S "
    "N B SS NS BS L M NULL BOOL pk sk"
).split()


def make_nonsense(chance: Random, levels: int) -> Any:
    """Make a JSON value of names that the protocol knows, with values that it does not expect there."""
    if levels == 0 or chance.random() < 0.3:
        return chance.choice(
            ["", "a", "Kepd", "1", -1, 0, 10**30, 1.5, True, None, [], {}, "é\u0000", "attribute_exists(a)"]
        )
    if chance.random() < 0.3:
        return [make_nonsense(chance, levels - 1) for _ in range(chance.randrange(3))]
    return {chance.choice(MEMBERS): make_nonsense(chance, levels - 1) for _ in range(chance.randrange(6))}


def make_random() -> Random:
    print(f"seed {SEED}; HOLDFAST_SEED sets another")  # noqa: T201
    return Random(SEED)
