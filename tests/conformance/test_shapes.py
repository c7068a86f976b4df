"""JSON of the wrong type in each member of each operation, generated from the SDK's model of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape

from holdfast.wire.operations import CODECS
from tests.cases import collect_failures

from .protocol import DYNAMODB, STREAMS, Raw

Wrong = tuple[Any, str]

NAMESPACE = "com.amazonaws.dynamodb.v20120810."
# DescribeLimits has no member.
TARGETS = sorted(CODECS.keys() - {f"{DYNAMODB}.DescribeLimits"})
# Members that Holdfast does not serve, whatever their type.
NOT_SERVED = {
    "DisassociationProtectionEnabled",
    "GlobalTableSettingsReplicationMode",
    "GlobalTableSourceArn",
    "GlobalTableWitnessUpdates",
    "MultiRegionConsistency",
    "OnDemandThroughput",
    "OnDemandThroughputOverride",
    "ReplicaUpdates",
    "ResourcePolicy",
    "ShardFilter",
    "Timestamp",
    "VectorIndexOverride",
    "VectorIndexUpdates",
    "VectorIndexes",
    "WarmThroughput",
}
JAVA_TYPES = {
    "string": "String",
    "boolean": "Boolean",
    "integer": "Integer",
    "long": "Long",
    "double": "Double",
    "timestamp": "Date",
}

NO_STRUCTURE = "Start of structure or map found where not expected"
NO_BASE64 = "only base-64-encoded strings are convertible to bytes"
NO_FIELD = "Unexpected field type"
NO_ELEMENT = "Unexpected value type in payload"
# AWS's text where a list or a map inside a list or a map is neither.
NO_NESTED = (
    "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class "
    "java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class "
    "are in module java.base of loader 'bootstrap')"
)


@pytest.mark.parametrize("target", TARGETS)
def test_json_of_another_type_is_refused_before_anything_else(raw: Raw, target: str) -> None:
    with collect_failures() as failures:
        for body, text in list_cases(target):
            with failures.of(json.dumps(body)):
                assert raw.refusal(target, body) == ("SerializationException", text)


def list_cases(target: str) -> Iterator[tuple[Any, str]]:
    """Yield each body with one member of the wrong type, and AWS's text for it."""
    version, _, operation = target.partition(".")
    model = load_model("dynamodbstreams" if version == STREAMS else "dynamodb")
    # Attribute values contain attribute values; all operations read them in the same way.
    levels = 2 if operation == "PutItem" else 1
    for name, member in model.operation_model(operation).input_shape.members.items():
        if name not in NOT_SERVED:
            for path, value, text in find_wrong(member, (name,), is_element=False, levels=levels):
                yield nest(path, value), text


@cache
def load_model(service: str) -> ServiceModel:
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


def nest(path: tuple[str, ...], value: Any) -> Any:
    """Return `{"A": [{"B": value}]}` for the path ("A", "0", "B")."""
    for part in reversed(path):
        value = [value] if part == "0" else {part: value}
    return value


def find_wrong(
    shape: Shape, path: tuple[str, ...], *, is_element: bool, levels: int
) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """Yield path, value and text of each wrong type at or below a path, for `levels` of attribute values."""
    yield from ((path, value, text) for value, text in list_wrong(shape, is_element=is_element))
    if shape.name == "AttributeValue":
        levels -= 1
    if levels < 0:
        return
    match shape.type_name:
        case "structure":
            for name, member in shape.members.items():
                if name not in NOT_SERVED:
                    yield from find_wrong(member, (*path, name), is_element=False, levels=levels)
        case "list":
            yield from find_wrong(shape.member, (*path, "0"), is_element=True, levels=levels)
        case "map":
            yield from find_wrong(shape.value, (*path, "table"), is_element=True, levels=levels)


def list_wrong(shape: Shape, *, is_element: bool) -> list[Wrong]:
    """Return the wrong JSON values for a shape, with AWS's texts."""
    match shape.type_name:
        case "structure":
            text = NO_ELEMENT if is_element else NO_FIELD
            wrong: list[Any] = [True, 23, "23"]
            return [
                *((value, text) for value in wrong),
                ([], f"Unrecognized collection type {java_type(shape)}"),
            ]
        case "list":
            text = NO_NESTED if is_element else NO_FIELD
            return [(True, text), (23, text), ("23", text), ({}, NO_STRUCTURE)]
        case "map":
            text = NO_NESTED if is_element else NO_FIELD
            return [
                (True, text),
                (23, text),
                ("23", text),
                ([], f"Unrecognized collection type {java_type(shape)}"),
            ]
        case "blob":
            return [
                (True, NO_BASE64),
                (23, NO_BASE64),
                ([], "Unrecognized collection type class java.nio.ByteBuffer"),
                ({}, NO_STRUCTURE),
                ("23456", "Base64 encoded length is expected a multiple of 4 bytes but found: 5"),
                ("+/+=", "Invalid last non-pad Base64 character dectected"),
            ]
        case kind:
            return [
                *list_wrong_scalars(JAVA_TYPES[kind]),
                ([], f"Unrecognized collection type class java.lang.{JAVA_TYPES[kind]}"),
                ({}, NO_STRUCTURE),
            ]


def list_wrong_scalars(kind: str) -> list[Wrong]:
    """Return the JSON scalars that AWS does not convert to this Java type."""
    numbers: list[Wrong] = [
        (23, f"NUMBER_VALUE cannot be converted to {kind}"),
        (34.56, f"DECIMAL_VALUE cannot be converted to {kind}"),
    ]
    booleans: list[Wrong] = [
        (True, f"TRUE_VALUE cannot be converted to {kind}"),
        (False, f"FALSE_VALUE cannot be converted to {kind}"),
    ]
    if kind == "String":
        return booleans + numbers
    if kind == "Boolean":
        return [*numbers, ("23", "Unexpected token received from parser")]
    return [*booleans, ("23", f"STRING_VALUE cannot be converted to {kind}")]


def java_type(shape: Shape, *, is_inner: bool = False) -> str:
    """Return the Java type that AWS's texts name for a structure or a map."""
    match shape.type_name:
        case "structure":
            found = NAMESPACE + shape.name
        case "map":
            return f"java.util.Map<java.lang.String, {java_type(shape.value, is_inner=True)}>"
        case "list":
            return f"java.util.List<{java_type(shape.member, is_inner=True)}>"
        case kind:
            found = f"java.lang.{JAVA_TYPES[kind]}"
    return found if is_inner else f"class {found}"
