"""Backups of tables, restores into new tables, and restores in place: from a backup or a point in time.

As on DynamoDB, a restore creates a new table. `restore_in_place` goes further: it restores into a temporary
table, changes the live table to that state (`restore_in_place.py`), and deletes the temporary one. Tables are
given by physical name, so that tables which no system declares can be restored too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from holdfast.core.errors import (
    InvalidRequest,
    InvalidRestoreTime,
    NotFound,
    RecoveryUnavailable,
    TableAlreadyExists,
    TableNotFound,
)
from holdfast.core.limits import MAX_LIST_BACKUPS
from holdfast.operations import tables as requests
from holdfast.operations.tables import (
    BackupName,
    BackupSummary,
    ContinuousBackups,
    RestoreOverrides,
    TableDescription,
)
from holdfast.runtime.recovery.restore_in_place import Progress, RestoreReport, revert_table
from holdfast.runtime.stores import Stores
from holdfast.runtime.table_provisioner import wait_until

# A large table takes hours on the service.
MAX_WAIT_S: Final = 6 * 3600.0
MAX_NAME_CHARACTERS: Final = 255
NAME: Final = re.compile(rf"[a-zA-Z0-9_.-]{{3,{MAX_NAME_CHARACTERS}}}")
# DynamoDB reports the time of a restore to the second.
RESTORE_TIME_PRECISION_S: Final = 1.0

SAME_AS_SOURCE: Final = RestoreOverrides()
WITHOUT_INDEXES: Final = RestoreOverrides(global_indexes=())

# The state to restore: a time in epoch seconds, or a backup.
RestorePoint: TypeAlias = float | BackupName


@dataclass(frozen=True)
class RecoveryWindow:
    """The times that a table can be restored to, in epoch seconds."""

    earliest: float
    latest: float

    def __str__(self) -> str:
        return f"from {format_time(self.earliest)} to {format_time(self.latest)}"


def format_time(moment: float) -> str:
    """Return a time in UTC, with milliseconds if it is not a whole second."""
    time = datetime.fromtimestamp(round(moment, 3), UTC)
    return time.isoformat(timespec="milliseconds" if time.microsecond else "seconds").replace("+00:00", "Z")


async def create_backup(
    stores: Stores,
    table: str,
    name: str | None = None,
    *,
    progress: Progress = lambda what, done, total: None,
) -> BackupSummary:
    """Back up a table as it is now, and wait until the backup can be restored.

    `name` defaults to table and time.
    """
    if name is not None:
        _check_name(name)
    source = await _describe_table(stores, table)
    name = name or _append_suffix(table, f"-{_format_stamp(stores.clock.now())}")
    summary = await stores.tables.run(requests.CreateBackup(table, name))
    backup = BackupName(table, summary.id)

    async def is_complete() -> bool:
        nonlocal summary
        summary = (await stores.tables.run(requests.DescribeBackup(backup))).summary
        is_available = summary.status == "AVAILABLE"
        progress(f"{table} (backed up)", source.item_count if is_available else 0, source.item_count)
        return is_available

    await wait_until(is_complete, MAX_WAIT_S, f"The backup {backup} is not complete")
    return summary


def _check_name(name: str) -> None:
    """Raise `InvalidRequest` unless DynamoDB accepts the name."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"Invalid name {name!r} of a table or backup: expected 3 to {MAX_NAME_CHARACTERS} letters, "
            "digits, dots, hyphens and underscores."
        )


async def list_backups(stores: Stores, table: str | None = None) -> list[BackupSummary]:
    """Return every backup of a table or of all, oldest first, including those of deleted tables."""
    found: list[BackupSummary] = []
    after: BackupName | None = None
    while True:
        page = await stores.tables.run(
            requests.ListBackups(table, limit=MAX_LIST_BACKUPS, after=after, type="ALL")
        )
        found += page.backups
        after = page.last
        if after is None:
            return sorted(found, key=lambda each: (each.created_at, each.id))


async def get_recovery_window(stores: Stores, table: str) -> RecoveryWindow:
    """Return the times that the table can be restored to.

    Raise `RecoveryUnavailable` if its recovery is off.
    """
    try:
        backups: ContinuousBackups = await stores.tables.run(requests.DescribeContinuousBackups(table))
    except NotFound as error:
        raise _build_not_found_error(table) from error
    if not backups.enabled or backups.earliest is None or backups.latest is None:
        raise RecoveryUnavailable(
            f"Point-in-time recovery is off for {table}. Restore it from a backup if there is one, and "
            "declare the table with point_in_time_recovery=True for the future."
        )
    return RecoveryWindow(backups.earliest, backups.latest)


async def restore_table(
    stores: Stores,
    table: str,
    into: str,
    to: RestorePoint,
    *,
    overrides: RestoreOverrides = SAME_AS_SOURCE,
    reuse: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> TableDescription:
    """Restore the table's state at `to` into a new table, and wait until it is ready.

    The source is not touched. If the same restore is already running, wait for it; with `reuse`, accept one
    that has finished. Raises as `check_restorable` does.
    """
    await check_restorable(stores, table, into, to, reuse=reuse)
    if await _find_table(stores, into) is None:
        await stores.tables.run(_build_restore_request(table, into, to, overrides))
    return await _wait_until_restored(stores, table, into, progress)


async def check_restorable(
    stores: Stores, table: str, into: str, to: RestorePoint, *, reuse: bool = False
) -> None:
    """Raise if the restore is impossible: a time outside the window, a missing backup, an existing target.

    With `reuse`, a target that holds the same restore is accepted.
    """
    _check_name(into)
    if isinstance(to, BackupName):
        await stores.tables.run(requests.DescribeBackup(to))
    else:
        _check_time(table, to, await get_recovery_window(stores, table))
    there = await _find_table(stores, into)
    if there is not None and not _is_same_restore(there, table, to, reuse):
        raise TableAlreadyExists(
            f"Table {into} exists already, and a restore creates a new one. Choose another name, delete that "
            "table, or restore in place."
        )


async def restore_in_place(
    stores: Stores,
    table: str,
    to: RestorePoint,
    *,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> RestoreReport:
    """Change a table back to a time or a backup, item by item. A dry run only counts the differences.

    It uses a temporary table that is deleted at the end. Stop the table's writers first. After an
    interruption, or if others wrote items meanwhile, the temporary table stays, and the same call resumes
    with it.
    """
    await _describe_table(stores, table)
    temporary = build_temporary_name(table, to, "restoring")
    await restore_table(
        stores, table, temporary, to, overrides=WITHOUT_INDEXES, reuse=True, progress=progress
    )
    report = await revert_table(stores, table, temporary, dry_run=dry_run, progress=progress)
    if report.is_complete:
        await stores.tables.run(requests.DeleteTable(temporary))
    return report


def build_temporary_name(table: str, to: RestorePoint, label: str) -> str:
    """Return the name of the temporary table: the same for the same state."""
    return _append_suffix(table, f"-{label}-{to.id if isinstance(to, BackupName) else _format_stamp(to)}")


def _append_suffix(name: str, suffix: str) -> str:
    """Append the suffix to the name, cut to DynamoDB's longest name."""
    return name[: MAX_NAME_CHARACTERS - len(suffix)] + suffix


def _format_stamp(moment: float) -> str:
    """Return the time as it may be part of a table's name."""
    return format_time(moment).replace("-", "").replace(":", "")


async def _describe_table(stores: Stores, table: str) -> TableDescription:
    """Return the table's description; raise `TableNotFound` if it does not exist."""
    found = await _find_table(stores, table)
    if found is None:
        raise _build_not_found_error(table)
    return found


async def _find_table(stores: Stores, table: str) -> TableDescription | None:
    """Return the table's description, or None if it does not exist."""
    try:
        return await stores.tables.run(requests.DescribeTable(table))
    except NotFound:
        return None


def _build_not_found_error(table: str) -> TableNotFound:
    return TableNotFound(
        f"Table {table} does not exist. Check its name and the environment. Restore a deleted table from a "
        "backup, into a new one."
    )


def _check_time(table: str, at: float, window: RecoveryWindow) -> None:
    # The window's first second counts whole, as DynamoDB reports it.
    """Raise `InvalidRestoreTime` if the time is outside the recovery window."""
    if not int(window.earliest) <= at <= window.latest:
        raise InvalidRestoreTime(
            f"Invalid restore time {format_time(at)} for {table}: expected a time {window}, or a backup."
        )


def _is_same_restore(existing: TableDescription, table: str, to: RestorePoint, reuse: bool) -> bool:
    """Return True if the existing table is this restore: in progress, or with `reuse` finished."""
    origin = existing.restore
    if origin is None or not (origin.in_progress or reuse):
        return False
    if isinstance(to, BackupName):
        return origin.backup_id == to.id
    is_moment = origin.backup_id is None and abs(origin.restored_to - to) < RESTORE_TIME_PRECISION_S
    return origin.source_table == table and is_moment


def _build_restore_request(
    table: str, into: str, to: RestorePoint, overrides: RestoreOverrides
) -> requests.Operation[TableDescription]:
    """Return the request that restores a backup, or a table to a time."""
    if isinstance(to, BackupName):
        return requests.RestoreTableFromBackup(to, into, overrides)
    return requests.RestoreTableToPointInTime(table, into, to, overrides)


async def _wait_until_restored(stores: Stores, table: str, into: str, progress: Progress) -> TableDescription:
    """Wait until the new table is active, reporting progress, and return its description."""
    source = await _find_table(stores, table)
    total = 0 if source is None else source.item_count
    found = await _describe_table(stores, into)

    async def is_active() -> bool:
        nonlocal found
        found = await _describe_table(stores, into)
        progress(f"{into} (items restored)", found.item_count, max(found.item_count, total))
        return found.status == "ACTIVE"

    await wait_until(is_active, MAX_WAIT_S, f"The table {into} is not restored")
    return found
