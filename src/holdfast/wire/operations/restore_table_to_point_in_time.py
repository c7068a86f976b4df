"""RestoreTableToPointInTime on the wire: decode the request, encode the table restored to a point in time."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import RestoreTableToPointInTime, TableDescription
from holdfast.wire import restores
from holdfast.wire.arns import AwsLocation, parse_table_arn
from holdfast.wire.descriptions import encode_table_description
from holdfast.wire.shapes import Request, Response, boolean, string, table_name, timestamp

# The last second of a four-digit year: a later time gets the same error as this one.
MAX_RESTORE_TIME: Final = 253_402_300_799.0

SHAPE = restores.restore_input_shape(
    "RestoreTableToPointInTimeInput",
    SourceTableArn=string(min_length=1, max_length=1024),
    SourceTableName=table_name(required=False),
    TargetTableName=restores.target_table_name_shape(),
    UseLatestRestorableTime=boolean(),
    RestoreDateTime=timestamp(),
)


def decode(request: Request) -> RestoreTableToPointInTime:
    """Return the operation. Raise `InvalidRequest` for an invalid source, time or overrides."""
    return RestoreTableToPointInTime(
        source=_parse_source(request),
        target=request["TargetTableName"],
        at=_parse_restore_time(request),
        overrides=restores.parse_overrides(request),
    )


def encode(operation: RestoreTableToPointInTime, result: TableDescription, location: AwsLocation) -> Response:
    return {"TableDescription": encode_table_description(result, location)}


def _parse_source(request: Request) -> str:
    """Return the source table, given by exactly one of name and ARN. Raise `InvalidRequest` otherwise."""
    arn: str | None = request.get("SourceTableArn")
    name: str | None = request.get("SourceTableName")
    if arn is not None and name is not None:
        raise InvalidRequest("Must provide exactly one of: sourceTableArn, sourceTableName")
    source = name if arn is None else parse_table_arn(arn)
    if source is None:
        raise InvalidRequest(
            "The parameter 'TableName' is required but was not present in the request"
            if arn is None
            else "sourceTableArn is not a valid ARN"
        )
    return source


def _parse_restore_time(request: Request) -> float | None:
    """Return the time to restore to, clamped to valid dates; None for the latest. Raise `InvalidRequest`
    unless exactly one of the two is requested.
    """
    latest, at = request.get("UseLatestRestorableTime", False), request.get("RestoreDateTime")
    if latest and at is not None:
        raise InvalidRequest(
            f"{restores.INVALID_REQUEST}Both RestoreDateTime and UseLatestRestorableTime cannot be set for "
            "point-in-time restore request. Please specify either RestoreDateTime time or "
            "UseLatestRestorableTime"
        )
    if not latest and at is None:
        raise InvalidRequest(
            f"{restores.INVALID_REQUEST}Either one of RestoreDateTime or UseLatestRestorableTime must be "
            "specified, but not both"
        )
    return None if at is None else min(max(at, 0.0), MAX_RESTORE_TIME)
