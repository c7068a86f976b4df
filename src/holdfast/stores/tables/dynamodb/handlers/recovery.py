"""Handlers of continuous backups, on-demand backups and restores on DynamoDB.

SDK versions differ in whether they send fractions of a second, and the service returns milliseconds. Time
bounds are therefore sent slightly too wide and applied exactly here. A restore uses the time that the SDK
sends.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from holdfast.core.errors import NotFound, TableNotFound
from holdfast.operations.tables import (
    BackupDescription,
    BackupSummary,
    ContinuousBackups,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    DescribeContinuousBackups,
    ListBackups,
    ListBackupsResult,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    TableDescription,
    UpdateContinuousBackups,
)
from holdfast.stores.tables.dynamodb import arns, definitions
from holdfast.stores.tables.dynamodb.descriptions import (
    parse_backup_description,
    parse_backup_summary,
    parse_continuous_backups,
    parse_table_description,
)
from holdfast.stores.tables.dynamodb.service import Request, Service


async def describe_continuous_backups(
    operation: DescribeContinuousBackups, service: Service
) -> ContinuousBackups:
    """Return whether point-in-time recovery is enabled, and its window."""
    return parse_continuous_backups(
        await service.send("DescribeContinuousBackups", {"TableName": operation.table})
    )


async def update_continuous_backups(
    operation: UpdateContinuousBackups, service: Service
) -> ContinuousBackups:
    """Enable or disable point-in-time recovery, or change its window."""
    wanted: Request = {"PointInTimeRecoveryEnabled": operation.enabled}
    if operation.recovery_days is not None:
        wanted["RecoveryPeriodInDays"] = operation.recovery_days
    request = {"TableName": operation.table, "PointInTimeRecoverySpecification": wanted}
    return parse_continuous_backups(await service.send("UpdateContinuousBackups", request, repeat="same"))


async def restore_table_to_point_in_time(
    operation: RestoreTableToPointInTime, service: Service
) -> TableDescription:
    """Start the restore of a table as it was at a time, or at the latest possible one."""
    request: Request = {
        "SourceTableName": operation.source,
        "TargetTableName": operation.target,
        **definitions.encode_overrides(operation.overrides),
    }
    if operation.at is None:
        request["UseLatestRestorableTime"] = True
    else:
        request["RestoreDateTime"] = _to_datetime(operation.at)
    response = await service.send("RestoreTableToPointInTime", request, repeat="once")
    return parse_table_description(response["TableDescription"])


async def create_backup(operation: CreateBackup, service: Service) -> BackupSummary:
    """Create a backup and return its summary. Raise `TableNotFound` without the table.

    The response lacks the table's id, so that is read first: a failure then leaves no backup that the caller
    does not know of.
    """
    try:
        table = (await service.send("DescribeTable", {"TableName": operation.table}))["Table"]
    except NotFound as error:
        raise TableNotFound(f"Table not found: {operation.table}") from error
    request = {"TableName": operation.table, "BackupName": operation.name}
    details = (await service.send("CreateBackup", request, repeat="once"))["BackupDetails"]
    arns.remember_prefix(details["BackupArn"], service)
    return parse_backup_summary(details, operation.table, table.get("TableId", ""))


async def describe_backup(operation: DescribeBackup, service: Service) -> BackupDescription:
    """Return the backup's description. Raise `BackupNotFound` without it."""
    request = {"BackupArn": await arns.get_backup_arn(operation.backup, service)}
    return parse_backup_description((await service.send("DescribeBackup", request))["BackupDescription"])


async def delete_backup(operation: DeleteBackup, service: Service) -> BackupDescription:
    """Delete the backup and return its last description."""
    request = {"BackupArn": await arns.get_backup_arn(operation.backup, service)}
    response = await service.send("DeleteBackup", request, repeat="once")
    return parse_backup_description(response["BackupDescription"])


async def list_backups(operation: ListBackups, service: Service) -> ListBackupsResult:
    """Return one page of backups; time bounds are applied again here, exactly."""
    request: Request = {"Limit": operation.limit, "BackupType": operation.type}
    if operation.table is not None:
        request["TableName"] = operation.table
    if operation.since is not None:
        request["TimeRangeLowerBound"] = _to_datetime(math.floor(operation.since))
    if operation.before is not None:
        request["TimeRangeUpperBound"] = _to_datetime(math.ceil(operation.before))
    if operation.after is not None:
        request["ExclusiveStartBackupArn"] = await arns.get_backup_arn(operation.after, service)
    response = await service.send("ListBackups", request)
    backups = [
        parse_backup_summary(summary, summary["TableName"], summary.get("TableId", ""))
        for summary in response["BackupSummaries"]
    ]
    for summary in response["BackupSummaries"][:1]:
        arns.remember_prefix(summary["BackupArn"], service)
    last = response.get("LastEvaluatedBackupArn")
    return ListBackupsResult(
        tuple(backup for backup in backups if _is_within(backup, operation)),
        None if last is None else arns.parse_backup_arn(last),
    )


def _is_within(backup: BackupSummary, operation: ListBackups) -> bool:
    """Return whether the backup was created within the operation's time bounds."""
    since, before = operation.since, operation.before
    return (since is None or backup.created_at >= since) and (before is None or backup.created_at < before)


async def restore_table_from_backup(operation: RestoreTableFromBackup, service: Service) -> TableDescription:
    """Start the restore of a backup into a new table."""
    request: Request = {
        "BackupArn": await arns.get_backup_arn(operation.backup, service),
        "TargetTableName": operation.target,
        **definitions.encode_overrides(operation.overrides),
    }
    response = await service.send("RestoreTableFromBackup", request, repeat="once")
    return parse_table_description(response["TableDescription"])


def _to_datetime(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
