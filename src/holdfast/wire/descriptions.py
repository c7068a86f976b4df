"""Descriptions of tables, backups and recovery in responses: encode the engine's results as AWS's members.

The operations on tables, on table streams and on backups call it to encode their results. A member without a
value is left out, never null, as DynamoDB does. `definitions.py` is the inverse.
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
from holdfast.wire.arns import (
    AwsLocation,
    format_backup_arn,
    format_index_arn,
    format_stream_arn,
    format_table_arn,
)
from holdfast.wire.shapes import Response

_KEY_TYPES: Final = ("HASH", "RANGE")


def encode_time(moment: float) -> float:
    """Return a time as the protocol encodes it: epoch seconds, to the millisecond."""
    return round(moment, 3)


# --- tables -------------------------------------------------------------------------------------------------


def encode_table_description(table: TableDescription, location: AwsLocation) -> Response:
    """Return the full description of a table, for CreateTable, DescribeTable, UpdateTable and the
    restores.
    """
    definition = table.definition
    attributes = [{"AttributeName": each.name, "AttributeType": each.type} for each in definition.attributes]
    return {
        "AttributeDefinitions": attributes,
        "KeySchema": encode_key_schema(definition.keys),
        "CreationDateTime": encode_time(table.created_at),
        **encode_table_summary(table, location),
        **_encode_billing(table),
        **_encode_indexes(table, location),
        **_encode_stream(table, location),
        **_encode_table_class(table),
        **_encode_restore(table.restore, location),
    }


def encode_deleted_table_description(table: TableDescription, location: AwsLocation) -> Response:
    """Return the description of a table being deleted: without its keys, indexes and creation time, as in
    DynamoDB.
    """
    return {
        **encode_table_summary(table, location),
        **_encode_billing(table),
        **_encode_stream(table, location),
        **_encode_table_class(table),
    }


def encode_table_summary(table: TableDescription, location: AwsLocation) -> Response:
    """Return the members that describe a table in every status."""
    definition = table.definition
    return {
        "TableName": definition.name,
        "TableStatus": table.status,
        "TableArn": format_table_arn(location, definition.name),
        "TableId": table.id,
        "TableSizeBytes": table.size_bytes,
        "ItemCount": table.item_count,
        "ProvisionedThroughput": _encode_table_throughput(table),
        "DeletionProtectionEnabled": definition.deletion_protection,
    }


def encode_key_schema(keys: KeySchema) -> list[Response]:
    """Encode the keys as HASH and, if there is a sort key, RANGE."""
    return [
        {"AttributeName": name, "KeyType": kind} for name, kind in zip(keys.names, _KEY_TYPES, strict=False)
    ]


def _encode_table_throughput(table: TableDescription) -> Response:
    """Encode a table's throughput with the times and the number of its changes."""
    response = _encode_throughput(table.definition.throughput)
    response["NumberOfDecreasesToday"] = table.throughput_decreases_today
    if table.throughput_raised_at is not None:
        response["LastIncreaseDateTime"] = encode_time(table.throughput_raised_at)
    if table.throughput_lowered_at is not None:
        response["LastDecreaseDateTime"] = encode_time(table.throughput_lowered_at)
    return response


def _encode_throughput(throughput: Throughput | None) -> Response:
    """Encode an index's throughput; zeros if it has none."""
    units = throughput or Throughput()
    return {
        "NumberOfDecreasesToday": 0,
        "ReadCapacityUnits": units.read,
        "WriteCapacityUnits": units.write,
    }


def _encode_billing(table: TableDescription) -> Response:
    """Return the billing mode, only for a table that is or ever was on-demand."""
    mode, changed_at = table.definition.billing_mode, table.billing_changed_at
    if mode == "PROVISIONED" and changed_at is None:
        return {}
    since: Response = {}
    if table.status != "CREATING":
        moment = table.created_at if changed_at is None else changed_at
        since["LastUpdateToPayPerRequestDateTime"] = encode_time(moment)
    return {
        "BillingModeSummary": {"BillingMode": mode, **since},
        "TableThroughputModeSummary": {"TableThroughputMode": mode, **since},
    }


def _encode_stream(table: TableDescription, location: AwsLocation) -> Response:
    """Return the stream members. The latest stream's name remains after the stream was disabled."""
    response: Response = {}
    if table.stream_view is not None:
        response["StreamSpecification"] = encode_stream_specification(table.stream_view)
    if table.stream_label is not None:
        response["LatestStreamLabel"] = table.stream_label
        response["LatestStreamArn"] = format_stream_arn(location, table.definition.name, table.stream_label)
    return response


def encode_stream_specification(view: StreamView) -> Response:
    return {"StreamEnabled": True, "StreamViewType": view}


def _encode_table_class(table: TableDescription) -> Response:
    """Return the table class, only if a caller ever set one."""
    if table.definition.table_class is None:
        return {}
    response: Response = {"TableClass": table.definition.table_class}
    if table.table_class_changed_at is not None:
        response["LastUpdateDateTime"] = encode_time(table.table_class_changed_at)
    return {"TableClassSummary": response}


def _encode_restore(origin: RestoreOrigin | None, location: AwsLocation) -> Response:
    """Return the origin of a restored table, or nothing for a table that was not restored."""
    if origin is None:
        return {}
    response: Response = {
        "SourceTableArn": format_table_arn(location, origin.source_table),
        "RestoreDateTime": encode_time(origin.restored_to),
        "RestoreInProgress": origin.in_progress,
    }
    if origin.backup_id is not None:
        response["SourceBackupArn"] = _format_source_arn(origin.backup_id, origin.source_table, location)
    return {"RestoreSummary": response}


def _format_source_arn(backup: str, table: str, location: AwsLocation) -> str:
    """Build the ARN of the source backup. The engine knows only its id; the wire adds region and account."""
    return backup if backup.startswith("arn:") else format_backup_arn(location, table, backup)


# --- indexes ------------------------------------------------------------------------------------------------


def _encode_indexes(table: TableDescription, location: AwsLocation) -> Response:
    """Encode the local and global indexes with their state; a kind without indexes is left out."""
    definition = table.definition
    response: Response = {}
    if definition.local_indexes:
        response["LocalSecondaryIndexes"] = [
            _encode_index(each, table, table.local_indexes.get(each.name, IndexState()), location)
            for each in definition.local_indexes
        ]
    if definition.global_indexes:
        response["GlobalSecondaryIndexes"] = [
            _encode_global_index(each, table, table.global_indexes.get(each.name, IndexState()), location)
            for each in definition.global_indexes
        ]
    return response


def _encode_global_index(
    index: IndexDefinition, table: TableDescription, state: IndexState, location: AwsLocation
) -> Response:
    """Describe a global secondary index. Only an index added to an existing table shows whether it is
    backfilling.
    """
    response = _encode_index(index, table, state, location)
    response["IndexStatus"] = state.status
    response["ProvisionedThroughput"] = _encode_throughput(index.throughput)
    if table.status != "CREATING" and (state.backfilling or state.status == "CREATING"):
        response["Backfilling"] = state.backfilling
    return response


def _encode_index(
    index: IndexDefinition, table: TableDescription, state: IndexState, location: AwsLocation
) -> Response:
    """Encode the members that local and global indexes share."""
    return {
        **_encode_index_schema(index),
        "IndexSizeBytes": state.size_bytes,
        "ItemCount": state.item_count,
        "IndexArn": format_index_arn(location, table.definition.name, index.name),
    }


def _encode_index_schema(index: IndexDefinition) -> Response:
    return {
        "IndexName": index.name,
        "KeySchema": encode_key_schema(index.keys),
        "Projection": _encode_projection(index.projection),
    }


def _encode_projection(projection: IndexProjection) -> Response:
    response: Response = {"ProjectionType": projection.kind}
    if projection.attributes:
        response["NonKeyAttributes"] = list(projection.attributes)
    return response


# --- backups and recovery -----------------------------------------------------------------------------------


def encode_backup_details(backup: BackupSummary, location: AwsLocation) -> Response:
    """Encode a backup without its table."""
    response: Response = {
        "BackupArn": format_backup_arn(location, backup.table, backup.id),
        "BackupName": backup.name,
        "BackupSizeBytes": backup.size_bytes,
        "BackupStatus": backup.status,
        "BackupType": backup.type,
        "BackupCreationDateTime": encode_time(backup.created_at),
    }
    if backup.expires_at is not None:
        response["BackupExpiryDateTime"] = encode_time(backup.expires_at)
    return response


def encode_backup_summary(backup: BackupSummary, location: AwsLocation) -> Response:
    """Encode a backup and its table, for a listing."""
    return {
        "TableName": backup.table,
        "TableId": backup.table_id,
        "TableArn": format_table_arn(location, backup.table),
        **encode_backup_details(backup, location),
    }


def encode_backup_description(backup: BackupDescription, location: AwsLocation) -> Response:
    """Encode a backup, and its source table as it was."""
    return {
        "BackupDetails": encode_backup_details(backup.summary, location),
        "SourceTableDetails": _encode_source_table(backup.source, location),
        "SourceTableFeatureDetails": _encode_source_features(backup),
    }


def _encode_source_table(source: TableDescription, location: AwsLocation) -> Response:
    """Encode the source table of a backup: its keys, size and billing."""
    definition = source.definition
    return {
        "TableName": definition.name,
        "TableId": source.id,
        "TableArn": format_table_arn(location, definition.name),
        "TableSizeBytes": source.size_bytes,
        "KeySchema": encode_key_schema(definition.keys),
        "TableCreationDateTime": encode_time(source.created_at),
        "ProvisionedThroughput": _encode_plain_throughput(definition.throughput),
        "ItemCount": source.item_count,
        "BillingMode": definition.billing_mode,
    }


def _encode_source_features(backup: BackupDescription) -> Response:
    """Encode the indexes, stream and TTL of the source table; absent ones are left out."""
    definition = backup.source.definition
    response: Response = {}
    if definition.local_indexes:
        response["LocalSecondaryIndexes"] = [_encode_index_schema(each) for each in definition.local_indexes]
    if definition.global_indexes:
        response["GlobalSecondaryIndexes"] = [
            {**_encode_index_schema(each), "ProvisionedThroughput": _encode_plain_throughput(each.throughput)}
            for each in definition.global_indexes
        ]
    if backup.source.stream_view is not None:
        response["StreamDescription"] = encode_stream_specification(backup.source.stream_view)
    if backup.lifetime_attribute is not None:
        response["TimeToLiveDescription"] = {
            "TimeToLiveStatus": "ENABLED",
            "AttributeName": backup.lifetime_attribute,
        }
    return response


def _encode_plain_throughput(throughput: Throughput | None) -> Response:
    """Encode throughput without its change history, as backups show it."""
    units = throughput or Throughput()
    return {"ReadCapacityUnits": units.read, "WriteCapacityUnits": units.write}


def encode_continuous_backups(backups: ContinuousBackups) -> Response:
    """Describe continuous backups. They are on for every table; point-in-time recovery is a separate
    member.
    """
    recovery: Response = {"PointInTimeRecoveryStatus": "ENABLED" if backups.enabled else "DISABLED"}
    if backups.enabled:
        if backups.recovery_days is not None:
            recovery["RecoveryPeriodInDays"] = backups.recovery_days
        if backups.earliest is not None:
            recovery["EarliestRestorableDateTime"] = encode_time(backups.earliest)
        if backups.latest is not None:
            recovery["LatestRestorableDateTime"] = encode_time(backups.latest)
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": recovery,
        }
    }
