"""RestoreTableToPointInTime on the wire: create a table from the state of another at a given time."""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import RestoreTableToPointInTime, TableDescription
from holdfast.wire import restores
from holdfast.wire.arns import Place, table_of
from holdfast.wire.descriptions import table_description
from holdfast.wire.shapes import Answer, Request, boolean, string, table_name, timestamp

# The last second of a four-digit year: a later time gets the same error as this one.
LAST_MOMENT: Final = 253_402_300_799.0

SHAPE = restores.restore_input(
    "RestoreTableToPointInTimeInput",
    SourceTableArn=string(shortest=1, longest=1024),
    SourceTableName=table_name(required=False),
    TargetTableName=restores.target_table_name(),
    UseLatestRestorableTime=boolean(),
    RestoreDateTime=timestamp(),
)


def decode(request: Request) -> RestoreTableToPointInTime:
    return RestoreTableToPointInTime(
        source=_source(request),
        target=request["TargetTableName"],
        at=_moment(request),
        overrides=restores.overrides(request),
    )


def encode(operation: RestoreTableToPointInTime, result: TableDescription, place: Place) -> Answer:
    return {"TableDescription": table_description(result, place)}


def _source(request: Request) -> str:
    arn: str | None = request.get("SourceTableArn")
    name: str | None = request.get("SourceTableName")
    if arn is not None and name is not None:
        raise InvalidRequest("Must provide exactly one of: sourceTableArn, sourceTableName")
    source = name if arn is None else table_of(arn)
    if source is None:
        raise InvalidRequest(
            "The parameter 'TableName' is required but was not present in the request"
            if arn is None
            else "sourceTableArn is not a valid ARN"
        )
    return source


def _moment(request: Request) -> float | None:
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
    return None if at is None else min(max(at, 0.0), LAST_MOMENT)
