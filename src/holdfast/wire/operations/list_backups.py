"""ListBackups on the wire: the backups of one or all tables, by time and type, one page at a time."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import LIST_BACKUPS_MAX
from holdfast.operations.tables import ListBackups, ListBackupsResult
from holdfast.wire import restores
from holdfast.wire.arns import Place, backup_arn
from holdfast.wire.descriptions import backup_summary
from holdfast.wire.shapes import Answer, Request, integer, string, structure, table_name, timestamp
from holdfast.wire.values import INVALID

SHAPE = structure(
    "ListBackupsInput",
    TableName=table_name(required=False),
    Limit=integer(least=1, most=LIST_BACKUPS_MAX),
    TimeRangeLowerBound=timestamp(),
    TimeRangeUpperBound=timestamp(),
    ExclusiveStartBackupArn=restores.backup_arn_text(),
    BackupType=string(enum=("USER", "SYSTEM", "AWS_BACKUP", "ALL")),
)


def decode(request: Request) -> ListBackups:
    since, before = request.get("TimeRangeLowerBound"), request.get("TimeRangeUpperBound")
    if since is not None and before is not None and since > before:
        raise InvalidRequest(f"{INVALID}Time range lower bound must be less than or equal to upper bound")
    start = request.get("ExclusiveStartBackupArn")
    return ListBackups(
        table=request.get("TableName"),
        limit=request.get("Limit", LIST_BACKUPS_MAX),
        since=since,
        before=before,
        after=None if start is None else restores.backup_name(start),
        type=request.get("BackupType", "USER"),
    )


def encode(operation: ListBackups, result: ListBackupsResult, place: Place) -> Answer:
    answer: Answer = {"BackupSummaries": [backup_summary(each, place) for each in result.backups]}
    if result.last is not None:
        answer["LastEvaluatedBackupArn"] = backup_arn(place, result.last.table, result.last.id)
    return answer
