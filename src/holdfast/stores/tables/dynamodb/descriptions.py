"""Parsing of the service's descriptions of tables, backups and recovery into results of operations.

Fields that the service does not return stay empty: the key types of a backed-up table, the id of the source
table of a restore. `definitions.py` converts the other way.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

from holdfast.operations.tables import (
    BackupDescription,
    BackupSummary,
    ContinuousBackups,
    IndexDefinition,
    IndexProjection,
    IndexState,
    KeyAttribute,
    KeySchema,
    RestoreOrigin,
    TableDefinition,
    TableDescription,
    Throughput,
)

Members: TypeAlias = dict[str, Any]


def to_seconds(moment: datetime | None) -> float | None:
    """Convert a time from the SDK to epoch seconds; None stays None."""
    return None if moment is None else moment.timestamp()


# --- tables -------------------------------------------------------------------------------------------------


def parse_table_description(members: Members) -> TableDescription:
    """Return the description from the members of DescribeTable; absent members become empty values."""
    throughput = members.get("ProvisionedThroughput", {})
    stream = members.get("StreamSpecification", {})
    return TableDescription(
        definition=_parse_definition(members),
        id=members.get("TableId", ""),
        status=members["TableStatus"],
        created_at=to_seconds(members.get("CreationDateTime")) or 0.0,
        item_count=members.get("ItemCount", 0),
        size_bytes=members.get("TableSizeBytes", 0),
        global_indexes=_parse_index_states(members.get("GlobalSecondaryIndexes")),
        local_indexes=_parse_index_states(members.get("LocalSecondaryIndexes")),
        stream_label=members.get("LatestStreamLabel"),
        stream_view=stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
        billing_changed_at=to_seconds(
            members.get("BillingModeSummary", {}).get("LastUpdateToPayPerRequestDateTime")
        ),
        table_class_changed_at=to_seconds(members.get("TableClassSummary", {}).get("LastUpdateDateTime")),
        throughput_raised_at=to_seconds(throughput.get("LastIncreaseDateTime")),
        throughput_lowered_at=to_seconds(throughput.get("LastDecreaseDateTime")),
        restore=_parse_origin(members.get("RestoreSummary")),
        throughput_decreases_today=throughput.get("NumberOfDecreasesToday", 0),
    )


def _parse_definition(members: Members) -> TableDefinition:
    """Return the table's definition from the members of DescribeTable."""
    mode = members.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    stream = members.get("StreamSpecification", {})
    return TableDefinition(
        name=members["TableName"],
        attributes=tuple(
            KeyAttribute(each["AttributeName"], each["AttributeType"])
            for each in members.get("AttributeDefinitions", ())
        ),
        keys=parse_key_schema(members["KeySchema"]),
        local_indexes=_parse_indexes(members.get("LocalSecondaryIndexes"), mode),
        global_indexes=_parse_indexes(members.get("GlobalSecondaryIndexes"), mode),
        billing_mode=mode,
        throughput=_parse_throughput(members.get("ProvisionedThroughput")) or Throughput(),
        table_class=members.get("TableClassSummary", {}).get("TableClass"),
        deletion_protection=members.get("DeletionProtectionEnabled", False),
        stream_view=stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
    )


def parse_key_schema(members: list[Members]) -> KeySchema:
    """Return the key schema, whatever the order of its members."""
    by_kind = {each["KeyType"]: each["AttributeName"] for each in members}
    return KeySchema(by_kind["HASH"], by_kind.get("RANGE"))


def _parse_indexes(members: list[Members] | None, mode: str) -> tuple[IndexDefinition, ...]:
    """Return the definitions of indexes; with on-demand billing (`mode`) they have no throughput."""
    return tuple(
        IndexDefinition(
            each["IndexName"],
            parse_key_schema(each["KeySchema"]),
            IndexProjection(
                each["Projection"]["ProjectionType"], tuple(each["Projection"].get("NonKeyAttributes", ()))
            ),
            # With on-demand billing an index has no throughput; the service returns zeros.
            _parse_throughput(each.get("ProvisionedThroughput")) if mode == "PROVISIONED" else None,
        )
        for each in members or ()
    )


def _parse_throughput(members: Members | None) -> Throughput | None:
    return (
        None if members is None else Throughput(members["ReadCapacityUnits"], members["WriteCapacityUnits"])
    )


def _parse_index_states(members: list[Members] | None) -> dict[str, IndexState]:
    """Return status, backfilling, item count and size of each index by name."""
    return {
        each["IndexName"]: IndexState(
            each.get("IndexStatus", "ACTIVE"),
            each.get("Backfilling", False),
            each.get("ItemCount", 0),
            each.get("IndexSizeBytes", 0),
        )
        for each in members or ()
    }


def _parse_origin(members: Members | None) -> RestoreOrigin | None:
    """Return what the table was restored from, or None if it was not restored."""
    if members is None:
        return None
    backup = members.get("SourceBackupArn")
    return RestoreOrigin(
        source_table=members.get("SourceTableArn", "").partition(":table/")[2],
        source_table_id="",
        restored_to=members["RestoreDateTime"].timestamp(),
        backup_id=None if backup is None else backup.rpartition("/")[2],
        in_progress=members["RestoreInProgress"],
    )


# --- backups and recovery -----------------------------------------------------------------------------------


def parse_backup_summary(members: Members, table: str, table_id: str) -> BackupSummary:
    """Convert the members of a backup. They may lack its table, so the caller passes it."""
    return BackupSummary(
        id=members["BackupArn"].rpartition("/")[2],
        name=members["BackupName"],
        table=table,
        table_id=table_id,
        status=members["BackupStatus"],
        type=members["BackupType"],
        created_at=members["BackupCreationDateTime"].timestamp(),
        size_bytes=members.get("BackupSizeBytes", 0),
        expires_at=to_seconds(members.get("BackupExpiryDateTime")),
    )


def parse_backup_description(members: Members) -> BackupDescription:
    """Return the backup's description, with its source table as it was then."""
    source, features = members["SourceTableDetails"], members.get("SourceTableFeatureDetails", {})
    lifetime = features.get("TimeToLiveDescription", {})
    as_table = {
        **source,
        "TableStatus": "ACTIVE",
        "CreationDateTime": source.get("TableCreationDateTime"),
        "BillingModeSummary": {"BillingMode": source.get("BillingMode", "PROVISIONED")},
        "StreamSpecification": features.get("StreamDescription", {}),
        "LocalSecondaryIndexes": features.get("LocalSecondaryIndexes"),
        "GlobalSecondaryIndexes": features.get("GlobalSecondaryIndexes"),
    }
    return BackupDescription(
        parse_backup_summary(members["BackupDetails"], source["TableName"], source.get("TableId", "")),
        parse_table_description(as_table),
        lifetime.get("AttributeName"),
    )


def parse_continuous_backups(members: Members) -> ContinuousBackups:
    """Return whether point-in-time recovery is enabled and, if so, its window."""
    recovery = members["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
        return ContinuousBackups(enabled=False)
    return ContinuousBackups(
        enabled=True,
        recovery_days=recovery.get("RecoveryPeriodInDays"),
        earliest=to_seconds(recovery.get("EarliestRestorableDateTime")),
        latest=to_seconds(recovery.get("LatestRestorableDateTime")),
    )
