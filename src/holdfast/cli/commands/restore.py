"""`holdfast restore`: restore a data folder from a backup, or a table to a point in time or from a backup.

A table is restored to a new table or in place.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from holdfast.cli.arguments.data_folders import parse_folder
from holdfast.cli.output.manifests import build_manifest_json, format_unreadable, print_manifest_stores
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import BackupNotFound, RecoveryUnavailable, SettingsError

if TYPE_CHECKING:
    from holdfast.cli.arguments.table_names import TableSelection
    from holdfast.operations.tables import BackupName
    from holdfast.runtime import RestoreReport, Stores
    from holdfast.runtime.folder_backups import FolderRestore

EXIT_CONTENDED = 1
DELAYED_ACTIONS_WARNING: Final = (
    "Restored delayed actions may have run since: before you start their worker again, review the pending "
    "ones and cancel those that already ran."
)
BACK_IN_TIME_WARNING: Final = (
    "Its work continues from that moment. What ran since may run again: stop the processes of the old "
    "folder, and review delayed actions before you start the workers."
)
BACKUP_FORMAT: Final = re.compile(
    r"(arn:[^/]+:table/)?((?P<table>[a-zA-Z0-9_.-]+)/backup/)?(?P<id>[a-zA-Z0-9-]+)"
)


def restore(  # noqa: PLR0913, PLR0917 - the command has this many options
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="The table to restore.", show_default=False)
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="TIME", help="A time such as 2026-02-04T01:00:00Z, or before now: -90s, -2h."
        ),
    ] = None,
    from_backup: Annotated[
        str | None,
        typer.Option(
            "--from-backup",
            metavar="BACKUP",
            help="A backup as in `holdfast backup --list`, or its ARN.",
        ),
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="NAME", help="The name of the new table.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Restore the table itself, item by item.")
    ] = False,
    from_folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            parser=parse_folder,
            metavar="DIR",
            help="Restore every store of a backup that --to has written.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            parser=parse_folder,
            metavar="DIR",
            help="With --from, restore into this new data folder.",
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="With --from, the key file, if the backup has none."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="With --from, read and count everything that was restored.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would be done; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a restore in place.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Restore a data folder from a backup, or a table to a point in time.

    With --from, every store of a backup goes into a new data folder. Otherwise the items of a table go into a
    new table, or with --in-place into the table itself.
    """
    of_table: dict[str, object] = {"TABLE": table, "--at": at, "--from-backup": from_backup, "--into": into}
    of_table |= {"--in-place": in_place or None, "--yes": yes or None}
    if from_folder is not None:
        _refuse_options("--from DIR excludes", of_table)
        _restore_folder(from_folder, data, keys, _Checks(verify, dry_run), as_json)
        return
    _refuse_options(
        "Without --from DIR there is no", {"--data": data, "--keys": keys, "--verify": verify or None}
    )
    if table is None:
        raise UsageError("Give --from DIR, or a TABLE with --at TIME or --from-backup BACKUP.")
    _restore_table(table, (at, from_backup), into, _InPlace(in_place, yes), dry_run, as_json)


def _refuse_options(problem: str, given: Mapping[str, object]) -> None:
    """Raise `UsageError` if one of these options is given."""
    if named := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"{problem} {', '.join(named)}.")


# --- a data folder ------------------------------------------------------------------------------------------


class _Checks(NamedTuple):
    """How a data folder is restored: whether it is verified, and whether nothing is kept."""

    verify: bool
    dry_run: bool


def _restore_folder(
    backup: Path, data: Path | None, keys: Path | None, checks: _Checks, as_json: bool
) -> None:
    """Restore a backup into the folder `data`, or that of the settings, and print what was restored."""
    from holdfast.cli.output.console import print_json, progress_bar
    from holdfast.runtime.folder_backups import restore_folder

    settings = Settings.load()
    target = _choose_target(settings, checks) if data is None else data
    with progress_bar(enabled=not as_json) as progress:
        restored = restore_folder(
            backup,
            target,
            settings=settings,
            key_file=keys,
            verify=checks.verify,
            dry_run=checks.dry_run,
            progress=progress,
        )
    if as_json:
        done = {"data": str(target), "verified": restored.is_verified, "dry_run": restored.is_dry_run}
        readable = {"is_readable": restored.has_keys}
        print_json({"backup": str(backup), **done, **readable, **build_manifest_json(restored.manifest)})
    else:
        _print_folder_restore(backup, restored)


def _choose_target(settings: Settings, checks: _Checks) -> Path:
    """Return the data folder of the settings; for a dry run a new name next to it: it may be in use."""
    from holdfast.runtime.folder_backups import find_data_folder

    found = find_data_folder(settings)
    return found.with_name(f"{found.name}-dry-run") if checks.dry_run else found


def _print_folder_restore(backup: Path, restored: FolderRestore) -> None:
    """Print the restored stores, and what cannot be read without the keys."""
    from holdfast.cli.output.console import get_console

    out, manifest = get_console(), restored.manifest
    print_manifest_stores(out, manifest)
    for each in manifest.skipped:
        out.print(
            f"Not in the backup: {each.store} ({each.engine}) {each.reason}.", markup=False, soft_wrap=True
        )
    verified = ", and everything in it was read and counted" if restored.is_verified else ""
    if restored.is_dry_run:
        text = f"The backup of {manifest.created_at} in {backup} can be restored{verified}."
    else:
        text = f"The backup of {manifest.created_at} is restored into {restored.folder}{verified}."
    out.print(text, markup=False, soft_wrap=True)
    if not restored.is_dry_run:
        out.print(BACK_IN_TIME_WARNING, markup=False, soft_wrap=True)
    if not restored.has_keys:
        remedy = "Restore with --keys FILE, or put the key file into the folder before you use it."
        out.print(f"{format_unreadable(manifest)} {remedy}", markup=False, soft_wrap=True)


# --- a table ------------------------------------------------------------------------------------------------


class _InPlace(NamedTuple):
    """Whether a table itself is restored, and whether the user has agreed to that."""

    is_wanted: bool
    is_agreed: bool


def _restore_table(
    table: str,
    state: tuple[str | None, str | None],
    into: str | None,
    in_place: _InPlace,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restore a table to a time or from a backup: one of the two texts in `state`."""
    from holdfast.cli.arguments.table_names import resolve_table

    at, from_backup = state
    if (at is None) == (from_backup is None):
        raise UsageError("Give either --at TIME or --from-backup BACKUP.")
    if into is not None and in_place.is_wanted:
        raise UsageError("--into and --in-place exclude each other: give one of them.")
    settings = Settings.load()
    if settings.has_memory_tables:
        raise SettingsError("The setting `tables` keeps the tables in memory: there is nothing to restore.")
    selection = resolve_table(table, settings)
    parsed = (
        _parse_at(at, settings) if at is not None else _parse_backup(from_backup or "", selection.names[0])
    )
    target = None if into is None else resolve_table(into, settings).names[0]
    request = _RestoreRequest(selection, parsed, target, dry_run, as_json, settings)
    if in_place.is_wanted and not dry_run:
        _require_consent(request, in_place.is_agreed)
    asyncio.run(request.restore_in_place() if in_place.is_wanted else request.restore_to_new_table())


def _parse_at(text: str, settings: Settings) -> float:
    from holdfast.cli.arguments.times import parse_time

    return parse_time(text, settings.clock.now())


def _parse_backup(text: str, table: str) -> BackupName:
    """Parse an ARN, `TABLE/backup/ID` as it is listed, or an id of a backup of `table`. Raise
    `UsageError`.
    """
    from holdfast.operations.tables import BackupName

    found = BACKUP_FORMAT.fullmatch(text)
    if found is None:
        raise UsageError(f"Invalid backup {text!r}: `holdfast backup --list` prints the name of each backup.")
    return BackupName(found["table"] or table, found["id"], text if text.startswith("arn:") else "")


def _require_consent(request: _RestoreRequest, yes: bool) -> None:
    """Ask the user to confirm, unless `yes`. Raise `UsageError` without a terminal; abort if the user
    declines.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "A restore in place changes and deletes items: add --yes, or preview it with --dry-run."
        )
    typer.confirm(
        f"Restore {request.table} to {request.state_label}? Later writes are lost: stop every writer first. "
        f"{DELAYED_ACTIONS_WARNING}",
        abort=True,
        err=True,
    )


@dataclass(frozen=True)
class _RestoreRequest:
    """One call of the command: the table, the state to restore (epoch seconds or a backup), and how.

    `target` is the name of the new table, or None for a generated name.
    """

    selection: TableSelection
    state: float | BackupName
    target: str | None
    dry_run: bool
    as_json: bool
    settings: Settings

    @property
    def table(self) -> str:
        return self.selection.names[0]

    @property
    def state_label(self) -> str:
        """The state to restore, in words: a time, or "the backup …"."""
        from holdfast.runtime.recovery.backups import format_time

        return format_time(self.state) if isinstance(self.state, float) else f"the backup {self.state}"

    async def restore_to_new_table(self) -> None:
        """Restore into a new table. On a dry run, only check that the restore is possible."""
        from holdfast.cli.output.console import progress_bar
        from holdfast.runtime import restore_table
        from holdfast.runtime.recovery.backups import build_temporary_name, check_restorable

        into = self.target or build_temporary_name(self.table, self.state, "restored")
        items: int | None = None
        with progress_bar(enabled=not self.as_json) as progress:
            async with self._open_stores() as stores:
                with _add_backup_hint():
                    if self.dry_run:
                        await check_restorable(stores, self.table, into, self.state)
                    else:
                        restored = await restore_table(
                            stores, self.table, into, self.state, progress=progress
                        )
                        items = restored.item_count
        self._print_new_table(into, items)

    async def restore_in_place(self) -> None:
        """Restore the table itself and print the counts; exit 1 if items were written at the same time."""
        from holdfast.cli.output.console import progress_bar
        from holdfast.runtime import restore_in_place

        with progress_bar(enabled=not self.as_json) as progress:
            async with self._open_stores() as stores:
                with _add_backup_hint():
                    report = await restore_in_place(
                        stores, self.table, self.state, dry_run=self.dry_run, progress=progress
                    )
                undo_at = await self._find_undo_time(stores, report)
        self._report_in_place(report, undo_at)
        if not report.is_complete:
            typer.echo(
                f"holdfast: items not restored, because they were written at the same time: "
                f"{report.contended:,}. Stop every writer of {self.table}, and run the command again with "
                f"{self._format_state_option()}.",
                err=True,
            )
            raise typer.Exit(EXIT_CONTENDED)

    def _open_stores(self) -> Stores:
        from holdfast.runtime import open_stores

        return open_stores(self.selection.system, self.settings)

    async def _find_undo_time(self, stores: Stores, report: RestoreReport) -> str | None:
        """Return the time before the first change, if the table can be restored to it."""
        from holdfast.runtime import get_recovery_window
        from holdfast.runtime.recovery.backups import format_time

        if self.dry_run or not report.changed:
            return None
        try:
            window = await get_recovery_window(stores, self.table)
        except RecoveryUnavailable:
            return None
        return format_time(report.began_at) if report.began_at >= window.earliest else None

    def _format_state_option(self) -> str:
        """Return the option that restores the same state later: a time relative to now would be another."""
        return (
            f"--from-backup {self.state}" if not isinstance(self.state, float) else f"--at {self.state_label}"
        )

    def _to_json(self) -> dict[str, Any]:
        is_moment = isinstance(self.state, float)
        return {
            "table": self.table,
            "at": self.state_label if is_moment else None,
            "backup": None if is_moment else str(self.state),
            "dry_run": self.dry_run,
        }

    def _print_new_table(self, into: str, items: int | None) -> None:
        """Print the new table's name; on a dry run, that the restore is possible."""
        from holdfast.cli.output.console import get_console, print_json

        if self.as_json:
            print_json(self._to_json() | {"into": into, "items": items})
            return
        out = get_console()
        if self.dry_run:
            out.print(f"{self.table} can be restored to {self.state_label}, into {into}.", markup=False)
            return
        out.print(f"{self.table} as of {self.state_label} is in {into}.", markup=False, soft_wrap=True)
        out.print("The new table has no stream, no TTL and no point-in-time recovery until you enable them.")

    def _report_in_place(self, report: RestoreReport, undo_at: str | None) -> None:
        """Print the counts as text or JSON; `undo_at` is the time to restore to in order to undo this."""
        from holdfast.cli.output.console import print_json

        if self.as_json:
            examples = [{"what": each.what, "key": _format_key(each.key)} for each in report.examples]
            counts = {"restored": report.restored, "missing": report.missing, "different": report.different}
            counts |= {
                "deleted": report.deleted,
                "unchanged": report.unchanged,
                "contended": report.contended,
            }
            print_json(self._to_json() | counts | {"undo_at": undo_at, "examples": examples})
        else:
            self._print_counts(report, undo_at)

    def _print_counts(self, report: RestoreReport, undo_at: str | None) -> None:
        from holdfast.cli.output.console import build_table, get_console, number_column

        out = get_console()
        verbs = ("to restore", "to delete") if self.dry_run else ("restored", "deleted")
        out.print(f"{self.table} compared with {self.state_label}", markup=False, soft_wrap=True)
        table = build_table("items", number_column(""))
        table.add_row(f"{verbs[0]}, missing", f"{report.missing:,}")
        table.add_row(f"{verbs[0]}, different", f"{report.different:,}")
        table.add_row(verbs[1], f"{report.deleted:,}")
        table.add_row("unchanged", f"{report.unchanged:,}")
        out.print(table)
        if self.dry_run:
            for each in report.examples:
                out.print(f"  {each.what}: {_format_key(each.key)}", markup=False, soft_wrap=True)
        if report.restored and not self.dry_run:
            out.print(DELAYED_ACTIONS_WARNING, markup=False, soft_wrap=True)
        if undo_at is not None:
            undo = f"holdfast restore {self.table} --at {undo_at} --in-place"
            out.print(f"`{undo}` undoes this restore.", markup=False, soft_wrap=True)


@contextmanager
def _add_backup_hint() -> Iterator[None]:
    """Add the command that lists the backups to errors about missing backups or recovery."""
    try:
        yield
    except (BackupNotFound, RecoveryUnavailable) as error:
        error.add_note("`holdfast backup --list` lists the backups.")
        raise


def _format_key(key: Mapping[str, Any]) -> dict[str, str]:
    """Return an item's key with texts as values; bytes are in hexadecimal."""
    return {name: value.hex() if isinstance(value, bytes) else str(value) for name, value in key.items()}
