"""Tables, backups and recovery, converted from the service's response members to our results.

Fields that the service does not return stay empty: the key types of a backed-up table, the id of the table
that a restore came from. `definitions.py` converts the other way.
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


def seconds(moment: datetime | None) -> float | None:
    """Convert a time from the SDK to epoch seconds."""
    return None if moment is None else moment.timestamp()


# --- tables -------------------------------------------------------------------------------------------------


def table_description(told: Members) -> TableDescription:
    throughput = told.get("ProvisionedThroughput", {})
    stream = told.get("StreamSpecification", {})
    return TableDescription(
        definition=_definition(told),
        id=told.get("TableId", ""),
        status=told["TableStatus"],
        created_at=seconds(told.get("CreationDateTime")) or 0.0,
        item_count=told.get("ItemCount", 0),
        size_bytes=told.get("TableSizeBytes", 0),
        global_indexes=_states(told.get("GlobalSecondaryIndexes")),
        local_indexes=_states(told.get("LocalSecondaryIndexes")),
        stream_label=told.get("LatestStreamLabel"),
        stream_view=stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
        billing_changed_at=seconds(
            told.get("BillingModeSummary", {}).get("LastUpdateToPayPerRequestDateTime")
        ),
        table_class_changed_at=seconds(told.get("TableClassSummary", {}).get("LastUpdateDateTime")),
        throughput_raised_at=seconds(throughput.get("LastIncreaseDateTime")),
        throughput_lowered_at=seconds(throughput.get("LastDecreaseDateTime")),
        restore=_origin(told.get("RestoreSummary")),
        throughput_decreases_today=throughput.get("NumberOfDecreasesToday", 0),
    )


def _definition(told: Members) -> TableDefinition:
    mode = told.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    stream = told.get("StreamSpecification", {})
    return TableDefinition(
        name=told["TableName"],
        attributes=tuple(
            KeyAttribute(each["AttributeName"], each["AttributeType"])
            for each in told.get("AttributeDefinitions", ())
        ),
        keys=keys(told["KeySchema"]),
        local_indexes=_indexes(told.get("LocalSecondaryIndexes"), mode),
        global_indexes=_indexes(told.get("GlobalSecondaryIndexes"), mode),
        billing_mode=mode,
        throughput=_throughput(told.get("ProvisionedThroughput")) or Throughput(),
        table_class=told.get("TableClassSummary", {}).get("TableClass"),
        deletion_protection=told.get("DeletionProtectionEnabled", False),
        stream_view=stream.get("StreamViewType") if stream.get("StreamEnabled") else None,
    )


def keys(told: list[Members]) -> KeySchema:
    by_kind = {each["KeyType"]: each["AttributeName"] for each in told}
    return KeySchema(by_kind["HASH"], by_kind.get("RANGE"))


def _indexes(told: list[Members] | None, mode: str) -> tuple[IndexDefinition, ...]:
    return tuple(
        IndexDefinition(
            each["IndexName"],
            keys(each["KeySchema"]),
            IndexProjection(
                each["Projection"]["ProjectionType"], tuple(each["Projection"].get("NonKeyAttributes", ()))
            ),
            # With on-demand billing an index has no throughput; the service returns zeros.
            _throughput(each.get("ProvisionedThroughput")) if mode == "PROVISIONED" else None,
        )
        for each in told or ()
    )


def _throughput(told: Members | None) -> Throughput | None:
    return None if told is None else Throughput(told["ReadCapacityUnits"], told["WriteCapacityUnits"])


def _states(told: list[Members] | None) -> dict[str, IndexState]:
    return {
        each["IndexName"]: IndexState(
            each.get("IndexStatus", "ACTIVE"),
            each.get("Backfilling", False),
            each.get("ItemCount", 0),
            each.get("IndexSizeBytes", 0),
        )
        for each in told or ()
    }


def _origin(told: Members | None) -> RestoreOrigin | None:
    if told is None:
        return None
    backup = told.get("SourceBackupArn")
    return RestoreOrigin(
        source_table=told.get("SourceTableArn", "").partition(":table/")[2],
        source_table_id="",
        restored_to=told["RestoreDateTime"].timestamp(),
        backup_id=None if backup is None else backup.rpartition("/")[2],
        in_progress=told["RestoreInProgress"],
    )


# --- backups and recovery -----------------------------------------------------------------------------------


def backup_summary(told: Members, table: str, table_id: str) -> BackupSummary:
    return BackupSummary(
        id=told["BackupArn"].rpartition("/")[2],
        name=told["BackupName"],
        table=table,
        table_id=table_id,
        status=told["BackupStatus"],
        type=told["BackupType"],
        created_at=told["BackupCreationDateTime"].timestamp(),
        size_bytes=told.get("BackupSizeBytes", 0),
        expires_at=seconds(told.get("BackupExpiryDateTime")),
    )


def backup_description(told: Members) -> BackupDescription:
    source, features = told["SourceTableDetails"], told.get("SourceTableFeatureDetails", {})
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
        backup_summary(told["BackupDetails"], source["TableName"], source.get("TableId", "")),
        table_description(as_table),
        lifetime.get("AttributeName"),
    )


def continuous_backups(told: Members) -> ContinuousBackups:
    recovery = told["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
        return ContinuousBackups(enabled=False)
    return ContinuousBackups(
        enabled=True,
        recovery_days=recovery.get("RecoveryPeriodInDays"),
        earliest=seconds(recovery.get("EarliestRestorableDateTime")),
        latest=seconds(recovery.get("LatestRestorableDateTime")),
    )
