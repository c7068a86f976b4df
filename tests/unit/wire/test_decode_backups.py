"""Requests on backups and restores: decoded into operations, or refused with DynamoDB's messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    DescribeContinuousBackups,
    IndexDefinition,
    IndexProjection,
    KeySchema,
    ListBackups,
    RestoreOverrides,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    Throughput,
    UpdateContinuousBackups,
)
from holdfast.wire.dispatch import decode
from tests.cases import all_cases

Body = dict[str, Any]

INVALID = "One or more parameter values were invalid: "
TABLE_ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/orders"
ARN = f"{TABLE_ARN}/backup/01500000000000-abcdef12"
ELSEWHERE = ARN.replace("us-east-1", "eu-west-1")
BACKUP = BackupName("orders", "01500000000000-abcdef12", ARN)
UNITS = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 2}
INDEX = {
    "IndexName": "by_at",
    "KeySchema": [{"AttributeName": "at", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}


def decode_request(operation: str, body: Body) -> Any:
    """Decode a request of this operation and return the operation value."""
    return decode(f"DynamoDB_20120810.{operation}", msgspec.json.encode(body))[1]


def refusal(operation: str, body: Body) -> str:
    """Decode an invalid request and return the message of its `InvalidRequest`."""
    with pytest.raises(InvalidRequest) as refused:
        decode_request(operation, body)
    return refused.value.message


def one(value: str, path: str, rule: str) -> str:
    """Return DynamoDB's message for one violated constraint of the member at `path`."""
    return (
        f"1 validation error detected: Value {value} at '{path}' failed to satisfy constraint: Member must "
        f"{rule}"
    )


def from_backup(**members: Any) -> Body:
    """Return the body of a RestoreTableFromBackup request with these members."""
    return {"BackupArn": ARN, "TargetTableName": "restored", **members}


def to_moment(**members: Any) -> Body:
    """Return the body of a RestoreTableToPointInTime request with these members."""
    return {"SourceTableName": "orders", "TargetTableName": "restored", **members}


@all_cases(
    ("name", "request_", "operation"),
    [
        (
            "CreateBackup",
            {"TableName": "orders", "BackupName": "nightly"},
            CreateBackup(table="orders", name="nightly"),
        ),
        (
            "CreateBackup",
            {"TableName": TABLE_ARN, "BackupName": "nightly"},
            CreateBackup(table="orders", name="nightly"),
        ),
        ("DescribeBackup", {"BackupArn": ARN}, DescribeBackup(backup=BACKUP)),
        (
            "DescribeBackup",
            {"BackupArn": ELSEWHERE},
            DescribeBackup(backup=BackupName(BACKUP.table, BACKUP.id, ELSEWHERE)),
        ),
        ("DeleteBackup", {"BackupArn": ARN}, DeleteBackup(backup=BACKUP)),
        ("ListBackups", {}, ListBackups(limit=100, type="USER")),
        (
            "ListBackups",
            {
                "TableName": "orders",
                "Limit": 5,
                "TimeRangeLowerBound": 1.5,
                "TimeRangeUpperBound": 2,
                "ExclusiveStartBackupArn": ARN,
                "BackupType": "ALL",
            },
            ListBackups(table="orders", limit=5, since=1.5, before=2.0, after=BACKUP, type="ALL"),
        ),
        ("DescribeContinuousBackups", {"TableName": TABLE_ARN}, DescribeContinuousBackups(table="orders")),
        (
            "UpdateContinuousBackups",
            {
                "TableName": "orders",
                "PointInTimeRecoverySpecification": {
                    "PointInTimeRecoveryEnabled": True,
                    "RecoveryPeriodInDays": 7,
                },
            },
            UpdateContinuousBackups(table="orders", enabled=True, recovery_days=7),
        ),
        (
            "UpdateContinuousBackups",
            {
                "TableName": "orders",
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False},
            },
            UpdateContinuousBackups(table="orders", enabled=False),
        ),
        ("RestoreTableFromBackup", from_backup(), RestoreTableFromBackup(backup=BACKUP, target="restored")),
        (
            "RestoreTableToPointInTime",
            to_moment(RestoreDateTime=1_800_000_000, UseLatestRestorableTime=False),
            RestoreTableToPointInTime(source="orders", target="restored", at=1_800_000_000.0),
        ),
        (
            "RestoreTableToPointInTime",
            {"SourceTableArn": TABLE_ARN, "TargetTableName": "restored", "UseLatestRestorableTime": True},
            RestoreTableToPointInTime(source="orders", target="restored"),
        ),
    ],
)
def test_requests_on_backups_are_decoded(name: str, request_: Body, operation: object) -> None:
    assert decode_request(name, request_) == operation


def test_overrides_of_a_restore_are_decoded() -> None:
    request = from_backup(
        BillingModeOverride="PROVISIONED",
        ProvisionedThroughputOverride=UNITS,
        GlobalSecondaryIndexOverride=[{**INDEX, "ProvisionedThroughput": UNITS}],
        SSESpecificationOverride={"Enabled": False},
    )
    index = IndexDefinition("by_at", KeySchema("at"), IndexProjection("ALL"), Throughput(3, 2))
    assert decode_request("RestoreTableFromBackup", request).overrides == RestoreOverrides(
        billing_mode="PROVISIONED", throughput=Throughput(3, 2), global_indexes=(index,)
    )


def test_empty_index_list_restores_none_and_a_missing_list_all() -> None:
    none = decode_request("RestoreTableFromBackup", from_backup(LocalSecondaryIndexOverride=[])).overrides
    every = decode_request("RestoreTableFromBackup", from_backup()).overrides
    assert (none.local_indexes, every.local_indexes) == ((), None)


@pytest.mark.parametrize(("given", "read"), [(1e300, 253_402_300_799.0), (-1e300, 0.0)])
def test_clamps_a_time_outside_the_calendar(given: float, read: float) -> None:
    assert decode_request("RestoreTableToPointInTime", to_moment(RestoreDateTime=given)).at == read


INVALID_OVERRIDE = "Invalid Request: Cannot override ProvisionedThroughput"
REFUSED: list[tuple[str, Body, str]] = [
    ("DescribeBackup", {"BackupArn": TABLE_ARN}, "Invalid Backup ARN"),
    ("DeleteBackup", {"BackupArn": "x" * 48}, "Invalid Backup ARN"),
    ("RestoreTableFromBackup", from_backup(BackupArn=TABLE_ARN), "Invalid Backup ARN"),
    ("ListBackups", {"ExclusiveStartBackupArn": TABLE_ARN}, "Invalid Backup ARN"),
    (
        "ListBackups",
        {"BackupType": "user"},
        one("'user'", "backupType", "satisfy enum value set: [USER, SYSTEM, AWS_BACKUP, ALL]"),
    ),
    (
        "ListBackups",
        {"TimeRangeLowerBound": 2, "TimeRangeUpperBound": 1},
        INVALID + "Time range lower bound must be less than or equal to upper bound",
    ),
    (
        "RestoreTableToPointInTime",
        to_moment(SourceTableArn=TABLE_ARN, UseLatestRestorableTime=True),
        "Must provide exactly one of: sourceTableArn, sourceTableName",
    ),
    (
        "RestoreTableToPointInTime",
        {"TargetTableName": "restored", "UseLatestRestorableTime": True},
        "The parameter 'TableName' is required but was not present in the request",
    ),
    (
        "RestoreTableToPointInTime",
        {"SourceTableArn": "orders", "TargetTableName": "restored"},
        "sourceTableArn is not a valid ARN",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(BillingModeOverride="PAY_PER_REQUEST", ProvisionedThroughputOverride=UNITS),
        f"{INVALID_OVERRIDE} if BillingMode is overridden to PAY_PER_REQUEST",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(BillingModeOverride="PROVISIONED"),
        "Invalid Request: Must override ProvisionedThroughput if BillingMode is overridden to PROVISIONED",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(
            BillingModeOverride="PAY_PER_REQUEST",
            GlobalSecondaryIndexOverride=[{**INDEX, "ProvisionedThroughput": UNITS}],
        ),
        f"{INVALID_OVERRIDE} for index by_at if BillingMode is overridden to PAY_PER_REQUEST",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(
            BillingModeOverride="PROVISIONED",
            ProvisionedThroughputOverride=UNITS,
            GlobalSecondaryIndexOverride=[INDEX],
        ),
        "Invalid Request: Must specify provisioned throughput for index by_at",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(GlobalSecondaryIndexOverride=[{**INDEX, "Projection": {}}]),
        INVALID + "Unknown ProjectionType: null",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(OnDemandThroughputOverride={}),
        INVALID + "OnDemandThroughputOverride is not supported by Holdfast; leave it out",
    ),
    (
        "RestoreTableFromBackup",
        from_backup(SSESpecificationOverride={"Enabled": True, "SSEType": "KMS"}),
        INVALID
        + "SSESpecification with a KMS key is not supported by Holdfast; leave it out and encrypt the "
        "disk that holds the store",
    ),
]


@all_cases(("name", "request_", "text"), REFUSED)
def test_requests_on_backups_are_refused_in_the_services_words(name: str, request_: Body, text: str) -> None:
    assert refusal(name, request_) == text
