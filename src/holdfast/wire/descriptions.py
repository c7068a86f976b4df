"""Descriptions of tables, backups and recovery in responses: the engine's results as AWS's members.

This is the last stage of the operations on tables, on table streams and on backups. A member without a value
is left out, never null, as DynamoDB does. `definitions.py` is the inverse.
"""

from __future__ import annotations

from typing import Final

from holdfast.operations.tables import (
    BackupDescription,
    BackupSummary,
    ContinuousBackups,
    IndexDefinition,
    IndexProjection,
    IndexState,
    KeySchema,
    RestoreOrigin,
    StreamView,
    TableDescription,
    Throughput,
)
from holdfast.wire.arns import Place, backup_arn, index_arn, stream_arn, table_arn
from holdfast.wire.shapes import Answer

_KEY_TYPES: Final = ("HASH", "RANGE")


def seconds(moment: float) -> float:
    """Return a time as the protocol encodes it: epoch seconds, to the millisecond."""
    return round(moment, 3)


# --- tables -------------------------------------------------------------------------------------------------


def table_description(table: TableDescription, place: Place) -> Answer:
    """Return the full description of a table, for CreateTable, DescribeTable, UpdateTable and the
    restores.
    """
    definition = table.definition
    attributes = [{"AttributeName": each.name, "AttributeType": each.type} for each in definition.attributes]
    return {
        "AttributeDefinitions": attributes,
        "KeySchema": key_schema(definition.keys),
        "CreationDateTime": seconds(table.created_at),
        **table_summary(table, place),
        **_billing(table),
        **_indexes(table, place),
        **_stream(table, place),
        **_table_class(table),
        **_restore(table.restore, place),
    }


def deleted_table_description(table: TableDescription, place: Place) -> Answer:
    """Return the description of a table being deleted: without its keys, indexes and creation time, as in
    DynamoDB.
    """
    return {**table_summary(table, place), **_billing(table), **_stream(table, place), **_table_class(table)}


def table_summary(table: TableDescription, place: Place) -> Answer:
    """Return the members that describe a table in every status."""
    definition = table.definition
    return {
        "TableName": definition.name,
        "TableStatus": table.status,
        "TableArn": table_arn(place, definition.name),
        "TableId": table.id,
        "TableSizeBytes": table.size_bytes,
        "ItemCount": table.item_count,
        "ProvisionedThroughput": _table_throughput(table),
        "DeletionProtectionEnabled": definition.deletion_protection,
    }


def key_schema(keys: KeySchema) -> list[Answer]:
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(keys.names, _KEY_TYPES, strict=False)
    ]


def _table_throughput(table: TableDescription) -> Answer:
    told = _throughput(table.definition.throughput)
    told["NumberOfDecreasesToday"] = table.throughput_decreases_today
    if table.throughput_raised_at is not None:
        told["LastIncreaseDateTime"] = seconds(table.throughput_raised_at)
    if table.throughput_lowered_at is not None:
        told["LastDecreaseDateTime"] = seconds(table.throughput_lowered_at)
    return told


def _throughput(throughput: Throughput | None) -> Answer:
    units = throughput or Throughput()
    return {
        "NumberOfDecreasesToday": 0,
        "ReadCapacityUnits": units.read,
        "WriteCapacityUnits": units.write,
    }


def _billing(table: TableDescription) -> Answer:
    """Return the billing mode, only for a table that is or ever was on-demand."""
    mode, changed_at = table.definition.billing_mode, table.billing_changed_at
    if mode == "PROVISIONED" and changed_at is None:
        return {}
    since: Answer = {}
    if table.status != "CREATING":
        moment = table.created_at if changed_at is None else changed_at
        since["LastUpdateToPayPerRequestDateTime"] = seconds(moment)
    return {
        "BillingModeSummary": {"BillingMode": mode, **since},
        "TableThroughputModeSummary": {"TableThroughputMode": mode, **since},
    }


def _stream(table: TableDescription, place: Place) -> Answer:
    """Return the stream members. The latest stream's name remains after the stream was disabled."""
    told: Answer = {}
    if table.stream_view is not None:
        told["StreamSpecification"] = stream_specification(table.stream_view)
    if table.stream_label is not None:
        told["LatestStreamLabel"] = table.stream_label
        told["LatestStreamArn"] = stream_arn(place, table.definition.name, table.stream_label)
    return told


def stream_specification(view: StreamView) -> Answer:
    return {"StreamEnabled": True, "StreamViewType": view}


def _table_class(table: TableDescription) -> Answer:
    """Return the table class, only if a caller ever set one."""
    if table.definition.table_class is None:
        return {}
    told: Answer = {"TableClass": table.definition.table_class}
    if table.table_class_changed_at is not None:
        told["LastUpdateDateTime"] = seconds(table.table_class_changed_at)
    return {"TableClassSummary": told}


def _restore(origin: RestoreOrigin | None, place: Place) -> Answer:
    if origin is None:
        return {}
    told: Answer = {
        "SourceTableArn": table_arn(place, origin.source_table),
        "RestoreDateTime": seconds(origin.restored_to),
        "RestoreInProgress": origin.in_progress,
    }
    if origin.backup_id is not None:
        told["SourceBackupArn"] = _arn_of_origin(origin.backup_id, origin.source_table, place)
    return {"RestoreSummary": told}


def _arn_of_origin(backup: str, table: str, place: Place) -> str:
    """Build the ARN of the source backup. The engine knows only its id; the wire adds region and account."""
    return backup if backup.startswith("arn:") else backup_arn(place, table, backup)


# --- indexes ------------------------------------------------------------------------------------------------


def _indexes(table: TableDescription, place: Place) -> Answer:
    definition = table.definition
    told: Answer = {}
    if definition.local_indexes:
        told["LocalSecondaryIndexes"] = [
            _index(each, table, table.local_indexes.get(each.name, IndexState()), place)
            for each in definition.local_indexes
        ]
    if definition.global_indexes:
        told["GlobalSecondaryIndexes"] = [
            _global_index(each, table, table.global_indexes.get(each.name, IndexState()), place)
            for each in definition.global_indexes
        ]
    return told


def _global_index(index: IndexDefinition, table: TableDescription, state: IndexState, place: Place) -> Answer:
    """Describe a global secondary index. Only an index added to an existing table shows whether it is
    backfilling.
    """
    told = _index(index, table, state, place)
    told["IndexStatus"] = state.status
    told["ProvisionedThroughput"] = _throughput(index.throughput)
    if table.status != "CREATING" and (state.backfilling or state.status == "CREATING"):
        told["Backfilling"] = state.backfilling
    return told


def _index(index: IndexDefinition, table: TableDescription, state: IndexState, place: Place) -> Answer:
    return {
        **_index_schema(index),
        "IndexSizeBytes": state.size_bytes,
        "ItemCount": state.item_count,
        "IndexArn": index_arn(place, table.definition.name, index.name),
    }


def _index_schema(index: IndexDefinition) -> Answer:
    return {
        "IndexName": index.name,
        "KeySchema": key_schema(index.keys),
        "Projection": _projection(index.projection),
    }


def _projection(projection: IndexProjection) -> Answer:
    told: Answer = {"ProjectionType": projection.kind}
    if projection.attributes:
        told["NonKeyAttributes"] = list(projection.attributes)
    return told


# --- backups and recovery -----------------------------------------------------------------------------------


def backup_details(backup: BackupSummary, place: Place) -> Answer:
    told: Answer = {
        "BackupArn": backup_arn(place, backup.table, backup.id),
        "BackupName": backup.name,
        "BackupSizeBytes": backup.size_bytes,
        "BackupStatus": backup.status,
        "BackupType": backup.type,
        "BackupCreationDateTime": seconds(backup.created_at),
    }
    if backup.expires_at is not None:
        told["BackupExpiryDateTime"] = seconds(backup.expires_at)
    return told


def backup_summary(backup: BackupSummary, place: Place) -> Answer:
    return {
        "TableName": backup.table,
        "TableId": backup.table_id,
        "TableArn": table_arn(place, backup.table),
        **backup_details(backup, place),
    }


def backup_description(backup: BackupDescription, place: Place) -> Answer:
    return {
        "BackupDetails": backup_details(backup.summary, place),
        "SourceTableDetails": _source_table(backup.source, place),
        "SourceTableFeatureDetails": _source_features(backup),
    }


def _source_table(source: TableDescription, place: Place) -> Answer:
    definition = source.definition
    return {
        "TableName": definition.name,
        "TableId": source.id,
        "TableArn": table_arn(place, definition.name),
        "TableSizeBytes": source.size_bytes,
        "KeySchema": key_schema(definition.keys),
        "TableCreationDateTime": seconds(source.created_at),
        "ProvisionedThroughput": _plain_throughput(definition.throughput),
        "ItemCount": source.item_count,
        "BillingMode": definition.billing_mode,
    }


def _source_features(backup: BackupDescription) -> Answer:
    definition = backup.source.definition
    told: Answer = {}
    if definition.local_indexes:
        told["LocalSecondaryIndexes"] = [_index_schema(each) for each in definition.local_indexes]
    if definition.global_indexes:
        told["GlobalSecondaryIndexes"] = [
            {**_index_schema(each), "ProvisionedThroughput": _plain_throughput(each.throughput)}
            for each in definition.global_indexes
        ]
    if backup.source.stream_view is not None:
        told["StreamDescription"] = stream_specification(backup.source.stream_view)
    if backup.lifetime_attribute is not None:
        told["TimeToLiveDescription"] = {
            "TimeToLiveStatus": "ENABLED",
            "AttributeName": backup.lifetime_attribute,
        }
    return told


def _plain_throughput(throughput: Throughput | None) -> Answer:
    units = throughput or Throughput()
    return {"ReadCapacityUnits": units.read, "WriteCapacityUnits": units.write}


def continuous_backups(backups: ContinuousBackups) -> Answer:
    """Describe continuous backups. They are on for every table; point-in-time recovery is a separate
    member.
    """
    recovery: Answer = {"PointInTimeRecoveryStatus": "ENABLED" if backups.enabled else "DISABLED"}
    if backups.enabled:
        if backups.recovery_days is not None:
            recovery["RecoveryPeriodInDays"] = backups.recovery_days
        if backups.earliest is not None:
            recovery["EarliestRestorableDateTime"] = seconds(backups.earliest)
        if backups.latest is not None:
            recovery["LatestRestorableDateTime"] = seconds(backups.latest)
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": recovery,
        }
    }
