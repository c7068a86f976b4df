"""Tables, backups and recovery in responses: encoded with exactly the members that DynamoDB sends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.operations.tables import (
    BackupDescription,
    BackupName,
    BackupSummary,
    ContinuousBackups,
    DescribeLimitsResult,
    DescribeTimeToLiveResult,
    IndexDefinition,
    IndexProjection,
    IndexState,
    KeyAttribute,
    KeySchema,
    ListBackupsResult,
    ListTablesResult,
    RestoreOrigin,
    TableDefinition,
    TableDescription,
    Throughput,
    TimeToLiveSpecification,
)
from holdfast.wire.arns import AwsLocation
from holdfast.wire.descriptions import encode_deleted_table_description, encode_table_description
from holdfast.wire.dispatch import decode, encode

HERE = AwsLocation("eu-west-1", "123456789012")
ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders"
LABEL = "2026-11-15T10:00:00.000"
PLAIN = TableDefinition(
    name="orders",
    attributes=(KeyAttribute("id", "S"), KeyAttribute("at", "N")),
    keys=KeySchema("id", "at"),
    billing_mode="PROVISIONED",
    throughput=Throughput(3, 2),
)
INDEXED = msgspec.structs.replace(
    PLAIN,
    local_indexes=(IndexDefinition("own", KeySchema("id", "at"), IndexProjection("KEYS_ONLY")),),
    global_indexes=(
        IndexDefinition("all", KeySchema("at"), IndexProjection("INCLUDE", ("a", "b")), Throughput(5, 4)),
    ),
)
ON_DEMAND = msgspec.structs.replace(PLAIN, billing_mode="PAY_PER_REQUEST", throughput=Throughput())


def describe(definition: TableDefinition = PLAIN, **fields: Any) -> dict[str, Any]:
    """Return the encoded description of a table with these fields."""
    return encode_table_description(table(definition, **fields), HERE)


def table(definition: TableDefinition = PLAIN, **fields: Any) -> TableDescription:
    """Return a table description with these fields and defaults for the rest."""
    known: dict[str, Any] = {"id": "some-id", "status": "ACTIVE", "created_at": 1_800_000_000.12345}
    return TableDescription(definition=definition, **(known | fields))


def answer(operation: str, request: dict[str, Any], result: object) -> dict[str, Any]:
    """Decode a request, encode a result for it, and return the response."""
    codec, decoded = decode(f"DynamoDB_20120810.{operation}", msgspec.json.encode(request))
    encoded: dict[str, Any] = msgspec.json.decode(encode(codec, decoded, result, HERE))
    return encoded


# --- tables -------------------------------------------------------------------------------------------------


def test_plain_table_has_only_the_common_members() -> None:
    assert describe(item_count=7, size_bytes=99) == {
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
        ],
        "TableName": "orders",
        "KeySchema": [
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        "TableStatus": "ACTIVE",
        "CreationDateTime": 1_800_000_000.123,
        "ProvisionedThroughput": {
            "NumberOfDecreasesToday": 0,
            "ReadCapacityUnits": 3,
            "WriteCapacityUnits": 2,
        },
        "TableSizeBytes": 99,
        "ItemCount": 7,
        "TableArn": ARN,
        "TableId": "some-id",
        "DeletionProtectionEnabled": False,
    }


def test_changed_throughput_has_its_change_times() -> None:
    changed = describe(throughput_raised_at=1.0, throughput_lowered_at=2.0, throughput_decreases_today=1)
    assert changed["ProvisionedThroughput"] == {
        "NumberOfDecreasesToday": 1,
        "ReadCapacityUnits": 3,
        "WriteCapacityUnits": 2,
        "LastIncreaseDateTime": 1.0,
        "LastDecreaseDateTime": 2.0,
    }


@pytest.mark.parametrize(
    ("definition", "fields", "summary"),
    [
        (PLAIN, {}, None),
        (ON_DEMAND, {"status": "CREATING", "billing_changed_at": 5.0}, {"BillingMode": "PAY_PER_REQUEST"}),
        (
            ON_DEMAND,
            {},
            {"BillingMode": "PAY_PER_REQUEST", "LastUpdateToPayPerRequestDateTime": 1_800_000_000.123},
        ),
        (
            ON_DEMAND,
            {"billing_changed_at": 5.0},
            {"BillingMode": "PAY_PER_REQUEST", "LastUpdateToPayPerRequestDateTime": 5.0},
        ),
        (
            PLAIN,
            {"billing_changed_at": 5.0},
            {"BillingMode": "PROVISIONED", "LastUpdateToPayPerRequestDateTime": 5.0},
        ),
    ],
    ids=["never", "being created", "from the start", "changed", "changed back"],
)
def test_billing_summary_appears_once_a_table_was_on_demand(
    definition: TableDefinition, fields: dict[str, Any], summary: object
) -> None:
    assert describe(definition, **fields).get("BillingModeSummary") == summary


def test_a_local_index_has_no_throughput_of_its_own() -> None:
    (local,) = describe(INDEXED, local_indexes={"own": IndexState(item_count=3, size_bytes=30)})[
        "LocalSecondaryIndexes"
    ]
    assert local == {
        "IndexName": "own",
        "KeySchema": [
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
        "IndexSizeBytes": 30,
        "ItemCount": 3,
        "IndexArn": f"{ARN}/index/own",
    }


def test_global_index_has_status_and_throughput() -> None:
    (index,) = describe(INDEXED)["GlobalSecondaryIndexes"]
    assert index == {
        "IndexName": "all",
        "KeySchema": [{"AttributeName": "at", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a", "b"]},
        "IndexStatus": "ACTIVE",
        "ProvisionedThroughput": {
            "NumberOfDecreasesToday": 0,
            "ReadCapacityUnits": 5,
            "WriteCapacityUnits": 4,
        },
        "IndexSizeBytes": 0,
        "ItemCount": 0,
        "IndexArn": f"{ARN}/index/all",
    }


@pytest.mark.parametrize("backfilling", [True, False])
def test_creating_index_reports_its_backfill(backfilling: bool) -> None:
    state = IndexState(status="CREATING", backfilling=backfilling)
    (index,) = describe(INDEXED, global_indexes={"all": state})["GlobalSecondaryIndexes"]
    assert (index["IndexStatus"], index["Backfilling"]) == ("CREATING", backfilling)


def test_index_created_with_its_table_has_no_backfill() -> None:
    state = IndexState(status="CREATING")
    (index,) = describe(INDEXED, status="CREATING", global_indexes={"all": state})["GlobalSecondaryIndexes"]
    assert index["IndexStatus"] == "CREATING"
    assert "Backfilling" not in index


def test_stream_has_label_and_arn() -> None:
    description = describe(stream_view="KEYS_ONLY", stream_label=LABEL)
    assert description["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    assert (description["LatestStreamLabel"], description["LatestStreamArn"]) == (
        LABEL,
        f"{ARN}/stream/{LABEL}",
    )


def test_disabled_stream_keeps_its_label() -> None:
    description = describe(stream_label=LABEL)
    assert "StreamSpecification" not in description
    assert description["LatestStreamArn"] == f"{ARN}/stream/{LABEL}"


def test_table_class_appears_only_if_chosen() -> None:
    chosen = msgspec.structs.replace(PLAIN, table_class="STANDARD")
    assert describe(chosen)["TableClassSummary"] == {"TableClass": "STANDARD"}
    assert describe(chosen, table_class_changed_at=5.0)["TableClassSummary"] == {
        "TableClass": "STANDARD",
        "LastUpdateDateTime": 5.0,
    }


@pytest.mark.parametrize("backup", ["0150-abc", f"{ARN}/backup/0150-abc"])
def test_restored_table_names_its_source(backup: str) -> None:
    origin = RestoreOrigin("orders", "other-id", 5.0, backup, in_progress=False)
    assert describe(restore=origin)["RestoreSummary"] == {
        "SourceBackupArn": f"{ARN}/backup/0150-abc",
        "SourceTableArn": ARN,
        "RestoreDateTime": 5.0,
        "RestoreInProgress": False,
    }


def test_deleting_table_omits_keys_and_indexes() -> None:
    description = encode_deleted_table_description(table(INDEXED, status="DELETING"), HERE)
    assert description.keys() == {
        "TableName",
        "TableStatus",
        "TableArn",
        "TableId",
        "TableSizeBytes",
        "ItemCount",
        "ProvisionedThroughput",
        "DeletionProtectionEnabled",
    }


@pytest.mark.parametrize(
    ("operation", "request_", "member"),
    [
        ("DescribeTable", {"TableName": "orders"}, "Table"),
        ("DeleteTable", {"TableName": "orders"}, "TableDescription"),
        ("UpdateTable", {"TableName": "orders", "BillingMode": "PAY_PER_REQUEST"}, "TableDescription"),
        (
            "RestoreTableToPointInTime",
            {"SourceTableName": "abc", "TargetTableName": "orders", "UseLatestRestorableTime": True},
            "TableDescription",
        ),
        (
            "RestoreTableFromBackup",
            {"BackupArn": f"{ARN}/backup/0150-abc", "TargetTableName": "orders"},
            "TableDescription",
        ),
    ],
)
def test_operations_on_a_table_answer_with_its_description(
    operation: str, request_: dict[str, Any], member: str
) -> None:
    assert answer(operation, request_, table())[member]["TableArn"] == ARN


def test_names_are_listed_with_the_last_one_of_a_page() -> None:
    assert answer("ListTables", {}, ListTablesResult(("a", "b"), last_name="b")) == {
        "TableNames": ["a", "b"],
        "LastEvaluatedTableName": "b",
    }
    assert answer("ListTables", {}, ListTablesResult(())) == {"TableNames": []}


def test_describe_limits_answers_with_four_quotas() -> None:
    assert answer("DescribeLimits", {}, DescribeLimitsResult(4, 3, 2, 1)) == {
        "AccountMaxReadCapacityUnits": 4,
        "AccountMaxWriteCapacityUnits": 3,
        "TableMaxReadCapacityUnits": 2,
        "TableMaxWriteCapacityUnits": 1,
    }


def test_ttl_is_described_with_its_attribute() -> None:
    request = {"TableName": "orders", "TimeToLiveSpecification": {"AttributeName": "ends", "Enabled": False}}
    assert answer("UpdateTimeToLive", request, TimeToLiveSpecification("ends", enabled=False)) == {
        "TimeToLiveSpecification": {"AttributeName": "ends", "Enabled": False}
    }
    enabled = DescribeTimeToLiveResult("ENABLED", "ends")
    assert answer("DescribeTimeToLive", {"TableName": "orders"}, enabled) == {
        "TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "ends"}
    }
    assert answer("DescribeTimeToLive", {"TableName": "orders"}, DescribeTimeToLiveResult("DISABLED")) == {
        "TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}
    }


# --- backups and recovery -----------------------------------------------------------------------------------

BACKUP_ARN = f"{ARN}/backup/01500000000000-abcdef12"
SUMMARY = BackupSummary(
    id="01500000000000-abcdef12",
    name="nightly",
    table="orders",
    table_id="some-id",
    status="AVAILABLE",
    type="USER",
    created_at=1_800_000_000.5,
    size_bytes=99,
)
DETAILS = {
    "BackupArn": BACKUP_ARN,
    "BackupName": "nightly",
    "BackupSizeBytes": 99,
    "BackupStatus": "AVAILABLE",
    "BackupType": "USER",
    "BackupCreationDateTime": 1_800_000_000.5,
}


def test_new_backup_has_details() -> None:
    request = {"TableName": "orders", "BackupName": "nightly"}
    assert answer("CreateBackup", request, SUMMARY) == {"BackupDetails": DETAILS}


def test_expiring_backup_has_its_expiry() -> None:
    ending = msgspec.structs.replace(SUMMARY, expires_at=6.0)
    description = answer("CreateBackup", {"TableName": "orders", "BackupName": "nightly"}, ending)
    assert description["BackupDetails"]["BackupExpiryDateTime"] == 6.0


def test_backups_are_listed_with_their_tables() -> None:
    last = BackupName("orders", "01500000000000-abcdef12")
    assert answer("ListBackups", {}, ListBackupsResult((SUMMARY,), last)) == {
        "BackupSummaries": [{"TableName": "orders", "TableId": "some-id", "TableArn": ARN, **DETAILS}],
        "LastEvaluatedBackupArn": BACKUP_ARN,
    }


@pytest.mark.parametrize("operation", ["DescribeBackup", "DeleteBackup"])
def test_a_backup_describes_the_table_as_it_was(operation: str) -> None:
    source = table(INDEXED, stream_view="NEW_IMAGE", item_count=7, size_bytes=99)
    result = BackupDescription(SUMMARY, source, lifetime_attribute="ends")
    assert answer(operation, {"BackupArn": BACKUP_ARN}, result)["BackupDescription"] == {
        "BackupDetails": DETAILS,
        "SourceTableDetails": {
            "TableName": "orders",
            "TableId": "some-id",
            "TableArn": ARN,
            "TableSizeBytes": 99,
            "KeySchema": [
                {"AttributeName": "id", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            "TableCreationDateTime": 1_800_000_000.123,
            "ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 2},
            "ItemCount": 7,
            "BillingMode": "PROVISIONED",
        },
        "SourceTableFeatureDetails": {
            "LocalSecondaryIndexes": [
                {
                    "IndexName": "own",
                    "KeySchema": [
                        {"AttributeName": "id", "KeyType": "HASH"},
                        {"AttributeName": "at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                }
            ],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "all",
                    "KeySchema": [{"AttributeName": "at", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["a", "b"]},
                    "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 4},
                }
            ],
            "StreamDescription": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
            "TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "ends"},
        },
    }


def test_a_backup_of_a_plain_table_has_no_features() -> None:
    description = answer("DescribeBackup", {"BackupArn": BACKUP_ARN}, BackupDescription(SUMMARY, table()))
    assert description["BackupDescription"]["SourceTableFeatureDetails"] == {}


@pytest.mark.parametrize(
    ("backups", "recovery"),
    [
        (ContinuousBackups(enabled=False), {"PointInTimeRecoveryStatus": "DISABLED"}),
        (
            ContinuousBackups(enabled=True, recovery_days=35, earliest=1.0, latest=2.0),
            {
                "PointInTimeRecoveryStatus": "ENABLED",
                "RecoveryPeriodInDays": 35,
                "EarliestRestorableDateTime": 1.0,
                "LatestRestorableDateTime": 2.0,
            },
        ),
    ],
    ids=["off", "on"],
)
def test_continuous_backups_report_the_restorable_period(
    backups: ContinuousBackups, recovery: object
) -> None:
    description = answer("DescribeContinuousBackups", {"TableName": "orders"}, backups)
    assert description["ContinuousBackupsDescription"] == {
        "ContinuousBackupsStatus": "ENABLED",
        "PointInTimeRecoveryDescription": recovery,
    }
