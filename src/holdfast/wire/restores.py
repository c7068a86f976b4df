"""The parts that the two restores share: the members that make a restored table differ from its source.

RestoreTableFromBackup and RestoreTableToPointInTime build an ordinary table from an older one. This module
checks that the overrides fit together; only the engine can check that they fit the source.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import BackupName, IndexDefinition, RestoreOverrides
from holdfast.wire import definitions
from holdfast.wire.arns import backup_of
from holdfast.wire.shapes import NAME_PATTERN, Request, Shape, Structure, Text, string

INVALID_REQUEST: Final = "Invalid Request: "
INVALID_BACKUP: Final = "Invalid Backup ARN"
UNSUPPORTED: Final = ("OnDemandThroughputOverride", "VectorIndexOverride")


# --- shapes -------------------------------------------------------------------------------------------------


def target_table_name() -> Text:
    return string(required=True, pattern=NAME_PATTERN, shortest=3, longest=255)


def backup_arn_text(*, required: bool = False) -> Text:
    return string(required=required, shortest=37, longest=1024)


def restore_input(java_name: str, /, **members: Shape) -> Structure:
    """Build the shape of a restore: its own members, then the overrides."""
    overriding: dict[str, Shape] = {
        "BillingModeOverride": definitions.billing_mode(),
        "GlobalSecondaryIndexOverride": definitions.global_secondary_indexes(),
        "LocalSecondaryIndexOverride": definitions.local_secondary_indexes(),
        "ProvisionedThroughputOverride": definitions.provisioned_throughput(),
        "SSESpecificationOverride": definitions.sse_specification(),
        "OnDemandThroughputOverride": definitions.unsupported(),
        "VectorIndexOverride": definitions.unsupported(),
    }
    return Structure(java_name, {**members, **overriding}, False)


# --- backups ------------------------------------------------------------------------------------------------


def backup_name(arn: str) -> BackupName:
    """Parse a backup ARN. Its region is ignored, as in DynamoDB."""
    parts = backup_of(arn)
    if parts is None:
        raise InvalidRequest(INVALID_BACKUP)
    return BackupName(*parts, arn)


# --- overrides ----------------------------------------------------------------------------------------------


def overrides(request: Request) -> RestoreOverrides:
    for check in (_check_throughput, _check_throughput_of_indexes, _check_indexes, _check_supported):
        check(request)
    return RestoreOverrides(
        billing_mode=request.get("BillingModeOverride"),
        throughput=definitions.throughput(request.get("ProvisionedThroughputOverride")),
        global_indexes=_indexes(request.get("GlobalSecondaryIndexOverride")),
        local_indexes=_indexes(request.get("LocalSecondaryIndexOverride")),
    )


def _check_throughput(request: Request) -> None:
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


def _check_throughput_of_indexes(request: Request) -> None:
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
    for name in ("LocalSecondaryIndexOverride", "GlobalSecondaryIndexOverride"):
        for index in request.get(name, ()):
            definitions.check_key_order(index["KeySchema"])
            definitions.check_projection(index["Projection"])


def _check_supported(request: Request) -> None:
    definitions.check_encryption(request.get("SSESpecificationOverride"))
    definitions.refuse_unsupported(request, UNSUPPORTED)
    for index in request.get("GlobalSecondaryIndexOverride", ()):
        definitions.refuse_unsupported_in_index(index)


def _indexes(given: list[Request] | None) -> tuple[IndexDefinition, ...] | None:
    """Parse the index override. An empty list restores no index; None restores all of them."""
    return None if given is None else tuple(map(definitions.index, given))
