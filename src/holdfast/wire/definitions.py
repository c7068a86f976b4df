"""Definitions of tables and indexes in requests: their shapes, their checks, and the values they become.

CreateTable, UpdateTable and the two restores accept the same members. This module holds what they share: the
shapes (AWS's names and order of errors), the checks that need no table, and the functions that turn a checked
request into frozen definitions. `descriptions.py` is the inverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import IndexDefinition, IndexProjection, KeyAttribute, KeySchema, Throughput
from holdfast.wire.shapes import (
    ListOf,
    Request,
    Shape,
    Structure,
    Text,
    boolean,
    index_name,
    list_of,
    long,
    string,
    structure,
)
from holdfast.wire.values import INVALID

MAX_CAPACITY_UNITS: Final = 1_000_000_000_000
TABLE_CLASSES: Final = ("STANDARD", "STANDARD_INFREQUENT_ACCESS")
PAY_PER_REQUEST: Final = "PAY_PER_REQUEST"
PROVISIONED: Final = "PROVISIONED"

UNITS_WITH_ON_DEMAND: Final = (
    f"{INVALID}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is "
    "PAY_PER_REQUEST"
)
UNKNOWN_TABLE_CLASS: Final = (
    "Invalid table-class parameter provided. Please try again with a valid table-class value: "
    "[STANDARD, STANDARD_INFREQUENT_ACCESS]."
)


# --- shapes -------------------------------------------------------------------------------------------------


class UnsupportedShape(Shape):
    """A member that DynamoDB supports and Holdfast does not. It is kept unchanged for
    `refuse_unsupported`.
    """

    def read(self, value: Any, is_element: bool = False) -> Any:
        """Return the value unchanged and unchecked."""
        return value


def unsupported_shape() -> Shape:
    """Return the shape of a member that Holdfast does not support."""
    return UnsupportedShape(False, ())


def attribute_definitions_shape(*, required: bool = False) -> ListOf:
    definition = structure(
        "AttributeDefinition",
        AttributeName=string(required=True, min_length=1, max_length=255),
        AttributeType=string(required=True, enum=("B", "N", "S")),
    )
    return list_of(definition, required=required)


def key_schema_shape() -> ListOf:
    element = structure(
        "KeySchemaElement",
        AttributeName=string(required=True, min_length=1, max_length=255),
        KeyType=string(required=True, enum=("HASH", "RANGE")),
    )
    return list_of(element, required=True, min_length=1, max_length=2)


def provisioned_throughput_shape(*, required: bool = False) -> Structure:
    return structure(
        "ProvisionedThroughput",
        required=required,
        WriteCapacityUnits=long(required=True, minimum=1),
        ReadCapacityUnits=long(required=True, minimum=1),
    )


def projection_shape() -> Structure:
    return structure(
        "Projection",
        required=True,
        ProjectionType=string(enum=("ALL", "INCLUDE", "KEYS_ONLY")),
        NonKeyAttributes=list_of(string(min_length=1, max_length=255), min_length=1, max_length=20),
    )


def local_secondary_indexes_shape() -> ListOf:
    return list_of(
        structure(
            "LocalSecondaryIndex",
            IndexName=index_name(required=True),
            KeySchema=key_schema_shape(),
            Projection=projection_shape(),
        )
    )


def global_secondary_indexes_shape() -> ListOf:
    return list_of(global_secondary_index_shape("GlobalSecondaryIndex"))


def global_secondary_index_shape(java_name: str) -> Structure:
    """Return the shape of a new global secondary index; `java_name` is AWS's class name for it in error
    texts.
    """
    return structure(
        java_name,
        IndexName=index_name(required=True),
        KeySchema=key_schema_shape(),
        Projection=projection_shape(),
        ProvisionedThroughput=provisioned_throughput_shape(),
        OnDemandThroughput=unsupported_shape(),
        WarmThroughput=unsupported_shape(),
    )


def billing_mode_shape() -> Text:
    return string(enum=(PROVISIONED, PAY_PER_REQUEST))


def stream_specification_shape() -> Structure:
    return structure(
        "StreamSpecification",
        StreamEnabled=boolean(required=True),
        StreamViewType=string(enum=("NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY")),
    )


def sse_specification_shape() -> Structure:
    return structure(
        "SSESpecification",
        Enabled=boolean(),
        SSEType=string(enum=("AES256", "KMS")),
        KMSMasterKeyId=string(),
    )


# --- rules --------------------------------------------------------------------------------------------------


def refuse_unsupported(request: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise `InvalidRequest` for a named member that is present: Holdfast does not support it, and a later
    Describe would have to show it or a caller would rely on it.
    """
    for name in names:
        if name in request:
            raise InvalidRequest(f"{INVALID}{name} is not supported by Holdfast; leave it out")


def refuse_unsupported_in_index(index: Request) -> None:
    """Raise `InvalidRequest` for unsupported members of an index."""
    refuse_unsupported(index, ("OnDemandThroughput", "WarmThroughput"))


def check_encryption(specification: Request | None) -> None:
    """Raise `InvalidRequest` for encryption with a KMS key and for contradictory members. Every table uses
    the service's own key anyway, and Describe does not show it; a KMS key would have to be shown.
    """
    if specification is None:
        return
    enabled = specification.get("Enabled", "SSEType" in specification or "KMSMasterKeyId" in specification)
    if enabled and "KMSMasterKeyId" in specification and "SSEType" not in specification:
        raise InvalidRequest(f"{INVALID}SSEType KMS is required if KMSMasterKeyId is specified")
    for name in ("SSEType", "KMSMasterKeyId"):
        if not enabled and name in specification:
            raise InvalidRequest(f"{INVALID}{name} can not be specified if Enabled is false")
    if specification.get("SSEType") == "AES256":
        raise InvalidRequest(f"{INVALID}SSEType AES256 is not supported")
    if enabled:
        raise InvalidRequest(
            f"{INVALID}SSESpecification with a KMS key is not supported by Holdfast; leave it out and "
            "encrypt the disk that holds the store"
        )


def check_table_class(table_class: str | None) -> None:
    """Raise `InvalidRequest` for an unknown table class; None is allowed."""
    if table_class is not None and table_class not in TABLE_CLASSES:
        raise InvalidRequest(UNKNOWN_TABLE_CLASS)


def check_units_in_bounds(throughput: Request) -> None:
    """Raise `InvalidRequest` for more capacity units than DynamoDB's upper bound."""
    for name in ("ReadCapacityUnits", "WriteCapacityUnits"):
        if throughput[name] > MAX_CAPACITY_UNITS:
            raise InvalidRequest(f"Given value {throughput[name]} for {name} is out of bounds")


def check_attribute_names_differ(definitions: list[Request]) -> None:
    """Raise `InvalidRequest` if an attribute is defined twice."""
    duplicate = find_duplicate(definition["AttributeName"] for definition in definitions)
    if duplicate is not None:
        raise InvalidRequest(f"Attribute Name is duplicated: {duplicate}")


def check_keys_defined(schema: list[Request], definitions: list[Request]) -> None:
    """Raise `InvalidRequest` if a key attribute is missing from AttributeDefinitions."""
    keys = [element["AttributeName"] for element in schema]
    defined = [definition["AttributeName"] for definition in definitions]
    if not set(keys) <= set(defined):
        raise InvalidRequest(
            f"{INVALID}Some index key attributes are not defined in AttributeDefinitions. "
            f"Keys: [{', '.join(keys)}], AttributeDefinitions: [{', '.join(defined)}]"
        )


def check_key_order(schema: list[Request]) -> None:
    """Require one HASH key, then at most one RANGE key with another name."""
    if len(schema) > 1 and schema[0]["AttributeName"] == schema[1]["AttributeName"]:
        raise InvalidRequest(
            "Both the Hash Key and the Range Key element in the KeySchema have the same name"
        )
    if schema[0]["KeyType"] != "HASH":
        raise InvalidRequest("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
    if len(schema) > 1 and schema[1]["KeyType"] != "RANGE":
        raise InvalidRequest("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")


def check_projection(projection: Request) -> None:
    """Raise `InvalidRequest` for a missing projection type, or NonKeyAttributes that do not fit it or repeat
    a name.
    """
    kind, attributes = projection.get("ProjectionType"), projection.get("NonKeyAttributes")
    if kind is None:
        raise InvalidRequest(f"{INVALID}Unknown ProjectionType: null")
    if attributes is None:
        if kind == "INCLUDE":
            raise InvalidRequest(f"{INVALID}ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
        return
    if kind != "INCLUDE":
        raise InvalidRequest(f"{INVALID}ProjectionType is {kind}, but NonKeyAttributes is specified")
    duplicate = find_duplicate(attributes)
    if duplicate is not None:
        raise InvalidRequest(f"{INVALID}Duplicate element in NonKeyAttributes: {duplicate}")


def find_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


# --- readers ------------------------------------------------------------------------------------------------


def parse_key_attributes(definitions: list[Request]) -> tuple[KeyAttribute, ...]:
    return tuple(KeyAttribute(each["AttributeName"], each["AttributeType"]) for each in definitions)


def parse_key_schema(schema: list[Request]) -> KeySchema:
    """Return the keys of a checked schema: partition key, then sort key."""
    return KeySchema(*(element["AttributeName"] for element in schema))


def parse_throughput(specification: Request | None) -> Throughput | None:
    """Return the throughput of a checked specification, or None if there is none."""
    return (
        None
        if specification is None
        else Throughput(specification["ReadCapacityUnits"], specification["WriteCapacityUnits"])
    )


def parse_index(specification: Request) -> IndexDefinition:
    """Return the definition of a checked index, local or global."""
    projected = specification["Projection"]
    return IndexDefinition(
        name=specification["IndexName"],
        keys=parse_key_schema(specification["KeySchema"]),
        projection=IndexProjection(projected["ProjectionType"], tuple(projected.get("NonKeyAttributes", ()))),
        throughput=parse_throughput(specification.get("ProvisionedThroughput")),
    )
