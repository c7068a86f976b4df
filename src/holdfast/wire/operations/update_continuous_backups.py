"""UpdateContinuousBackups on the wire: decode a switch of point-in-time recovery, encode its new state."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_RECOVERY_DAYS
from holdfast.operations.tables import ContinuousBackups, UpdateContinuousBackups
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_continuous_backups
from holdfast.wire.restores import INVALID_REQUEST
from holdfast.wire.shapes import Request, Response, boolean, integer, structure, table_name

SHAPE = structure(
    "UpdateContinuousBackupsInput",
    TableName=table_name(),
    PointInTimeRecoverySpecification=structure(
        "PointInTimeRecoverySpecification",
        required=True,
        PointInTimeRecoveryEnabled=boolean(required=True),
        RecoveryPeriodInDays=integer(minimum=1, maximum=MAX_RECOVERY_DAYS),
    ),
)


def decode(request: Request) -> UpdateContinuousBackups:
    """Return the operation. Raise `InvalidRequest` for a recovery period with recovery turned off."""
    specification = request["PointInTimeRecoverySpecification"]
    enabled, days = specification["PointInTimeRecoveryEnabled"], specification.get("RecoveryPeriodInDays")
    if not enabled and days is not None:
        raise InvalidRequest(
            f"{INVALID_REQUEST}Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
        )
    return UpdateContinuousBackups(table=request["TableName"], enabled=enabled, recovery_days=days)


def encode(operation: UpdateContinuousBackups, result: ContinuousBackups, location: AwsLocation) -> Response:
    return encode_continuous_backups(result)
