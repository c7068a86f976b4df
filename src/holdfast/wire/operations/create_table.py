"""CreateTable on the wire: decode and check a complete table definition, and encode the new table.

Every rule that needs no other table is checked here, in DynamoDB's order: billing, the table's keys, the keys
of its indexes, whether every defined attribute is used, then the other settings of the indexes, the stream
and the rest.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_GLOBAL_INDEXES, MAX_LOCAL_INDEXES, MAX_PROJECTED_ATTRIBUTES
from holdfast.operations.tables import CreateTable, TableDefinition, TableDescription, Throughput
from holdfast.wire import definitions
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_table_description
from holdfast.wire.shapes import (
    Request,
    Response,
    boolean,
    list_of,
    string,
    structure,
    table_name_checked_first,
)
from holdfast.wire.values import INVALID

SHAPE = structure(
    "CreateTableInput",
    AttributeDefinitions=definitions.attribute_definitions_shape(required=True),
    TableName=table_name_checked_first(as_constraint=True),
    BillingMode=definitions.billing_mode_shape(),
    ProvisionedThroughput=definitions.provisioned_throughput_shape(),
    KeySchema=definitions.key_schema_shape(),
    GlobalSecondaryIndexes=definitions.global_secondary_indexes_shape(),
    LocalSecondaryIndexes=definitions.local_secondary_indexes_shape(),
    StreamSpecification=definitions.stream_specification_shape(),
    SSESpecification=definitions.sse_specification_shape(),
    TableClass=string(),
    DeletionProtectionEnabled=boolean(),
    Tags=list_of(structure("Tag", Key=string(required=True), Value=string(required=True))),
    ResourcePolicy=definitions.unsupported_shape(),
    WarmThroughput=definitions.unsupported_shape(),
    OnDemandThroughput=definitions.unsupported_shape(),
    GlobalTableSourceArn=definitions.unsupported_shape(),
    GlobalTableSettingsReplicationMode=definitions.unsupported_shape(),
    VectorIndexes=definitions.unsupported_shape(),
)
UNSUPPORTED: Final = (
    "ResourcePolicy",
    "WarmThroughput",
    "OnDemandThroughput",
    "GlobalTableSourceArn",
    "GlobalTableSettingsReplicationMode",
    "VectorIndexes",
)


def decode(request: Request) -> CreateTable:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    for check in (
        _check_billing,
        _check_table_keys,
        _check_local_index_keys,
        _check_global_index_keys,
        _check_attributes_used,
        _check_projections,
        _check_index_throughput,
        _check_index_names_differ,
        _check_index_counts,
        _check_stream,
        _check_table_class,
        _check_supported,
    ):
        check(request)
    return CreateTable(definition=_parse_definition(request))


def encode(operation: CreateTable, result: TableDescription, location: AwsLocation) -> Response:
    return {"TableDescription": encode_table_description(result, location)}


def _check_billing(request: Request) -> None:
    """Require throughput for a provisioned table (the default) and refuse it for an on-demand table."""
    given = request.get("ProvisionedThroughput")
    if request.get("BillingMode") == definitions.PAY_PER_REQUEST:
        if given is not None:
            raise InvalidRequest(definitions.UNITS_WITH_ON_DEMAND)
        return
    if given is None:
        raise InvalidRequest(
            f"{INVALID}ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is "
            "PROVISIONED"
        )
    definitions.check_units_in_bounds(given)


def _check_table_keys(request: Request) -> None:
    """Raise `InvalidRequest` for invalid keys, or for unused definitions of a table without indexes."""
    defined, schema = request["AttributeDefinitions"], request["KeySchema"]
    definitions.check_attribute_names_differ(defined)
    if len(schema) > len(defined):
        raise InvalidRequest("Invalid KeySchema: Some index key attribute have no definition")
    definitions.check_keys_defined(schema, defined)
    definitions.check_key_order(schema)
    if len(schema) != len(defined) and not _has_indexes(request):
        raise InvalidRequest(
            f"{INVALID}Number of attributes in KeySchema does not exactly match number of attributes defined "
            "in AttributeDefinitions"
        )


def _has_indexes(request: Request) -> bool:
    return "LocalSecondaryIndexes" in request or "GlobalSecondaryIndexes" in request


def _check_local_index_keys(request: Request) -> None:
    """Raise `InvalidRequest` for invalid local indexes; the table needs a sort key."""
    indexes = request.get("LocalSecondaryIndexes")
    if indexes is None:
        return
    if not indexes:
        raise InvalidRequest(f"{INVALID}List of LocalSecondaryIndexes is empty")
    if len(request["KeySchema"]) != 2:
        raise InvalidRequest(
            f"{INVALID}Table KeySchema does not have a range key, which is required when specifying a "
            "LocalSecondaryIndex"
        )
    for index in indexes:
        _check_index_keys(index, request)
        _check_one_local_index_keys(index, request["KeySchema"][0]["AttributeName"])


def _check_one_local_index_keys(index: Request, table_hash: str) -> None:
    """Require the table's partition key (`table_hash`) and a sort key."""
    name, schema = index["IndexName"], index["KeySchema"]
    if len(schema) != 2:
        raise InvalidRequest(f"{INVALID}Index KeySchema does not have a range key for index: {name}")
    index_hash = schema[0]["AttributeName"]
    if index_hash != table_hash:
        raise InvalidRequest(
            f"{INVALID}Index KeySchema does not have the same leading hash key as table KeySchema for index: "
            f"{name}. index hash key: {index_hash}, table hash key: {table_hash}"
        )


def _check_global_index_keys(request: Request) -> None:
    """Raise `InvalidRequest` for an empty list, or an index with invalid keys."""
    indexes = request.get("GlobalSecondaryIndexes")
    if indexes is None:
        return
    if not indexes:
        raise InvalidRequest(f"{INVALID}List of GlobalSecondaryIndexes is empty")
    for index in indexes:
        _check_index_keys(index, request)


def _check_index_keys(index: Request, request: Request) -> None:
    definitions.check_keys_defined(index["KeySchema"], request["AttributeDefinitions"])
    definitions.check_key_order(index["KeySchema"])


def _check_attributes_used(request: Request) -> None:
    """Raise `InvalidRequest` if a defined attribute is a key of neither the table nor an index."""
    schemas = [request["KeySchema"], *(index["KeySchema"] for index in _get_indexes(request))]
    used = list(dict.fromkeys(element["AttributeName"] for schema in schemas for element in schema))
    defined = [each["AttributeName"] for each in request["AttributeDefinitions"]]
    if len(used) < len(defined):
        raise InvalidRequest(
            f"{INVALID}Some AttributeDefinitions are not used. AttributeDefinitions: "
            f"[{', '.join(defined)}], keys used: [{', '.join(used)}]"
        )


def _get_indexes(request: Request) -> list[Request]:
    """Return the local, then the global secondary indexes of the request."""
    return [*request.get("LocalSecondaryIndexes", ()), *request.get("GlobalSecondaryIndexes", ())]


def _check_projections(request: Request) -> None:
    for index in _get_indexes(request):
        definitions.check_projection(index["Projection"])


def _check_index_throughput(request: Request) -> None:
    """Require throughput for each global index of a provisioned table, and refuse it on demand."""
    on_demand = request.get("BillingMode") == definitions.PAY_PER_REQUEST
    for index in request.get("GlobalSecondaryIndexes", ()):
        given, name = index.get("ProvisionedThroughput"), index["IndexName"]
        if on_demand and given is not None:
            raise InvalidRequest(
                f"{INVALID}ProvisionedThroughput should not be specified for index: {name} when BillingMode "
                "is PAY_PER_REQUEST"
            )
        if not on_demand and given is None:
            raise InvalidRequest(f"{INVALID}ProvisionedThroughput is not specified for index: {name}")


def _check_index_names_differ(request: Request) -> None:
    duplicate = definitions.find_duplicate(index["IndexName"] for index in _get_indexes(request))
    if duplicate is not None:
        raise InvalidRequest(f"{INVALID}Duplicate index name: {duplicate}")


def _check_index_counts(request: Request) -> None:
    """Raise `InvalidRequest` for too many indexes, or too many projected attributes over all of them."""
    if len(request.get("LocalSecondaryIndexes", ())) > MAX_LOCAL_INDEXES:
        raise InvalidRequest(
            f"{INVALID}Number of LocalSecondaryIndexes exceeds per-table limit of {MAX_LOCAL_INDEXES}"
        )
    if len(request.get("GlobalSecondaryIndexes", ())) > MAX_GLOBAL_INDEXES:
        raise InvalidRequest(
            f"{INVALID}GlobalSecondaryIndex count exceeds the per-table limit of {MAX_GLOBAL_INDEXES}"
        )
    projected = sum(len(index["Projection"].get("NonKeyAttributes", ())) for index in _get_indexes(request))
    if projected > MAX_PROJECTED_ATTRIBUTES:
        raise InvalidRequest(
            f"{INVALID}Number of NonKeyAttributes of all indexes exceeds per-table limit of "
            f"{MAX_PROJECTED_ATTRIBUTES}"
        )


def _check_stream(request: Request) -> None:
    """Require a view type for an enabled stream, and refuse one for a disabled stream."""
    stream = request.get("StreamSpecification")
    if stream is None:
        return
    if stream["StreamEnabled"] and "StreamViewType" not in stream:
        raise InvalidRequest(
            f"{INVALID}Table is being created with a stream enabled, UpdateViewType is required"
        )
    if not stream["StreamEnabled"] and "StreamViewType" in stream:
        raise InvalidRequest(
            f"{INVALID}Table is being created with a stream disabled, UpdateViewType should not be specified"
        )


def _check_table_class(request: Request) -> None:
    definitions.check_table_class(request.get("TableClass"))


def _check_supported(request: Request) -> None:
    """Raise `InvalidRequest` for members that Holdfast does not support."""
    definitions.check_encryption(request.get("SSESpecification"))
    definitions.refuse_unsupported(request, UNSUPPORTED)
    for index in request.get("GlobalSecondaryIndexes", ()):
        definitions.refuse_unsupported_in_index(index)


def _parse_definition(request: Request) -> TableDefinition:
    return TableDefinition(
        name=request["TableName"],
        attributes=definitions.parse_key_attributes(request["AttributeDefinitions"]),
        keys=definitions.parse_key_schema(request["KeySchema"]),
        local_indexes=tuple(map(definitions.parse_index, request.get("LocalSecondaryIndexes", ()))),
        global_indexes=tuple(map(definitions.parse_index, request.get("GlobalSecondaryIndexes", ()))),
        billing_mode=request.get("BillingMode", definitions.PROVISIONED),
        throughput=definitions.parse_throughput(request.get("ProvisionedThroughput")) or Throughput(),
        table_class=request.get("TableClass"),
        deletion_protection=request.get("DeletionProtectionEnabled", False),
        stream_view=request.get("StreamSpecification", {}).get("StreamViewType"),
    )
