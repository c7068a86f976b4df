"""On-demand backups, continuous backups, and restores from both, over the wire.

Backups outlive their tables and have exceptions of their own: a missing table is a TableNotFoundException
here and not a ResourceNotFoundException. Only moto among the emulators has them; where it differs, a comment
says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cases import all_cases

from .conftest import MakeTable, index, unique_name
from .protocol import NOT_NULL, TABLE_NAME_PATTERN, Raw, cases, constraint, split_constraints

Body = dict[str, Any]

READY_WITHIN_S = 30.0
ABSENT = "arn:aws:dynamodb:us-east-1:000000000000:table/absent/backup/01700000000000-abcdef01"
BACKUP_ENUM = "Member must satisfy enum value set: ["


# Shape


@all_cases(
    ("operation", "body", "entries"),
    cases(
        {
            "no name for a backup": (
                "CreateBackup",
                {"TableName": "abc"},
                {constraint("null", "backupName", NOT_NULL)},
            ),
            "a short name for a backup": (
                "CreateBackup",
                {"TableName": "abc", "BackupName": "ab"},
                {constraint("'ab'", "backupName", "Member must have length greater than or equal to 3")},
            ),
            "a strange name for a backup": (
                "CreateBackup",
                {"TableName": "abc", "BackupName": "abc;"},
                {constraint("'abc;'", "backupName", TABLE_NAME_PATTERN)},
            ),
            "no backup to describe": ("DescribeBackup", {}, {constraint("null", "backupArn", NOT_NULL)}),
            "a short backup to describe": (
                "DescribeBackup",
                {"BackupArn": "arn"},
                {constraint("'arn'", "backupArn", "Member must have length greater than or equal to 37")},
            ),
            "no backup to delete": ("DeleteBackup", {}, {constraint("null", "backupArn", NOT_NULL)}),
            "no backups at a time": (
                "ListBackups",
                {"Limit": 0},
                {constraint("'0'", "limit", "Member must have value greater than or equal to 1")},
            ),
            "too many backups at a time": (
                "ListBackups",
                {"Limit": 101},
                {constraint("'101'", "limit", "Member must have value less than or equal to 100")},
            ),
            "a strange target": (
                "RestoreTableFromBackup",
                {"TargetTableName": "abc;", "BackupArn": ABSENT},
                {constraint("'abc;'", "targetTableName", TABLE_NAME_PATTERN)},
            ),
            "too long a period": (
                "UpdateContinuousBackups",
                {
                    "TableName": "abc",
                    "PointInTimeRecoverySpecification": {
                        "PointInTimeRecoveryEnabled": True,
                        "RecoveryPeriodInDays": 36,
                    },
                },
                {
                    constraint(
                        "'36'",
                        "pointInTimeRecoverySpecification.recoveryPeriodInDays",
                        "Member must have value less than or equal to 35",
                    )
                },
            ),
            "no specification": (
                "UpdateContinuousBackups",
                {"TableName": "abc"},
                {constraint("null", "pointInTimeRecoverySpecification", NOT_NULL)},
            ),
            "an empty specification": (
                "UpdateContinuousBackups",
                {"TableName": "abc", "PointInTimeRecoverySpecification": {}},
                {constraint("null", "pointInTimeRecoverySpecification.pointInTimeRecoveryEnabled", NOT_NULL)},
            ),
        }
    ),
)
def test_reports_every_violated_constraint(raw: Raw, operation: str, body: Body, entries: set[str]) -> None:
    code, text = raw.refusal(operation, body)
    assert (code, split_constraints(text)) == ("ValidationException", entries)


def test_an_unknown_type_of_backup_is_refused(raw: Raw) -> None:
    code, text = raw.refusal("ListBackups", {"BackupType": "MINE"})
    assert code == "ValidationException"
    assert "Value 'MINE' at 'backupType' failed to satisfy constraint: " + BACKUP_ENUM in str(text)


# Validation


@pytest.mark.parametrize(
    ("operation", "member", "more"),
    [
        ("CreateBackup", "TableName", {"BackupName": "abc"}),
        ("DescribeContinuousBackups", "TableName", {}),
        (
            "UpdateContinuousBackups",
            "TableName",
            {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
        ),
        (
            "RestoreTableToPointInTime",
            "SourceTableName",
            {"TargetTableName": "abc", "UseLatestRestorableTime": True},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_a_missing_table(raw: Raw, operation: str, member: str, more: Body) -> None:
    name = unique_name()
    refusal = raw.refusal(operation, {member: name} | more)
    assert refusal == ("TableNotFoundException", f"Table not found: {name}")


@pytest.mark.parametrize("operation", ["DescribeBackup", "DeleteBackup", "RestoreTableFromBackup"])
def test_names_a_missing_backup(raw: Raw, operation: str) -> None:
    body = {"BackupArn": ABSENT}
    if operation == "RestoreTableFromBackup":
        body["TargetTableName"] = unique_name()
    assert raw.refusal(operation, body) == ("BackupNotFoundException", f"Backup not found: {ABSENT}")


@pytest.mark.parametrize("operation", ["DescribeBackup", "DeleteBackup", "RestoreTableFromBackup"])
def test_rejects_a_table_arn_as_a_backup_arn(raw: Raw, operation: str) -> None:
    body = {"BackupArn": ABSENT.partition("/backup/")[0], "TargetTableName": unique_name()}
    code, text = raw.refusal(operation, body)
    assert code == "ValidationException"
    assert text in ("Invalid Backup ARN", "Invalid Request: BackupArn is not valid")


NEITHER = "Invalid Request: Either one of RestoreDateTime or UseLatestRestorableTime must be specified, but not both"  # noqa: E501


def test_a_restore_needs_a_time(raw: Raw, shared_hash_table: str) -> None:
    # moto restores to now.
    body = {"SourceTableName": shared_hash_table, "TargetTableName": unique_name()}
    assert raw.refusal("RestoreTableToPointInTime", body) == ("ValidationException", NEITHER)


def test_restore_takes_only_one_time(raw: Raw, shared_hash_table: str) -> None:
    body = {
        "SourceTableName": shared_hash_table,
        "TargetTableName": unique_name(),
        "UseLatestRestorableTime": True,
        "RestoreDateTime": time.time(),
    }
    code, text = raw.refusal("RestoreTableToPointInTime", body)
    start = "Invalid Request: Both RestoreDateTime and UseLatestRestorableTime cannot be set for point-in-time restore"  # noqa: E501
    assert code == "ValidationException"
    assert str(text).startswith(start)


def test_restore_needs_point_in_time_recovery(raw: Raw, shared_hash_table: str) -> None:
    # moto restores it all the same.
    body = {
        "SourceTableName": shared_hash_table,
        "TargetTableName": unique_name(),
        "UseLatestRestorableTime": True,
    }
    text = f"Point in time recovery is not enabled for table '{shared_hash_table}'"
    assert raw.refusal("RestoreTableToPointInTime", body) == ("PointInTimeRecoveryUnavailableException", text)


# Fixtures and helpers


@pytest.fixture
def targets(dynamodb: Any) -> Iterator[Callable[[], str]]:
    """Return a function that names restored tables, which are deleted when the test ends."""
    made: list[str] = []

    def name() -> str:
        made.append(unique_name("restored"))
        return made[-1]

    yield name
    for table in made:
        try:
            dynamodb.delete_table(TableName=table)
        except dynamodb.exceptions.ResourceNotFoundException:
            pass


@pytest.fixture
def back_up(dynamodb: Any) -> Iterator[Callable[..., Body]]:
    """Return a function that makes a backup, waits until it is available and returns its details; all are
    deleted at the end.
    """
    made: list[str] = []

    def make(table: str, name: str = "by_hand") -> Body:
        arn = dynamodb.create_backup(TableName=table, BackupName=name)["BackupDetails"]["BackupArn"]
        made.append(arn)
        return wait_until_available(dynamodb, arn)

    yield make
    for arn in made:
        try:
            dynamodb.delete_backup(BackupArn=arn)
        except dynamodb.exceptions.BackupNotFoundException:
            pass


def wait_until_available(dynamodb: Any, arn: str) -> Body:
    """Wait until the backup is available and return its details."""
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        details: Body = dynamodb.describe_backup(BackupArn=arn)["BackupDescription"]["BackupDetails"]
        if details["BackupStatus"] == "AVAILABLE":
            return details
        assert time.monotonic() < deadline, f"{arn} is still {details['BackupStatus']}"
        time.sleep(0.02)


@pytest.fixture
def source(raw: Raw, make_table: MakeTable) -> str:
    """Create a table with both kinds of index and three items."""
    name = make_table(
        "pk:S",
        "sk:S",
        lsi=[index("mine", "pk:S", "n:N")],
        gsi=[index("ours", "kind:S", projection="KEYS_ONLY")],
        BillingMode="PAY_PER_REQUEST",
    )
    for number in range(3):
        raw.put(name, row(number))
    return name


def row(number: int, kind: str = "k") -> Body:
    """Return an item of the source table with this number."""
    return {"pk": {"S": "p"}, "sk": {"S": str(number)}, "n": {"N": str(number)}, "kind": {"S": kind}}


def rows(dynamodb: Any, table: str, **request: Any) -> list[Body]:
    """Scan the table and return its items by sort key."""
    found: list[Body] = dynamodb.scan(TableName=table, **request)["Items"]
    return sorted(found, key=lambda item: str(item["sk"]["S"]))


# On demand


def test_a_backup_is_described_when_it_is_made(
    dynamodb: Any, source: str, back_up: Callable[..., Body]
) -> None:
    details = back_up(source, "before_the_change")
    table = dynamodb.describe_table(TableName=source)["Table"]
    assert details["BackupName"] == "before_the_change"
    assert details["BackupType"] == "USER"
    assert details["BackupArn"].startswith(f"{table['TableArn']}/backup/")
    assert abs(details["BackupCreationDateTime"].timestamp() - time.time()) < 3600
    assert details["BackupSizeBytes"] >= 0


def test_a_backup_describes_the_table_it_was_made_of(
    dynamodb: Any, source: str, back_up: Callable[..., Body]
) -> None:
    arn = back_up(source)["BackupArn"]
    table = dynamodb.describe_table(TableName=source)["Table"]
    description = dynamodb.describe_backup(BackupArn=arn)["BackupDescription"]
    details = description["SourceTableDetails"]
    assert details["TableName"] == source
    assert details["TableArn"] == table["TableArn"]
    assert details["KeySchema"] == table["KeySchema"]
    assert details["BillingMode"] == "PAY_PER_REQUEST"
    assert details["TableCreationDateTime"] == table["CreationDateTime"]
    assert details["TableId"] == table.get("TableId", details["TableId"])
    features = description["SourceTableFeatureDetails"]
    assert [entry["IndexName"] for entry in features["GlobalSecondaryIndexes"]] == ["ours"]
    assert [entry["IndexName"] for entry in features["LocalSecondaryIndexes"]] == ["mine"]


def test_backups_are_listed(dynamodb: Any, source: str, back_up: Callable[..., Body]) -> None:
    first, second = back_up(source, "first"), back_up(source, "second")
    summaries = dynamodb.list_backups(TableName=source)["BackupSummaries"]
    assert {entry["BackupArn"] for entry in summaries} == {first["BackupArn"], second["BackupArn"]}
    for entry in summaries:
        assert entry["TableName"] == source
        assert entry["BackupStatus"] == "AVAILABLE"
        assert entry["BackupType"] == "USER"
    everywhere = dynamodb.list_backups()["BackupSummaries"]
    assert {first["BackupArn"], second["BackupArn"]} <= {entry["BackupArn"] for entry in everywhere}


def test_two_backups_may_have_one_name(source: str, back_up: Callable[..., Body]) -> None:
    assert back_up(source, "twin")["BackupArn"] != back_up(source, "twin")["BackupArn"]


def test_backups_are_listed_page_by_page(dynamodb: Any, source: str, back_up: Callable[..., Body]) -> None:
    # moto has one page.
    wanted = {back_up(source, f"number{number}")["BackupArn"] for number in range(3)}
    found: list[str] = []
    request: Body = {"TableName": source, "Limit": 2}
    while True:
        answer = dynamodb.list_backups(**request)
        assert len(answer["BackupSummaries"]) <= 2
        found += [entry["BackupArn"] for entry in answer["BackupSummaries"]]
        if "LastEvaluatedBackupArn" not in answer:
            break
        request["ExclusiveStartBackupArn"] = answer["LastEvaluatedBackupArn"]
    assert (set(found), len(found)) == (wanted, 3)


def test_backups_are_listed_by_time_and_type(
    dynamodb: Any, source: str, back_up: Callable[..., Body]
) -> None:
    # moto passes over both.
    """List by a time range and by type: one backup matches now and USER, none later and SYSTEM."""
    back_up(source)
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    listed = {
        "then": dynamodb.list_backups(
            TableName=source, TimeRangeLowerBound=now - hour, TimeRangeUpperBound=now + hour
        ),
        "later": dynamodb.list_backups(TableName=source, TimeRangeLowerBound=now + hour),
        "by hand": dynamodb.list_backups(TableName=source, BackupType="USER"),
        "of the service": dynamodb.list_backups(TableName=source, BackupType="SYSTEM"),
    }
    counts = {name: len(answer["BackupSummaries"]) for name, answer in listed.items()}
    assert counts == {"then": 1, "later": 0, "by hand": 1, "of the service": 0}


def test_a_deleted_backup_is_gone(raw: Raw, dynamodb: Any, source: str, back_up: Callable[..., Body]) -> None:
    arn = back_up(source)["BackupArn"]
    answer = dynamodb.delete_backup(BackupArn=arn)["BackupDescription"]
    assert answer["BackupDetails"]["BackupArn"] == arn
    assert answer["BackupDetails"]["BackupStatus"] == "DELETED"
    assert raw.refusal("DescribeBackup", {"BackupArn": arn}) == (
        "BackupNotFoundException",
        f"Backup not found: {arn}",
    )
    assert dynamodb.list_backups(TableName=source)["BackupSummaries"] == []


def test_a_backup_outlives_its_table(
    dynamodb: Any, raw: Raw, source: str, back_up: Callable[..., Body], targets: Callable[[], str]
) -> None:
    arn = back_up(source)["BackupArn"]
    dynamodb.delete_table(TableName=source)
    dynamodb.get_waiter("table_not_exists").wait(TableName=source, WaiterConfig={"Delay": 1})
    assert wait_until_available(dynamodb, arn)["BackupArn"] == arn
    target = targets()
    dynamodb.restore_table_from_backup(TargetTableName=target, BackupArn=arn)
    dynamodb.get_waiter("table_exists").wait(TableName=target, WaiterConfig={"Delay": 1})
    assert len(rows(dynamodb, target)) == 3


def test_backup_holds_the_table_at_its_time(
    dynamodb: Any,
    raw: Raw,
    source: str,
    back_up: Callable[..., Body],
    targets: Callable[[], str],
    await_active: Callable[[str], Body],
) -> None:
    arn = back_up(source)["BackupArn"]
    raw.put(source, row(0, kind="changed"))
    raw.put(source, row(7))
    raw.answer("DeleteItem", {"TableName": source, "Key": {"pk": {"S": "p"}, "sk": {"S": "1"}}})
    target = targets()
    answer = dynamodb.restore_table_from_backup(TargetTableName=target, BackupArn=arn)["TableDescription"]
    assert answer["TableName"] == target
    assert answer["RestoreSummary"]["SourceBackupArn"] == arn
    # moto's restore is never in progress.
    assert answer["RestoreSummary"]["RestoreInProgress"] is True
    restored = await_active(target)
    assert restored["KeySchema"] == answer["KeySchema"]
    assert rows(dynamodb, target) == [row(number) for number in range(3)]
    assert len(rows(dynamodb, target, IndexName="ours")) == 3
    assert len(rows(dynamodb, target, IndexName="mine")) == 3


def test_restored_table_is_independent_of_its_source(
    dynamodb: Any,
    raw: Raw,
    source: str,
    back_up: Callable[..., Body],
    targets: Callable[[], str],
    await_active: Callable[[str], Body],
) -> None:
    target = targets()
    dynamodb.restore_table_from_backup(TargetTableName=target, BackupArn=back_up(source)["BackupArn"])
    restored = await_active(target)
    raw.put(target, row(9))
    assert len(rows(dynamodb, source)) == 3
    assert restored["TableArn"] != dynamodb.describe_table(TableName=source)["Table"]["TableArn"]
    assert restored["DeletionProtectionEnabled"] is False


def test_a_restore_does_not_bring_back_stream_and_lifetime(
    dynamodb: Any,
    hash_table: str,
    back_up: Callable[..., Body],
    targets: Callable[[], str],
    await_active: Callable[[str], Body],
) -> None:
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    dynamodb.update_table(TableName=hash_table, StreamSpecification=stream)
    lifetime = {"AttributeName": "ends_at", "Enabled": True}
    await_active(hash_table)
    dynamodb.update_time_to_live(TableName=hash_table, TimeToLiveSpecification=lifetime)
    target = targets()
    dynamodb.restore_table_from_backup(TargetTableName=target, BackupArn=back_up(hash_table)["BackupArn"])
    assert "LatestStreamArn" not in await_active(target)
    described = dynamodb.describe_time_to_live(TableName=target)["TimeToLiveDescription"]
    assert described == {"TimeToLiveStatus": "DISABLED"}


def test_a_restore_may_leave_indexes_out_and_change_the_billing(
    dynamodb: Any,
    source: str,
    back_up: Callable[..., Body],
    targets: Callable[[], str],
    await_active: Callable[[str], Body],
) -> None:
    target = targets()
    dynamodb.restore_table_from_backup(
        TargetTableName=target,
        BackupArn=back_up(source)["BackupArn"],
        BillingModeOverride="PROVISIONED",
        ProvisionedThroughputOverride={"ReadCapacityUnits": 2, "WriteCapacityUnits": 1},
        GlobalSecondaryIndexOverride=[],
        LocalSecondaryIndexOverride=[],
    )
    restored = await_active(target)
    assert restored["ProvisionedThroughput"]["ReadCapacityUnits"] == 2
    assert not restored.get("GlobalSecondaryIndexes")
    assert not restored.get("LocalSecondaryIndexes")
    assert len(rows(dynamodb, target)) == 3


def test_restore_does_not_overwrite_a_table(raw: Raw, source: str, back_up: Callable[..., Body]) -> None:
    body = {"TargetTableName": source, "BackupArn": back_up(source)["BackupArn"]}
    refusal = raw.refusal("RestoreTableFromBackup", body)
    assert refusal == ("TableAlreadyExistsException", f"Table already exists: {source}")


# Continuous


def enable_recovery(dynamodb: Any, table: str, **more: Any) -> Body:
    """Turn point-in-time recovery on and return the description."""
    specification = {"PointInTimeRecoveryEnabled": True} | more
    answer = dynamodb.update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification=specification
    )
    described: Body = answer["ContinuousBackupsDescription"]
    return described


def describe_recovery(dynamodb: Any, table: str) -> Body:
    described: Body = dynamodb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    return described


def test_recovery_is_off_on_a_new_table(dynamodb: Any, hash_table: str) -> None:
    described = describe_recovery(dynamodb, hash_table)
    # AWS says ENABLED of the whole a few seconds after a table is made.
    assert described["ContinuousBackupsStatus"] in ("ENABLED", "DISABLED")
    assert described["PointInTimeRecoveryDescription"] == {"PointInTimeRecoveryStatus": "DISABLED"}


def test_recovery_is_turned_on_and_off(dynamodb: Any, hash_table: str) -> None:
    answer = enable_recovery(dynamodb, hash_table)
    assert answer["ContinuousBackupsStatus"] == "ENABLED"
    described = describe_recovery(dynamodb, hash_table)["PointInTimeRecoveryDescription"]
    assert described["PointInTimeRecoveryStatus"] == "ENABLED"
    assert described["RecoveryPeriodInDays"] == 35
    assert described["EarliestRestorableDateTime"] <= described["LatestRestorableDateTime"]
    dynamodb.update_continuous_backups(
        TableName=hash_table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False}
    )
    off = describe_recovery(dynamodb, hash_table)["PointInTimeRecoveryDescription"]
    assert off == {"PointInTimeRecoveryStatus": "DISABLED"}


def test_recovery_period_may_be_shorter(dynamodb: Any, hash_table: str) -> None:
    # moto does not keep it.
    enable_recovery(dynamodb, hash_table, RecoveryPeriodInDays=7)
    assert (
        describe_recovery(dynamodb, hash_table)["PointInTimeRecoveryDescription"]["RecoveryPeriodInDays"] == 7
    )


def test_recovery_may_be_enabled_twice(dynamodb: Any, hash_table: str) -> None:
    enable_recovery(dynamodb, hash_table)
    earliest = describe_recovery(dynamodb, hash_table)["PointInTimeRecoveryDescription"][
        "EarliestRestorableDateTime"
    ]
    enable_recovery(dynamodb, hash_table)
    again = describe_recovery(dynamodb, hash_table)["PointInTimeRecoveryDescription"][
        "EarliestRestorableDateTime"
    ]
    assert again == earliest


def test_recovery_period_without_recovery_is_refused(raw: Raw, hash_table: str) -> None:
    specification = {"PointInTimeRecoveryEnabled": False, "RecoveryPeriodInDays": 7}
    body = {"TableName": hash_table, "PointInTimeRecoverySpecification": specification}
    text = "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
    assert raw.refusal("UpdateContinuousBackups", body) == ("ValidationException", text)


@pytest.mark.parametrize("days", [-1, 1], ids=["before it was recorded", "to come"])
def test_time_outside_the_recovery_window_is_refused(raw: Raw, dynamodb: Any, source: str, days: int) -> None:
    enable_recovery(dynamodb, source)
    body = {
        "SourceTableName": source,
        "TargetTableName": unique_name(),
        "RestoreDateTime": int(time.time()) + days * 86400,
    }
    code, text = raw.refusal("RestoreTableToPointInTime", body)
    assert code == "InvalidRestoreTimeException"
    assert str(text).startswith("RestoreDateTime '")
    assert "' must be within EarliestRestorableDateTime '" in str(text)


def test_point_in_time_restore_does_not_overwrite_a_table(raw: Raw, dynamodb: Any, source: str) -> None:
    enable_recovery(dynamodb, source)
    body = {"SourceTableName": source, "TargetTableName": source, "UseLatestRestorableTime": True}
    refusal = raw.refusal("RestoreTableToPointInTime", body)
    assert refusal == ("TableAlreadyExistsException", f"Table already exists: {source}")


def test_restore_to_the_latest_time_has_every_item(
    dynamodb: Any, raw: Raw, source: str, targets: Callable[[], str], await_active: Callable[[str], Body]
) -> None:
    """AWS lags five minutes behind; an engine of our own need not."""
    enable_recovery(dynamodb, source)
    raw.put(source, row(3))
    raw.answer("DeleteItem", {"TableName": source, "Key": {"pk": {"S": "p"}, "sk": {"S": "0"}}})
    target = targets()
    answer = dynamodb.restore_table_to_point_in_time(
        SourceTableName=source, TargetTableName=target, UseLatestRestorableTime=True
    )["TableDescription"]
    source_arn = dynamodb.describe_table(TableName=source)["Table"]["TableArn"]
    assert answer["RestoreSummary"]["SourceTableArn"] == source_arn
    assert "SourceBackupArn" not in answer["RestoreSummary"]
    await_active(target)
    assert rows(dynamodb, target) == [row(number) for number in (1, 2, 3)]
    assert len(rows(dynamodb, target, IndexName="ours")) == 3


def test_restore_to_an_earlier_second_has_the_items_of_that_time(
    dynamodb: Any, raw: Raw, source: str, targets: Callable[[], str], await_active: Callable[[str], Body]
) -> None:
    # moto copies the table as it is now, whatever the time.
    enable_recovery(dynamodb, source)
    raw.put(source, row(3))
    second = wait_for_next_second(dynamodb, source)
    raw.put(source, row(3, kind="changed"))
    raw.put(source, row(4))
    raw.answer("DeleteItem", {"TableName": source, "Key": {"pk": {"S": "p"}, "sk": {"S": "0"}}})
    wait_for_next_second(dynamodb, source)
    target = targets()
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=source, TargetTableName=target, RestoreDateTime=datetime.fromtimestamp(second, UTC)
    )
    await_active(target)
    assert rows(dynamodb, target) == [row(number) for number in range(4)]


def wait_for_next_second(dynamodb: Any, table: str) -> int:
    """Return the next whole second after every write so far, once it can be restored."""
    second = int(time.time()) + 1
    deadline = time.monotonic() + READY_WITHIN_S
    while (
        describe_recovery(dynamodb, table)["PointInTimeRecoveryDescription"][
            "LatestRestorableDateTime"
        ].timestamp()
        < second
    ):
        assert time.monotonic() < deadline, "the latest restorable time does not advance"
        time.sleep(0.05)
    return second


def test_source_may_be_named_by_its_arn(
    dynamodb: Any, source: str, targets: Callable[[], str], await_active: Callable[[str], Body]
) -> None:
    enable_recovery(dynamodb, source)
    arn = dynamodb.describe_table(TableName=source)["Table"]["TableArn"]
    target = targets()
    dynamodb.restore_table_to_point_in_time(
        SourceTableArn=arn, TargetTableName=target, UseLatestRestorableTime=True
    )
    await_active(target)
    assert len(rows(dynamodb, target)) == 3
