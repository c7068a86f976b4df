"""Table and index definitions, converted to the service's request members.

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


def table(definition: TableDefinition) -> Members:
    """Build the members of CreateTable."""
    members: Members = {
        "TableName": definition.name,
        "AttributeDefinitions": _attributes(definition.attributes),
        "KeySchema": _keys(definition.keys),
        "BillingMode": definition.billing_mode,
        "DeletionProtectionEnabled": definition.deletion_protection,
    }
    if definition.local_indexes:
        members["LocalSecondaryIndexes"] = [_index(each) for each in definition.local_indexes]
    if definition.global_indexes:
        members["GlobalSecondaryIndexes"] = [_global_index(each) for each in definition.global_indexes]
    if definition.billing_mode == "PROVISIONED":
        members["ProvisionedThroughput"] = _throughput(definition.throughput)
    if definition.table_class is not None:
        members["TableClass"] = definition.table_class
    if definition.stream_view is not None:
        members["StreamSpecification"] = _stream(definition.stream_view)
    return members


def changes(operation: UpdateTable) -> Members:
    """Build the members of UpdateTable."""
    members: Members = {"TableName": operation.table}
    if operation.attributes:
        members["AttributeDefinitions"] = _attributes(operation.attributes)
    if operation.billing_mode is not None:
        members["BillingMode"] = operation.billing_mode
    if operation.throughput is not None:
        members["ProvisionedThroughput"] = _throughput(operation.throughput)
    if operation.index_changes:
        members["GlobalSecondaryIndexUpdates"] = [_index_change(each) for each in operation.index_changes]
    if operation.stream is not None:
        members["StreamSpecification"] = _stream(operation.stream.view)
    if operation.table_class is not None:
        members["TableClass"] = operation.table_class
    if operation.deletion_protection is not None:
        members["DeletionProtectionEnabled"] = operation.deletion_protection
    return members


def overrides(wanted: RestoreOverrides) -> Members:
    """Build the members that override the source's settings in a restore. An empty list restores no index."""
    members: Members = {}
    if wanted.billing_mode is not None:
        members["BillingModeOverride"] = wanted.billing_mode
    if wanted.throughput is not None:
        members["ProvisionedThroughputOverride"] = _throughput(wanted.throughput)
    if wanted.global_indexes is not None:
        members["GlobalSecondaryIndexOverride"] = [_global_index(each) for each in wanted.global_indexes]
    if wanted.local_indexes is not None:
        members["LocalSecondaryIndexOverride"] = [_index(each) for each in wanted.local_indexes]
    return members


def _attributes(attributes: Iterable[KeyAttribute]) -> list[Members]:
    return [{"AttributeName": each.name, "AttributeType": each.type} for each in attributes]


def _keys(keys: KeySchema) -> list[Members]:
    pairs = zip(keys.names, ("HASH", "RANGE"), strict=False)
    return [{"AttributeName": name, "KeyType": kind} for name, kind in pairs]


def _index(index: IndexDefinition) -> Members:
    projection: Members = {"ProjectionType": index.projection.kind}
    if index.projection.attributes:
        projection["NonKeyAttributes"] = list(index.projection.attributes)
    return {"IndexName": index.name, "KeySchema": _keys(index.keys), "Projection": projection}


def _global_index(index: IndexDefinition) -> Members:
    members = _index(index)
    if index.throughput is not None:
        members["ProvisionedThroughput"] = _throughput(index.throughput)
    return members


def _index_change(change: IndexChange) -> Members:
    if isinstance(change, CreateIndex):
        return {"Create": _global_index(change.index)}
    if isinstance(change, UpdateIndex):
        return {"Update": {"IndexName": change.name, "ProvisionedThroughput": _throughput(change.throughput)}}
    return {"Delete": {"IndexName": change.name}}


def _throughput(throughput: Throughput) -> Members:
    return {"ReadCapacityUnits": throughput.read, "WriteCapacityUnits": throughput.write}


def _stream(view: StreamView | None) -> Members:
    return {"StreamEnabled": False} if view is None else {"StreamEnabled": True, "StreamViewType": view}
