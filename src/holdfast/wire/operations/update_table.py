"""UpdateTable on the wire: decode and check the changes to a table's settings, and encode the table.

DynamoDB accepts one concern per request: a table class, deletion protection or encryption must be the only
change; a stream or an index does not change together with the throughput. These checks precede the lookup of
the table.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest, LimitExceeded
from holdfast.operations.tables import (
    CreateIndex,
    DeleteIndex,
    IndexChange,
    KeyAttribute,
    StreamChange,
    TableDescription,
    Throughput,
    UpdateIndex,
    UpdateTable,
)
from holdfast.wire import definitions
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_table_description
from holdfast.wire.shapes import (
    Request,
    Response,
    boolean,
    index_name,
    list_of,
    string,
    structure,
    table_name_checked_first,
)
from holdfast.wire.values import INVALID

SHAPE = structure(
    "UpdateTableInput",
    TableName=table_name_checked_first(),
    ProvisionedThroughput=definitions.provisioned_throughput_shape(),
    BillingMode=definitions.billing_mode_shape(),
    AttributeDefinitions=definitions.attribute_definitions_shape(),
    GlobalSecondaryIndexUpdates=list_of(
        structure(
            "GlobalSecondaryIndexUpdate",
            Update=structure(
                "UpdateGlobalSecondaryIndexAction",
                IndexName=index_name(required=True),
                ProvisionedThroughput=definitions.provisioned_throughput_shape(required=True),
            ),
            Create=definitions.global_secondary_index_shape("CreateGlobalSecondaryIndexAction"),
            Delete=structure("DeleteGlobalSecondaryIndexAction", IndexName=index_name(required=True)),
        )
    ),
    StreamSpecification=definitions.stream_specification_shape(),
    SSESpecification=definitions.sse_specification_shape(),
    TableClass=string(),
    DeletionProtectionEnabled=boolean(),
    ReplicaUpdates=definitions.unsupported_shape(),
    MultiRegionConsistency=definitions.unsupported_shape(),
    GlobalTableWitnessUpdates=definitions.unsupported_shape(),
    GlobalTableSettingsReplicationMode=definitions.unsupported_shape(),
    OnDemandThroughput=definitions.unsupported_shape(),
    WarmThroughput=definitions.unsupported_shape(),
    DisassociationProtectionEnabled=definitions.unsupported_shape(),
    VectorIndexUpdates=definitions.unsupported_shape(),
)
UNSUPPORTED: Final = (
    "ReplicaUpdates",
    "MultiRegionConsistency",
    "GlobalTableWitnessUpdates",
    "GlobalTableSettingsReplicationMode",
    "OnDemandThroughput",
    "WarmThroughput",
    "DisassociationProtectionEnabled",
    "VectorIndexUpdates",
)
CHANGES: Final = (
    "ProvisionedThroughput",
    "BillingMode",
    "StreamSpecification",
    "GlobalSecondaryIndexUpdates",
    "SSESpecification",
    "TableClass",
    "DeletionProtectionEnabled",
)
# The settings that must be the only change, in DynamoDB's order of errors, with its names for them.
EXCLUSIVE_CHANGES: Final = (
    ("SSESpecification", "Server-Side Encryption"),
    ("TableClass", "TableClass"),
    ("DeletionProtectionEnabled", "DeletionProtection"),
)
INDEX_ACTIONS: Final = ("Update", "Create", "Delete")

NO_CHANGES: Final = (
    "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or "
    "SSESpecification or ReplicaUpdates is required"
)
TWO_INDEXES_AT_ONCE: Final = (
    "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table"
)


def decode(request: Request) -> UpdateTable:
    """Return the operation. Raise `InvalidRequest` for the first failed check, in DynamoDB's order."""
    for check in (
        _check_something_changes,
        _check_exclusive_changes,
        _check_billing,
        _check_table_class,
        _check_supported,
        _check_index_updates,
        _check_new_indexes,
        _check_stream,
        _check_combination,
        _check_one_index_at_a_time,
    ):
        check(request)
    return UpdateTable(
        table=request["TableName"],
        attributes=_get_new_index_attributes(request),
        billing_mode=request.get("BillingMode"),
        throughput=definitions.parse_throughput(request.get("ProvisionedThroughput")),
        index_changes=tuple(map(_parse_index_change, _get_index_updates(request))),
        stream=_parse_stream_change(request),
        table_class=request.get("TableClass"),
        deletion_protection=request.get("DeletionProtectionEnabled"),
    )


def encode(operation: UpdateTable, result: TableDescription, location: AwsLocation) -> Response:
    return {"TableDescription": encode_table_description(result, location)}


def _check_something_changes(request: Request) -> None:
    """Raise `InvalidRequest` for a request that changes nothing, or has an empty list of index updates."""
    changes = [name for name in (*CHANGES, *UNSUPPORTED) if name in request]
    if not _get_index_updates(request) and "GlobalSecondaryIndexUpdates" in request:
        if len(changes) > 1:
            raise InvalidRequest(f"{INVALID}List of GlobalSecondaryIndexUpdates is empty")
        changes = []
    if not changes:
        raise InvalidRequest(NO_CHANGES)


def _check_exclusive_changes(request: Request) -> None:
    """Raise `InvalidRequest` if a change that must be alone comes with another."""
    changes = [name for name in CHANGES if name in request]
    for name, words in EXCLUSIVE_CHANGES:
        if name in request and len(changes) > 1:
            raise InvalidRequest(f"{INVALID}{words} modification must be the only operation in the request")


def _check_billing(request: Request) -> None:
    """Require throughput with a change to PROVISIONED, and refuse it with a change to PAY_PER_REQUEST."""
    given, mode = request.get("ProvisionedThroughput"), request.get("BillingMode")
    if mode == definitions.PROVISIONED and given is None:
        raise InvalidRequest(
            f"{INVALID}ProvisionedThroughput must be specified when BillingMode is PROVISIONED"
        )
    if given is not None:
        definitions.check_units_in_bounds(given)
        if mode == definitions.PAY_PER_REQUEST:
            raise InvalidRequest(definitions.UNITS_WITH_ON_DEMAND)


def _check_table_class(request: Request) -> None:
    definitions.check_table_class(request.get("TableClass"))


def _check_supported(request: Request) -> None:
    """Raise `InvalidRequest` for members that Holdfast does not support, and for any change of the
    encryption.
    """
    definitions.refuse_unsupported(request, UNSUPPORTED)
    if "SSESpecification" in request:
        definitions.check_encryption(request["SSESpecification"])
        raise InvalidRequest(f"{INVALID}Table is already encrypted by default")


def _check_index_updates(request: Request) -> None:
    """Require exactly one action per index update, and at most one update per index."""
    names: set[str] = set()
    for update in _get_index_updates(request):
        actions = [action for action in INDEX_ACTIONS if action in update]
        if not actions:
            raise InvalidRequest(
                f"{INVALID}One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, "
                "GlobalSecondaryIndexUpdate.Delete must not be null"
            )
        if len(actions) > 1:
            raise InvalidRequest(
                f"{INVALID}Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate "
                "object"
            )
        name = update[actions[0]]["IndexName"]
        if name in names:
            raise InvalidRequest(
                f"{INVALID}Only one global secondary index update per index is allowed simultaneously. "
                f"Index: {name}"
            )
        names.add(name)


def _check_new_indexes(request: Request) -> None:
    """Check the keys, the projection and the throughput of each index to create."""
    for index in _get_new_indexes(request):
        defined = request.get("AttributeDefinitions")
        if not defined:
            raise InvalidRequest(
                f"{INVALID}AttributeDefinitions is not specified for index: {index['IndexName']}"
            )
        definitions.check_attribute_names_differ(defined)
        definitions.check_keys_defined(index["KeySchema"], defined)
        definitions.check_key_order(index["KeySchema"])
        definitions.check_projection(index["Projection"])
        definitions.refuse_unsupported_in_index(index)
        _check_new_index_throughput(index, request)


def _check_new_index_throughput(index: Request, request: Request) -> None:
    """Refuse throughput for a new index if the request sets PAY_PER_REQUEST."""
    on_demand = request.get("BillingMode") == definitions.PAY_PER_REQUEST
    if on_demand and "ProvisionedThroughput" in index:
        raise InvalidRequest(
            f"{INVALID}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: "
            f"{index['IndexName']} when BillingMode is PAY_PER_REQUEST"
        )


def _check_stream(request: Request) -> None:
    """Require a view type to enable the stream, and refuse one to disable it."""
    stream = request.get("StreamSpecification")
    if stream is None:
        return
    if stream["StreamEnabled"] and "StreamViewType" not in stream:
        raise InvalidRequest(f"{INVALID}If stream is being enabled then UpdateViewType is required")
    if not stream["StreamEnabled"] and "StreamViewType" in stream:
        raise InvalidRequest(
            f"{INVALID}If stream is being disabled, then UpdateViewType must not be specified"
        )


def _check_combination(request: Request) -> None:
    """Raise `InvalidRequest` for a stream, an index and the throughput changing together."""
    indexes = any("Update" not in update for update in _get_index_updates(request))
    if "StreamSpecification" in request:
        if "ProvisionedThroughput" in request:
            raise InvalidRequest(f"{INVALID}You cannot modify stream status while updating table IOPS")
        if indexes:
            raise InvalidRequest(f"{INVALID}You cannot create or delete index while changing stream status")
    if indexes and "ProvisionedThroughput" in request:
        raise InvalidRequest(f"{INVALID}You cannot create or delete index while updating table IOPS")


def _check_one_index_at_a_time(request: Request) -> None:
    """Raise `LimitExceeded` if more than one index is created or deleted."""
    if sum("Update" not in update for update in _get_index_updates(request)) > 1:
        raise LimitExceeded(TWO_INDEXES_AT_ONCE)


def _get_index_updates(request: Request) -> list[Request]:
    updates: list[Request] = request.get("GlobalSecondaryIndexUpdates", [])
    return updates


def _get_new_indexes(request: Request) -> list[Request]:
    """Return the indexes that the request creates."""
    return [update["Create"] for update in _get_index_updates(request) if "Create" in update]


def _get_new_index_attributes(request: Request) -> tuple[KeyAttribute, ...]:
    """Return the attribute definitions for the keys of new indexes. DynamoDB ignores all others."""
    used = {element["AttributeName"] for index in _get_new_indexes(request) for element in index["KeySchema"]}
    return tuple(
        each
        for each in definitions.parse_key_attributes(request.get("AttributeDefinitions", []))
        if each.name in used
    )


def _parse_index_change(update: Request) -> IndexChange:
    if "Create" in update:
        return CreateIndex(definitions.parse_index(update["Create"]))
    if "Delete" in update:
        return DeleteIndex(update["Delete"]["IndexName"])
    changed = update["Update"]
    return UpdateIndex(
        changed["IndexName"],
        definitions.parse_throughput(changed["ProvisionedThroughput"]) or Throughput(),
    )


def _parse_stream_change(request: Request) -> StreamChange | None:
    """Return the change of the stream, or None if the request has none."""
    stream = request.get("StreamSpecification")
    return None if stream is None else StreamChange(stream.get("StreamViewType"))
