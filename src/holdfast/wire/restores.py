"""The parts that the two restores share: their shapes, and the parsing of backup ARNs and of overrides.

RestoreTableFromBackup and RestoreTableToPointInTime build an ordinary table from an older one; overrides are
the members that make it differ from its source. This module checks that the overrides fit together; only the
engine can check that they fit the source.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import BackupName, IndexDefinition, RestoreOverrides
from holdfast.wire import definitions
from holdfast.wire.arns import parse_backup_arn
from holdfast.wire.shapes import NAME_PATTERN, Request, Shape, Structure, Text, string

INVALID_REQUEST: Final = "Invalid Request: "
INVALID_BACKUP: Final = "Invalid Backup ARN"
UNSUPPORTED: Final = ("OnDemandThroughputOverride", "VectorIndexOverride")


# --- shapes -------------------------------------------------------------------------------------------------


def target_table_name_shape() -> Text:
    return string(required=True, pattern=NAME_PATTERN, min_length=3, max_length=255)


def backup_arn_shape(*, required: bool = False) -> Text:
    return string(required=required, min_length=37, max_length=1024)


def restore_input_shape(java_name: str, /, **members: Shape) -> Structure:
    """Build the shape of a restore: its own members, then the overrides."""
    override_shapes: dict[str, Shape] = {
        "BillingModeOverride": definitions.billing_mode_shape(),
        "GlobalSecondaryIndexOverride": definitions.global_secondary_indexes_shape(),
        "LocalSecondaryIndexOverride": definitions.local_secondary_indexes_shape(),
        "ProvisionedThroughputOverride": definitions.provisioned_throughput_shape(),
        "SSESpecificationOverride": definitions.sse_specification_shape(),
        "OnDemandThroughputOverride": definitions.unsupported_shape(),
        "VectorIndexOverride": definitions.unsupported_shape(),
    }
    return Structure(java_name, {**members, **override_shapes}, False)


# --- backups ------------------------------------------------------------------------------------------------


def parse_backup_name(arn: str) -> BackupName:
    """Parse a backup ARN; its region is ignored, as in DynamoDB. Raise `InvalidRequest` if it is not a backup
    ARN.
    """
    parts = parse_backup_arn(arn)
    if parts is None:
        raise InvalidRequest(INVALID_BACKUP)
    return BackupName(*parts, arn)


# --- overrides ----------------------------------------------------------------------------------------------


def parse_overrides(request: Request) -> RestoreOverrides:
    """Check that the overrides fit together and return them. Raise `InvalidRequest` with DynamoDB's text."""
    for check in (_check_throughput, _check_index_throughput, _check_indexes, _check_supported):
        check(request)
    return RestoreOverrides(
        billing_mode=request.get("BillingModeOverride"),
        throughput=definitions.parse_throughput(request.get("ProvisionedThroughputOverride")),
        global_indexes=_parse_indexes(request.get("GlobalSecondaryIndexOverride")),
        local_indexes=_parse_indexes(request.get("LocalSecondaryIndexOverride")),
    )


def _check_throughput(request: Request) -> None:
    """Require throughput with a PROVISIONED override, and refuse it with a PAY_PER_REQUEST override."""
    mode, given = request.get("BillingModeOverride"), request.get("ProvisionedThroughputOverride")
    if mode == definitions.PAY_PER_REQUEST and given is not None:
        raise InvalidRequest(
            f"{INVALID_REQUEST}Cannot override ProvisionedThroughput if BillingMode is overridden to "
            "PAY_PER_REQUEST"
        )
    if mode == definitions.PROVISIONED and given is None:
        raise InvalidRequest(
            f"{INVALID_REQUEST}Must override ProvisionedThroughput if BillingMode is overridden to "
            "PROVISIONED"
        )
    if given is not None:
        definitions.check_units_in_bounds(given)


def _check_index_throughput(request: Request) -> None:
    """Require throughput for each index with a PROVISIONED override, and refuse it with PAY_PER_REQUEST."""
    mode = request.get("BillingModeOverride")
    for index in request.get("GlobalSecondaryIndexOverride", ()):
        given, name = index.get("ProvisionedThroughput"), index["IndexName"]
        if mode == definitions.PAY_PER_REQUEST and given is not None:
            raise InvalidRequest(
                f"{INVALID_REQUEST}Cannot override ProvisionedThroughput for index {name} if BillingMode is "
                "overridden to PAY_PER_REQUEST"
            )
        if mode == definitions.PROVISIONED and given is None:
            raise InvalidRequest(f"{INVALID_REQUEST}Must specify provisioned throughput for index {name}")


def _check_indexes(request: Request) -> None:
    """Raise `InvalidRequest` for an override with an invalid key schema or projection."""
    for name in ("LocalSecondaryIndexOverride", "GlobalSecondaryIndexOverride"):
        for index in request.get(name, ()):
            definitions.check_key_order(index["KeySchema"])
            definitions.check_projection(index["Projection"])


def _check_supported(request: Request) -> None:
    """Raise `InvalidRequest` for overrides that Holdfast does not support."""
    definitions.check_encryption(request.get("SSESpecificationOverride"))
    definitions.refuse_unsupported(request, UNSUPPORTED)
    for index in request.get("GlobalSecondaryIndexOverride", ()):
        definitions.refuse_unsupported_in_index(index)


def _parse_indexes(indexes: list[Request] | None) -> tuple[IndexDefinition, ...] | None:
    """Parse the index override. An empty list restores no index; None restores all of them."""
    return None if indexes is None else tuple(map(definitions.parse_index, indexes))
