"""ListBackups on the wire: decode the request, encode one page of the backups of one or all tables.

The request may restrict the listing by table, time range and type.
"""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_LIST_BACKUPS
from holdfast.operations.tables import ListBackups, ListBackupsResult
from holdfast.wire import restores
from holdfast.wire.arns import AwsLocation, format_backup_arn
from holdfast.wire.descriptions import encode_backup_summary
from holdfast.wire.shapes import Request, Response, integer, string, structure, table_name, timestamp
from holdfast.wire.values import INVALID

SHAPE = structure(
    "ListBackupsInput",
    TableName=table_name(required=False),
    Limit=integer(minimum=1, maximum=MAX_LIST_BACKUPS),
    TimeRangeLowerBound=timestamp(),
    TimeRangeUpperBound=timestamp(),
    ExclusiveStartBackupArn=restores.backup_arn_shape(),
    BackupType=string(enum=("USER", "SYSTEM", "AWS_BACKUP", "ALL")),
)


def decode(request: Request) -> ListBackups:
    """Return the operation. Raise `InvalidRequest` for an empty time range or an invalid start ARN."""
    since, before = request.get("TimeRangeLowerBound"), request.get("TimeRangeUpperBound")
    if since is not None and before is not None and since > before:
        raise InvalidRequest(f"{INVALID}Time range lower bound must be less than or equal to upper bound")
    start = request.get("ExclusiveStartBackupArn")
    return ListBackups(
        table=request.get("TableName"),
        limit=request.get("Limit", MAX_LIST_BACKUPS),
        since=since,
        before=before,
        after=None if start is None else restores.parse_backup_name(start),
        type=request.get("BackupType", "USER"),
    )


def encode(operation: ListBackups, result: ListBackupsResult, location: AwsLocation) -> Response:
    response: Response = {
        "BackupSummaries": [encode_backup_summary(each, location) for each in result.backups]
    }
    if result.last is not None:
        response["LastEvaluatedBackupArn"] = format_backup_arn(location, result.last.table, result.last.id)
    return response
