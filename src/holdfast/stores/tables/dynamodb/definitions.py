"""Encoding of table definitions, changes and restore overrides as members of the service's requests.

`descriptions.py` converts the other way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from holdfast.operations.tables import (
    CreateIndex,
    IndexChange,
    IndexDefinition,
    KeyAttribute,
    KeySchema,
    RestoreOverrides,
    StreamView,
    TableDefinition,
    Throughput,
    UpdateIndex,
    UpdateTable,
)

Members: TypeAlias = dict[str, Any]


def encode_table(definition: TableDefinition) -> Members:
    """Build the members of CreateTable."""
    members: Members = {
        "TableName": definition.name,
        "AttributeDefinitions": _encode_attributes(definition.attributes),
        "KeySchema": _encode_key_schema(definition.keys),
        "BillingMode": definition.billing_mode,
        "DeletionProtectionEnabled": definition.deletion_protection,
    }
    if definition.local_indexes:
        members["LocalSecondaryIndexes"] = [_encode_index(each) for each in definition.local_indexes]
    if definition.global_indexes:
        members["GlobalSecondaryIndexes"] = [_encode_global_index(each) for each in definition.global_indexes]
    if definition.billing_mode == "PROVISIONED":
        members["ProvisionedThroughput"] = _encode_throughput(definition.throughput)
    if definition.table_class is not None:
        members["TableClass"] = definition.table_class
    if definition.stream_view is not None:
        members["StreamSpecification"] = _encode_stream(definition.stream_view)
    return members


def encode_changes(operation: UpdateTable) -> Members:
    """Build the members of UpdateTable."""
    members: Members = {"TableName": operation.table}
    if operation.attributes:
        members["AttributeDefinitions"] = _encode_attributes(operation.attributes)
    if operation.billing_mode is not None:
        members["BillingMode"] = operation.billing_mode
    if operation.throughput is not None:
        members["ProvisionedThroughput"] = _encode_throughput(operation.throughput)
    if operation.index_changes:
        members["GlobalSecondaryIndexUpdates"] = [
            _encode_index_change(each) for each in operation.index_changes
        ]
    if operation.stream is not None:
        members["StreamSpecification"] = _encode_stream(operation.stream.view)
    if operation.table_class is not None:
        members["TableClass"] = operation.table_class
    if operation.deletion_protection is not None:
        members["DeletionProtectionEnabled"] = operation.deletion_protection
    return members


def encode_overrides(requested: RestoreOverrides) -> Members:
    """Build the members that override the source's settings in a restore. An empty list restores no index."""
    members: Members = {}
    if requested.billing_mode is not None:
        members["BillingModeOverride"] = requested.billing_mode
    if requested.throughput is not None:
        members["ProvisionedThroughputOverride"] = _encode_throughput(requested.throughput)
    if requested.global_indexes is not None:
        members["GlobalSecondaryIndexOverride"] = [
            _encode_global_index(each) for each in requested.global_indexes
        ]
    if requested.local_indexes is not None:
        members["LocalSecondaryIndexOverride"] = [_encode_index(each) for each in requested.local_indexes]
    return members


def _encode_attributes(attributes: Iterable[KeyAttribute]) -> list[Members]:
    return [{"AttributeName": each.name, "AttributeType": each.type} for each in attributes]


def _encode_key_schema(keys: KeySchema) -> list[Members]:
    """Return the key's attributes as HASH and, if there is a sort key, RANGE."""
    pairs = zip(keys.names, ("HASH", "RANGE"), strict=False)
    return [{"AttributeName": name, "KeyType": kind} for name, kind in pairs]


def _encode_index(index: IndexDefinition) -> Members:
    projection: Members = {"ProjectionType": index.projection.kind}
    if index.projection.attributes:
        projection["NonKeyAttributes"] = list(index.projection.attributes)
    return {"IndexName": index.name, "KeySchema": _encode_key_schema(index.keys), "Projection": projection}


def _encode_global_index(index: IndexDefinition) -> Members:
    """Return the members of a global index, with its throughput if it has one of its own."""
    members = _encode_index(index)
    if index.throughput is not None:
        members["ProvisionedThroughput"] = _encode_throughput(index.throughput)
    return members


def _encode_index_change(change: IndexChange) -> Members:
    """Return the members that create, update or delete a global index."""
    if isinstance(change, CreateIndex):
        return {"Create": _encode_global_index(change.index)}
    if isinstance(change, UpdateIndex):
        return {
            "Update": {
                "IndexName": change.name,
                "ProvisionedThroughput": _encode_throughput(change.throughput),
            }
        }
    return {"Delete": {"IndexName": change.name}}


def _encode_throughput(throughput: Throughput) -> Members:
    return {"ReadCapacityUnits": throughput.read, "WriteCapacityUnits": throughput.write}


def _encode_stream(view: StreamView | None) -> Members:
    """Return the members that enable a stream with this view, or disable it for None."""
    return {"StreamEnabled": False} if view is None else {"StreamEnabled": True, "StreamViewType": view}
