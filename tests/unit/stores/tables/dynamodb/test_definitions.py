"""Encoding of table requests, and parsing of table and backup descriptions in the form that AWS sends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.operations.tables import (
    BackupSummary,
    ContinuousBackups,
    CreateIndex,
    DeleteIndex,
    IndexDefinition,
    IndexProjection,
    IndexState,
    KeyAttribute,
    KeySchema,
    RestoreOrigin,
    RestoreOverrides,
    StreamChange,
    TableDefinition,
    Throughput,
    UpdateIndex,
    UpdateTable,
)
from holdfast.stores.tables.dynamodb import definitions, descriptions
from tests.cases import all_cases

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
INDEX = IndexDefinition(
    "by_kind", KeySchema("kind", "sk"), IndexProjection("INCLUDE", ("x", "y")), Throughput(1, 2)
)
INDEX_MEMBERS: dict[str, Any] = {
    "IndexName": "by_kind",
    "KeySchema": [
        {"AttributeName": "kind", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["x", "y"]},
    "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 2},
}
DESCRIPTION: dict[str, Any] = {
    "AttributeDefinitions": [
        {"AttributeName": "kind", "AttributeType": "S"},
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "N"},
    ],
    "TableName": "Tab",
    # The order is not promised.
    "KeySchema": [
        {"AttributeName": "sk", "KeyType": "RANGE"},
        {"AttributeName": "pk", "KeyType": "HASH"},
    ],
    "TableStatus": "ACTIVE",
    "CreationDateTime": MOMENT,
    "ProvisionedThroughput": {
        "LastIncreaseDateTime": MOMENT,
        "NumberOfDecreasesToday": 1,
        "ReadCapacityUnits": 5,
        "WriteCapacityUnits": 6,
    },
    "TableSizeBytes": 1234,
    "ItemCount": 12,
    "TableArn": "arn:aws:dynamodb:eu-central-1:123456789012:table/Tab",
    "TableId": "id",
    "LocalSecondaryIndexes": [],
    "GlobalSecondaryIndexes": [
        INDEX_MEMBERS
        | {
            "IndexStatus": "CREATING",
            "Backfilling": True,
            "IndexSizeBytes": 7,
            "ItemCount": 3,
            "WarmThroughput": {"ReadUnitsPerSecond": 12000, "Status": "ACTIVE"},
        }
    ],
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    "LatestStreamLabel": "label",
    "TableClassSummary": {"TableClass": "STANDARD_INFREQUENT_ACCESS", "LastUpdateDateTime": MOMENT},
    "RestoreSummary": {
        "SourceBackupArn": "arn:aws:dynamodb:eu-central-1:123456789012:table/Old/backup/0123-ab",
        "SourceTableArn": "arn:aws:dynamodb:eu-central-1:123456789012:table/Old",
        "RestoreDateTime": MOMENT,
        "RestoreInProgress": False,
    },
    "SSEDescription": {"Status": "ENABLED", "SSEType": "KMS"},
    "Replicas": [{"RegionName": "eu-west-1"}],
    "DeletionProtectionEnabled": True,
    "WarmThroughput": {"ReadUnitsPerSecond": 12000},
}


def test_parses_a_table_description_of_aws() -> None:
    table = descriptions.parse_table_description(DESCRIPTION)

    assert table.definition == TableDefinition(
        "Tab",
        (KeyAttribute("kind", "S"), KeyAttribute("pk", "S"), KeyAttribute("sk", "N")),
        KeySchema("pk", "sk"),
        global_indexes=(INDEX,),
        billing_mode="PROVISIONED",
        throughput=Throughput(5, 6),
        table_class="STANDARD_INFREQUENT_ACCESS",
        deletion_protection=True,
        stream_view="NEW_IMAGE",
    )
    moment = MOMENT.timestamp()
    assert (table.id, table.status, table.created_at) == ("id", "ACTIVE", moment)
    assert (table.item_count, table.size_bytes) == (12, 1234)
    assert table.global_indexes == {"by_kind": IndexState("CREATING", True, 3, 7)}
    assert (table.stream_label, table.stream_view) == ("label", "NEW_IMAGE")
    assert (table.table_class_changed_at, table.throughput_raised_at) == (moment, moment)
    assert table.throughput_decreases_today == 1
    assert table.restore == RestoreOrigin("Old", "", moment, "0123-ab", False)


def test_a_table_on_demand_has_no_throughput_of_its_indexes() -> None:
    billing = {"BillingMode": "PAY_PER_REQUEST", "LastUpdateToPayPerRequestDateTime": MOMENT}
    table = descriptions.parse_table_description(DESCRIPTION | {"BillingModeSummary": billing})

    assert table.definition.billing_mode == "PAY_PER_REQUEST"
    assert table.definition.global_indexes[0].throughput is None
    assert table.billing_changed_at == MOMENT.timestamp()


def test_parses_a_minimal_table_description() -> None:
    least = {name: DESCRIPTION[name] for name in ("TableName", "KeySchema", "TableStatus")}

    table = descriptions.parse_table_description(least)
    assert (table.definition.name, table.definition.attributes, table.id) == ("Tab", (), "")


def test_create_request_has_only_declared_members() -> None:
    plain = TableDefinition("Tab", (KeyAttribute("pk", "S"),), KeySchema("pk"))

    assert definitions.encode_table(plain) == {
        "TableName": "Tab",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": False,
    }


@all_cases(
    ("operation", "members"),
    [
        (UpdateTable(table="Tab", billing_mode="PAY_PER_REQUEST"), {"BillingMode": "PAY_PER_REQUEST"}),
        (
            UpdateTable(table="Tab", throughput=Throughput(3, 4)),
            {"ProvisionedThroughput": {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}},
        ),
        (
            UpdateTable(
                table="Tab",
                attributes=(KeyAttribute("kind", "S"),),
                index_changes=(
                    CreateIndex(INDEX),
                    UpdateIndex("other", Throughput(5, 6)),
                    DeleteIndex("old"),
                ),
            ),
            {
                "AttributeDefinitions": [{"AttributeName": "kind", "AttributeType": "S"}],
                "GlobalSecondaryIndexUpdates": [
                    {"Create": INDEX_MEMBERS},
                    {
                        "Update": {
                            "IndexName": "other",
                            "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
                        }
                    },
                    {"Delete": {"IndexName": "old"}},
                ],
            },
        ),
        (
            UpdateTable(table="Tab", stream=StreamChange("OLD_IMAGE")),
            {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "OLD_IMAGE"}},
        ),
        (
            UpdateTable(table="Tab", stream=StreamChange(None)),
            {"StreamSpecification": {"StreamEnabled": False}},
        ),
        (UpdateTable(table="Tab", table_class="STANDARD"), {"TableClass": "STANDARD"}),
        (UpdateTable(table="Tab", deletion_protection=False), {"DeletionProtectionEnabled": False}),
    ],
)
def test_update_request_has_only_changed_members(operation: UpdateTable, members: dict[str, Any]) -> None:
    assert definitions.encode_changes(operation) == {"TableName": "Tab", **members}


def test_restore_omits_missing_overrides_and_sends_no_indexes_as_a_list() -> None:
    assert definitions.encode_overrides(RestoreOverrides()) == {}
    assert definitions.encode_overrides(RestoreOverrides(global_indexes=(), local_indexes=())) == {
        "GlobalSecondaryIndexOverride": [],
        "LocalSecondaryIndexOverride": [],
    }
    assert definitions.encode_overrides(RestoreOverrides(global_indexes=(INDEX,))) == {
        "GlobalSecondaryIndexOverride": [INDEX_MEMBERS]
    }


def test_parses_a_backup_description_of_aws() -> None:
    backup = descriptions.parse_backup_description(
        {
            "BackupDetails": {
                "BackupArn": "arn:aws:dynamodb:eu-central-1:123456789012:table/Tab/backup/0123-ab",
                "BackupName": "before",
                "BackupSizeBytes": 9,
                "BackupStatus": "AVAILABLE",
                "BackupType": "AWS_BACKUP",
                "BackupCreationDateTime": MOMENT,
            },
            "SourceTableDetails": {
                "TableName": "Tab",
                "TableId": "id",
                "KeySchema": DESCRIPTION["KeySchema"],
                "TableCreationDateTime": MOMENT,
                "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6},
            },
            "SourceTableFeatureDetails": {
                "GlobalSecondaryIndexes": [INDEX_MEMBERS],
                "TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "ends"},
            },
        }
    )
    moment = MOMENT.timestamp()
    assert backup.summary == BackupSummary(
        "0123-ab", "before", "Tab", "id", "AVAILABLE", "AWS_BACKUP", moment, 9
    )
    assert backup.source.definition.keys == KeySchema("pk", "sk")
    assert backup.source.definition.global_indexes == (INDEX,)
    assert backup.lifetime_attribute == "ends"


def test_recovery_that_is_off_has_no_bounds() -> None:
    off = {"PointInTimeRecoveryStatus": "DISABLED"}
    description = {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": off}

    assert descriptions.parse_continuous_backups(
        {"ContinuousBackupsDescription": description}
    ) == ContinuousBackups(False)
