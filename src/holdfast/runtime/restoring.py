"""Backups of tables, and tables as they were: at a second within the window of recovery, or as a backup holds them.

As on DynamoDB, a restore makes a new table. `restore_in_place` goes further: it restores beside the live table, brings
that to the restored state (`putting_back.py`), and deletes what it restored beside. Tables are named by their physical
names, so that one that no system declares can be restored too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from holdfast.errors import (
    InvalidRequest,
    InvalidRestoreTime,
    NotFound,
    RecoveryUnavailable,
    TableAlreadyExists,
    TableNotFound,
)
from holdfast.limits import LIST_BACKUPS_MAX
from holdfast.operations import tables as requests
from holdfast.operations.tables import (
    BackupName,
    BackupSummary,
    ContinuousBackups,
    RestoreOverrides,
    TableDescription,
)
from holdfast.runtime.provisioning import until
from holdfast.runtime.putting_back import Progress, PutBack, put_back
from holdfast.runtime.stores import Stores

# A large table takes hours on the service.
WAIT_SECONDS_MAX: Final = 6 * 3600.0
NAME_CHARACTERS_MAX: Final = 255
NAME: Final = re.compile(rf"[a-zA-Z0-9_.-]{{3,{NAME_CHARACTERS_MAX}}}")
# The service tells the moment of a restore to the second.
MOMENT_SECONDS: Final = 1.0

AS_THE_SOURCE: Final = RestoreOverrides()
WITHOUT_INDEXES: Final = RestoreOverrides(global_indexes=())

# What to go back to: a moment, or a backup.
State: TypeAlias = float | BackupName


@dataclass(frozen=True)
class Window:
    """The moments that a table can be restored to, in epoch seconds."""

    earliest: float
    latest: float

    def __str__(self) -> str:
        return f"from {shown_moment(self.earliest)} to {shown_moment(self.latest)}"


def shown_moment(moment: float) -> str:
    """In UTC, to the millisecond where it is no whole second."""
    told = datetime.fromtimestamp(round(moment, 3), UTC)
    return told.isoformat(timespec="milliseconds" if told.microsecond else "seconds").replace("+00:00", "Z")


async def back_up(
    stores: Stores,
    table: str,
    name: str | None = None,
    *,
    progress: Progress = lambda what, done, total: None,
) -> BackupSummary:
    """Makes a backup of a table as it is now, and waits until it can be restored from."""
    if name is not None:
        _check_name(name)
    source = await _described(stores, table)
    name = name or _cut(table, f"-{_stamp(stores.clock.now())}")
    made = await stores.tables.run(requests.CreateBackup(table, name))
    backup = BackupName(table, made.id)

    async def is_taken() -> bool:
        nonlocal made
        made = (await stores.tables.run(requests.DescribeBackup(backup))).summary
        is_available = made.status == "AVAILABLE"
        progress(f"{table} (backed up)", source.item_count if is_available else 0, source.item_count)
        return is_available

    await until(is_taken, WAIT_SECONDS_MAX, f"The backup {backup} is not taken")
    return made


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is no name for a table or a backup: take 3 to {NAME_CHARACTERS_MAX} letters, digits, dots, "
            "hyphens and underscores."
        )


async def list_backups(stores: Stores, table: str | None = None) -> list[BackupSummary]:
    """Every backup of a table or of all, the oldest first; also those that remain of deleted tables."""
    found: list[BackupSummary] = []
    after: BackupName | None = None
    while True:
        page = await stores.tables.run(
            requests.ListBackups(table, limit=LIST_BACKUPS_MAX, after=after, type="ALL")
        )
        found += page.backups
        after = page.last
        if after is None:
            return sorted(found, key=lambda each: (each.created_at, each.id))


async def recovery_window(stores: Stores, table: str) -> Window:
    """What the table can be restored to. One whose recovery is off is refused."""
    try:
        told: ContinuousBackups = await stores.tables.run(requests.DescribeContinuousBackups(table))
    except NotFound as error:
        raise _no_table(table) from error
    if not told.enabled or told.earliest is None or told.latest is None:
        raise RecoveryUnavailable(
            f"Recovery is off for {table}, so there is no moment to go back to: restore it from a backup if there is "
            "one, and declare the table with recovery=True for the next time."
        )
    return Window(told.earliest, told.latest)


async def restore(
    stores: Stores,
    table: str,
    into: str,
    to: State,
    *,
    overrides: RestoreOverrides = AS_THE_SOURCE,
    again: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> TableDescription:
    """Restores a table into a new one, and waits until that is there. The table itself is not touched.

    A restore of the same that is still going on is waited for, and with `again` one that is done already is taken.
    """
    await check_restorable(stores, table, into, to, again=again)
    if await _find(stores, into) is None:
        await stores.tables.run(_restore_request(table, into, to, overrides))
    return await _restored(stores, table, into, progress)


async def check_restorable(stores: Stores, table: str, into: str, to: State, *, again: bool = False) -> None:
    """Refuses what cannot be: a moment outside of the window, a backup that is not there, a target that exists."""
    _check_name(into)
    if isinstance(to, BackupName):
        await stores.tables.run(requests.DescribeBackup(to))
    else:
        _check_moment(table, to, await recovery_window(stores, table))
    there = await _find(stores, into)
    if there is not None and not _is_same_restore(there, table, to, again):
        raise TableAlreadyExists(
            f"There is a table {into} already, and a restore makes a new one: name another, delete that one, or "
            "restore in place."
        )


async def restore_in_place(
    stores: Stores,
    table: str,
    to: State,
    *,
    dry_run: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> PutBack:
    """Brings a table back to a moment or a backup, item by item, over a table that is restored beside it and deleted
    at the end. On a dry run it only counts the differences.

    Stop first what writes to the table. Interrupted, or with items that others wrote meanwhile, the table beside it
    stays, and the same call goes on with it.
    """
    await _described(stores, table)
    beside = name_beside(table, to, "restoring")
    await restore(stores, table, beside, to, overrides=WITHOUT_INDEXES, again=True, progress=progress)
    done = await put_back(stores, table, beside, dry_run=dry_run, progress=progress)
    if done.is_complete:
        await stores.tables.run(requests.DeleteTable(beside))
    return done


def name_beside(table: str, to: State, word: str) -> str:
    """The name of a table that is restored beside another: the same for the same state."""
    return _cut(table, f"-{word}-{to.id if isinstance(to, BackupName) else _stamp(to)}")


def _cut(name: str, ending: str) -> str:
    return name[: NAME_CHARACTERS_MAX - len(ending)] + ending


def _stamp(moment: float) -> str:
    return shown_moment(moment).replace("-", "").replace(":", "")


async def _described(stores: Stores, table: str) -> TableDescription:
    found = await _find(stores, table)
    if found is None:
        raise _no_table(table)
    return found


async def _find(stores: Stores, table: str) -> TableDescription | None:
    try:
        return await stores.tables.run(requests.DescribeTable(table))
    except NotFound:
        return None


def _no_table(table: str) -> TableNotFound:
    return TableNotFound(
        f"There is no table {table}: look at its name and the environment. A table that was deleted comes back from a "
        "backup, into a new one."
    )


def _check_moment(table: str, at: float, window: Window) -> None:
    # The second in which the window begins counts whole, as the service tells it.
    if not int(window.earliest) <= at <= window.latest:
        raise InvalidRestoreTime(
            f"{table} cannot be restored to {shown_moment(at)}: name a time {window}, or a backup."
        )


def _is_same_restore(there: TableDescription, table: str, to: State, again: bool) -> bool:
    origin = there.restore
    if origin is None or not (origin.in_progress or again):
        return False
    if isinstance(to, BackupName):
        return origin.backup_id == to.id
    is_moment = origin.backup_id is None and abs(origin.restored_to - to) < MOMENT_SECONDS
    return origin.source_table == table and is_moment


def _restore_request(
    table: str, into: str, to: State, overrides: RestoreOverrides
) -> requests.Operation[TableDescription]:
    if isinstance(to, BackupName):
        return requests.RestoreTableFromBackup(to, into, overrides)
    return requests.RestoreTableToPointInTime(table, into, to, overrides)


async def _restored(stores: Stores, table: str, into: str, progress: Progress) -> TableDescription:
    source = await _find(stores, table)
    total = 0 if source is None else source.item_count
    found = await _described(stores, into)

    async def is_there() -> bool:
        nonlocal found
        found = await _described(stores, into)
        progress(f"{into} (items restored)", found.item_count, max(found.item_count, total))
        return found.status == "ACTIVE"

    await until(is_there, WAIT_SECONDS_MAX, f"The table {into} is not restored")
    return found
