"""Every number and time of every request, from AWS's own service model: no value causes a server error.

The requests go through decoder, engine and encoder in this process. Each has the members that AWS requires,
and one number that is too large, too small, or none at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import botocore.session
import pytest
from botocore.model import Shape

from holdfast.core.errors import HoldfastError
from holdfast.operations.tables import (
    CreateBackup,
    CreateTable,
    KeyAttribute,
    KeySchema,
    TableDefinition,
    UpdateContinuousBackups,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.wire.arns import DEFAULT_LOCATION
from holdfast.wire.dispatch import decode, encode, encode_error
from holdfast.wire.operations import CODECS

NUMBERS: Final = ("integer", "long", "float", "double", "timestamp")
SERVICES: Final = {"DynamoDB_20120810": "dynamodb", "DynamoDBStreams_20120810": "dynamodbstreams"}
ARN: Final = "arn:aws:dynamodb:us-east-1:000000000000:table/Kept"
# What the members with these names have in a request that the engine can run.
TEXTS: Final = {
    "TableName": "Kept",
    "SourceTableName": "Kept",
    "TargetTableName": "Restored",
    "AttributeName": "pk",
    "BackupArn": f"{ARN}/backup/01489602797149-73d8d5bc",
    "StreamArn": f"{ARN}/stream/2026-01-01T00:00:00.000",
    "ResourceArn": ARN,
}
# JSON as the client writes it: digits beyond every type, exponents, and what is not JSON at all.
LITERALS: Final = (
    "1" + "0" * 400,
    "-1" + "0" * 400,
    "9" * 4300,
    "9" * 5000,
    "1e400",
    "-1e400",
    "1E+308",
    "-1e308",
    "1e-400",
    "-0.0",
    "1.5",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "253402300800",
    "NaN",
    "-Infinity",
    "01",
    "1e",
    "true",
    '"1"',
    '"1e400"',
    "[]",
    "{}",
    "null",
)
PLACE: Final = "the number"

Path = tuple[str | int, ...]


@pytest.fixture(scope="module")
def tables() -> Iterator[EmbeddedTables]:
    """Open an engine with a table that has a backup and can be restored to a point in time."""
    definition = TableDefinition(
        "Kept", (KeyAttribute("pk", "S"),), KeySchema("pk"), billing_mode="PAY_PER_REQUEST"
    )
    with open_tables() as opened:
        opened.run_blocking(CreateTable(definition))
        opened.run_blocking(UpdateContinuousBackups("Kept", enabled=True))
        opened.run_blocking(CreateBackup("Kept", "copy"))
        yield opened


def list_paths(shape: Any, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the path of every number in a shape; a shape inside itself is visited once."""
    if shape.type_name in NUMBERS:
        yield ()
    elif shape.name not in above:
        for name, member in list_members(shape):
            yield from ((name, *path) for path in list_paths(member, (*above, shape.name)))


def list_members(shape: Any) -> list[tuple[str | int, Any]]:
    match shape.type_name:
        case "structure":
            return list(shape.members.items())
        case "list":
            return [(0, shape.member)]
        case "map":
            return [("Kept", shape.value)]
    return []


def build_value(shape: Any, name: str, path: Path | None) -> Any:
    """Build a value of a shape with its required members, and `PLACE` at the end of the path."""
    if path == ():
        return PLACE
    wanted = None if path is None else path[0]
    inner = {
        member_name: build_value(
            member, str(member_name), None if path is None or member_name != wanted else path[1:]
        )
        for member_name, member in list_members(shape)
        if member_name == wanted or shape.type_name != "structure" or member_name in shape.required_members
    }
    match shape.type_name:
        case "structure" | "map":
            return inner
        case "list":
            return list(inner.values())
        case "string":
            return TEXTS.get(name) or next(iter(shape.enum), "text")
    return True if shape.type_name == "boolean" else 1


@cache
def get_input_shape(target: str) -> Shape:
    service, _, operation = target.partition(".")
    model = botocore.session.get_session().get_service_model(SERVICES[service])
    shape: Shape = model.operation_model(operation).input_shape
    return shape


CASES: Final = [(target, path) for target in sorted(CODECS) for path in list_paths(get_input_shape(target))]


def send(tables: EmbeddedTables, target: str, body: str) -> tuple[int, str]:
    """Return the status and the message of the response."""
    try:
        codec, operation = decode(target, body.encode())
        encode(codec, operation, tables.run_blocking(operation), DEFAULT_LOCATION)
    except Exception as error:
        message = error.message if isinstance(error, HoldfastError) else repr(error)
        return encode_error(error)[0], message
    return 200, ""


def test_every_number_of_the_service_is_a_case() -> None:
    assert len(CASES) >= 70
    names = {path[-1] for _, path in CASES}
    assert names >= {"Limit", "Segment", "ReadCapacityUnits", "TimeRangeLowerBound", "RestoreDateTime"}


def test_no_number_causes_a_server_error(tables: EmbeddedTables) -> None:
    failures = []
    for target, path in CASES:
        request = json.dumps(build_value(get_input_shape(target), "", path))
        assert request.count(PLACE) == 1, (target, path, request)
        for literal in LITERALS:
            status, message = send(tables, target, request.replace(f'"{PLACE}"', literal))
            if status >= 500:
                failures.append((target, path, literal[:20], message))
    assert failures == []


@pytest.mark.parametrize(
    ("target", "member", "literal", "message"),
    [
        ("ListBackups", "TimeRangeLowerBound", "1" + "0" * 400, "NUMBER_VALUE cannot be converted to Date"),
        ("ListBackups", "TimeRangeLowerBound", '"1"', "STRING_VALUE cannot be converted to Date"),
        ("ListBackups", "TimeRangeLowerBound", "1e400", ""),
        ("ListBackups", "TimeRangeLowerBound", "NaN", ""),
        ("ListBackups", "Limit", "1e20", "Numeric value (100000000000000000000) out of range of Integer"),
        ("ListTables", "Limit", "2147483648", "Numeric value (2147483648) out of range of Integer"),
    ],
)
def test_number_out_of_range_is_a_serialization_error(
    tables: EmbeddedTables, target: str, member: str, literal: str, message: str
) -> None:
    body = f'{{"{member}": {literal}}}'
    with pytest.raises(HoldfastError) as refused:
        decode(f"DynamoDB_20120810.{target}", body.encode())
    assert (refused.value.code, refused.value.message) == ("SerializationException", message)


def test_time_far_away_finds_the_backups_on_its_side(tables: EmbeddedTables) -> None:
    target = "DynamoDB_20120810.ListBackups"
    for bound, literal, found in (
        ("TimeRangeUpperBound", "1e300", 1),
        ("TimeRangeLowerBound", "1e300", 0),
        ("TimeRangeLowerBound", "-1e300", 1),
    ):
        codec, operation = decode(target, f'{{"{bound}": {literal}}}'.encode())
        response = json.loads(encode(codec, operation, tables.run_blocking(operation), DEFAULT_LOCATION))
        assert len(response["BackupSummaries"]) == found
