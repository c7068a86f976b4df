"""Continuous backups, on-demand backups, and the tables restored from them.

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
    backup_description,
    backup_summary,
    continuous_backups,
    table_description,
)
from holdfast.stores.tables.dynamodb.service import Request, Service


async def describe_continuous_backups(
    operation: DescribeContinuousBackups, service: Service
) -> ContinuousBackups:
    return continuous_backups(await service.ask("DescribeContinuousBackups", {"TableName": operation.table}))


async def update_continuous_backups(
    operation: UpdateContinuousBackups, service: Service
) -> ContinuousBackups:
    wanted: Request = {"PointInTimeRecoveryEnabled": operation.enabled}
    if operation.recovery_days is not None:
        wanted["RecoveryPeriodInDays"] = operation.recovery_days
    request = {"TableName": operation.table, "PointInTimeRecoverySpecification": wanted}
    return continuous_backups(await service.ask("UpdateContinuousBackups", request, repeat="same"))


async def restore_table_to_point_in_time(
    operation: RestoreTableToPointInTime, service: Service
) -> TableDescription:
    request: Request = {
        "SourceTableName": operation.source,
        "TargetTableName": operation.target,
        **definitions.overrides(operation.overrides),
    }
    if operation.at is None:
        request["UseLatestRestorableTime"] = True
    else:
        request["RestoreDateTime"] = _moment(operation.at)
    answer = await service.ask("RestoreTableToPointInTime", request, repeat="once")
    return table_description(answer["TableDescription"])


async def create_backup(operation: CreateBackup, service: Service) -> BackupSummary:
    """Create a backup. The response lacks the table's id, so it is read first: a failure then leaves no
    backup that the caller does not know of.
    """
    try:
        table = (await service.ask("DescribeTable", {"TableName": operation.table}))["Table"]
    except NotFound as error:
        raise TableNotFound(f"Table not found: {operation.table}") from error
    request = {"TableName": operation.table, "BackupName": operation.name}
    told = (await service.ask("CreateBackup", request, repeat="once"))["BackupDetails"]
    arns.learn(told["BackupArn"], service)
    return backup_summary(told, operation.table, table.get("TableId", ""))


async def describe_backup(operation: DescribeBackup, service: Service) -> BackupDescription:
    request = {"BackupArn": await arns.backup_arn(operation.backup, service)}
    return backup_description((await service.ask("DescribeBackup", request))["BackupDescription"])


async def delete_backup(operation: DeleteBackup, service: Service) -> BackupDescription:
    request = {"BackupArn": await arns.backup_arn(operation.backup, service)}
    answer = await service.ask("DeleteBackup", request, repeat="once")
    return backup_description(answer["BackupDescription"])


async def list_backups(operation: ListBackups, service: Service) -> ListBackupsResult:
    request: Request = {"Limit": operation.limit, "BackupType": operation.type}
    if operation.table is not None:
        request["TableName"] = operation.table
    if operation.since is not None:
        request["TimeRangeLowerBound"] = _moment(math.floor(operation.since))
    if operation.before is not None:
        request["TimeRangeUpperBound"] = _moment(math.ceil(operation.before))
    if operation.after is not None:
        request["ExclusiveStartBackupArn"] = await arns.backup_arn(operation.after, service)
    answer = await service.ask("ListBackups", request)
    backups = [
        backup_summary(told, told["TableName"], told.get("TableId", "")) for told in answer["BackupSummaries"]
    ]
    for told in answer["BackupSummaries"][:1]:
        arns.learn(told["BackupArn"], service)
    last = answer.get("LastEvaluatedBackupArn")
    return ListBackupsResult(
        tuple(backup for backup in backups if _is_within(backup, operation)),
        None if last is None else arns.backup_of(last),
    )


def _is_within(backup: BackupSummary, operation: ListBackups) -> bool:
    since, before = operation.since, operation.before
    return (since is None or backup.created_at >= since) and (before is None or backup.created_at < before)


async def restore_table_from_backup(operation: RestoreTableFromBackup, service: Service) -> TableDescription:
    request: Request = {
        "BackupArn": await arns.backup_arn(operation.backup, service),
        "TargetTableName": operation.target,
        **definitions.overrides(operation.overrides),
    }
    answer = await service.ask("RestoreTableFromBackup", request, repeat="once")
    return table_description(answer["TableDescription"])


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
