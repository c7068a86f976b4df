"""The operations of continuous backups, on-demand backups, and restores from both."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import BillingMode, IndexDefinition, TableDescription, Throughput

BackupStatus: TypeAlias = Literal["CREATING", "DELETED", "AVAILABLE"]
BackupType: TypeAlias = Literal["USER", "SYSTEM", "AWS_BACKUP"]
BackupTypeFilter: TypeAlias = Literal["USER", "SYSTEM", "AWS_BACKUP", "ALL"]


class ContinuousBackups(msgspec.Struct, frozen=True):
    """The state of point-in-time recovery. `earliest` and `latest` bound the restorable times; None while it
    is off.
    """

    enabled: bool
    recovery_days: int | None = None
    earliest: float | None = None
    latest: float | None = None


class DescribeContinuousBackups(Operation[ContinuousBackups], frozen=True):
    """Return the state of point-in-time recovery of a table."""

    table: str


class UpdateContinuousBackups(Operation[ContinuousBackups], frozen=True):
    """Turn point-in-time recovery of a table on or off."""

    table: str
    enabled: bool
    recovery_days: int | None = None


class RestoreOverrides(msgspec.Struct, frozen=True):
    """Settings of the restored table that replace those of its source. None keeps the source's setting."""

    billing_mode: BillingMode | None = None
    throughput: Throughput | None = None
    global_indexes: tuple[IndexDefinition, ...] | None = None
    local_indexes: tuple[IndexDefinition, ...] | None = None


class RestoreTableToPointInTime(Operation[TableDescription], frozen=True):
    """Restore a table to the time `at`, or to the latest possible time if None."""

    source: str
    target: str
    at: float | None = None
    overrides: RestoreOverrides = RestoreOverrides()


class BackupSummary(msgspec.Struct, frozen=True):
    """One entry of a backup listing. `id` is the last part of the backup's ARN."""

    id: str
    name: str
    table: str
    table_id: str
    status: BackupStatus
    type: BackupType
    created_at: float
    size_bytes: int
    expires_at: float | None = None


class BackupDescription(msgspec.Struct, frozen=True):
    """A backup, and the table as it was when the backup was taken."""

    summary: BackupSummary
    source: TableDescription
    lifetime_attribute: str | None = None


class CreateBackup(Operation[BackupSummary], frozen=True):
    """Back up a table under a name."""

    table: str
    name: str


class BackupName(msgspec.Struct, frozen=True):
    """A backup's table and id. `spelling` is the name as the caller wrote it, if different."""

    table: str
    id: str
    spelling: str = ""

    def __str__(self) -> str:
        """Return the name as the caller wrote it, or else `table/backup/id`."""
        return self.spelling or f"{self.table}/backup/{self.id}"


class DescribeBackup(Operation[BackupDescription], frozen=True):
    """Return a backup, and the table as it was."""

    backup: BackupName


class DeleteBackup(Operation[BackupDescription], frozen=True):
    """Delete a backup and return what it was."""

    backup: BackupName


class ListBackupsResult(msgspec.Struct, frozen=True):
    """One page of backups. `last` continues the listing; None at the end."""

    backups: tuple[BackupSummary, ...]
    last: BackupName | None = None


class ListBackups(Operation[ListBackupsResult], frozen=True):
    """List the backups of one table or of all, by default those of type USER. `since` is inclusive, `before`
    exclusive; `after` continues a page.
    """

    table: str | None = None
    limit: int = 100
    since: float | None = None
    before: float | None = None
    after: BackupName | None = None
    type: BackupTypeFilter = "USER"


class RestoreTableFromBackup(Operation[TableDescription], frozen=True):
    """Restore a backup into a new table, `target`."""

    backup: BackupName
    target: str
    overrides: RestoreOverrides = RestoreOverrides()
