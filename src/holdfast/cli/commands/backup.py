"""`holdfast backup`: back up tables or a whole data folder, or list the backups of tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments.data_folders import parse_folder, require_data_folder
from holdfast.cli.output.manifests import build_manifest_json, format_unreadable, print_manifest_stores
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.cli.arguments.table_names import TableSelection
    from holdfast.operations.tables import BackupSummary
    from holdfast.runtime.folder_backups import Manifest


def backup(
    of: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM|TABLE", help="All tables of a system, or one table."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The name of the backup.")
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Only list the backups.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            parser=parse_folder,
            metavar="DIR",
            help="Back up every embedded store into this new folder.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            parser=parse_folder,
            metavar="DIR",
            help="With --to, back up the stores in this folder instead.",
        ),
    ] = None,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="With --to, include the key file of encrypted data.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Back up every store to another place, or single tables as they are now.

    With --to, every embedded store is copied into a new folder, all at the same moment. Otherwise the backups
    of tables are kept in their store.
    """
    if to is not None:
        if of is not None or name is not None or only_list:
            raise UsageError("--to backs up every store: it excludes SYSTEM, TABLE, --name and --list.")
        _back_up_folder(to, data, with_keys, as_json)
        return
    if data is not None or with_keys:
        raise UsageError("--data and --with-keys need --to DIR.")
    if of is None and not only_list:
        raise UsageError("Give --to DIR, or a SYSTEM or a TABLE to back up, or list backups with --list.")
    if name is not None and only_list:
        raise UsageError("--name and --list exclude each other: --name is for a new backup.")
    _back_up_tables(of, name, only_list, as_json)


# --- a data folder ------------------------------------------------------------------------------------------


def _back_up_folder(to: Path, data: Path | None, with_keys: bool, as_json: bool) -> None:
    """Back up the stores of the settings, or of the folder `data`, and print what the backup contains."""
    from holdfast.cli.output.console import print_json, progress_bar
    from holdfast.runtime.folder_backups import back_up_folder

    settings = Settings.load()
    if data is not None:
        settings = settings.in_folder(require_data_folder(data))
    with progress_bar(enabled=not as_json) as progress:
        manifest = back_up_folder(settings, to, with_keys=with_keys, progress=progress)
    if as_json:
        print_json({"backup": str(to), **build_manifest_json(manifest)})
    else:
        _print_folder_backup(to, manifest)


def _print_folder_backup(to: Path, manifest: Manifest) -> None:
    """Print the stores of a new backup, what it leaves out, and what needs the keys."""
    from holdfast.cli.output.console import get_console

    out = get_console()
    print_manifest_stores(out, manifest)
    for each in manifest.skipped:
        out.print(f"Not included: {each.store} ({each.engine}) {each.reason}.", markup=False, soft_wrap=True)
    if manifest.key_file is not None:
        keys = f"It contains the keys ({manifest.key_file}): keep it as safe as the keys themselves."
    elif manifest.keys:
        keys = f"{format_unreadable(manifest)} Keep a copy of the key file elsewhere, or use --with-keys."
    else:
        keys = ""
    out.print(f"The backup is complete in {to}. {keys}".rstrip(), markup=False, soft_wrap=True)
    out.print(
        f"`holdfast restore --from {to} --verify --dry-run` proves that it can be restored.", markup=False
    )


# --- tables -------------------------------------------------------------------------------------------------


def _back_up_tables(of: str | None, name: str | None, only_list: bool, as_json: bool) -> None:
    """Back up the named tables inside their store, or list the backups."""
    from holdfast.cli.arguments.table_names import TableSelection, resolve_tables
    from holdfast.cli.output.console import print_json

    settings = Settings.load()
    if settings.has_memory_tables:
        raise SettingsError("The setting `tables` keeps the tables in memory: there is nothing to back up.")
    selection = TableSelection(()) if of is None else resolve_tables(of, settings)
    work = (
        _list_backups(selection, settings) if only_list else _make_backups(selection, settings, name, as_json)
    )
    backups = asyncio.run(work)
    if as_json:
        print_json([_to_json(each) for each in backups])
    else:
        _print_backups(backups, only_list)


async def _make_backups(
    selection: TableSelection, settings: Settings, name: str | None, as_json: bool
) -> list[BackupSummary]:
    """Back up each selected table and return the summaries, with a progress bar unless `as_json`."""
    from holdfast.cli.output.console import progress_bar
    from holdfast.runtime import create_backup, open_stores

    with progress_bar(enabled=not as_json) as progress:
        async with open_stores(selection.system, settings) as stores:
            return [await create_backup(stores, table, name, progress=progress) for table in selection.names]


async def _list_backups(selection: TableSelection, settings: Settings) -> list[BackupSummary]:
    """Return the backups of the selected tables, or all backups if none is selected."""
    from holdfast.runtime import list_backups, open_stores

    async with open_stores(selection.system, settings) as stores:
        tables: Sequence[str | None] = selection.names or (None,)
        return [each for table in tables for each in await list_backups(stores, table)]


def _to_json(backup: BackupSummary) -> dict[str, Any]:
    from holdfast.runtime.recovery.backups import format_time

    return {
        "table": backup.table,
        "backup": f"{backup.table}/backup/{backup.id}",
        "name": backup.name,
        "type": backup.type,
        "status": backup.status,
        "created_at": format_time(backup.created_at),
        "expires_at": None if backup.expires_at is None else format_time(backup.expires_at),
        "bytes": backup.size_bytes,
    }


def _print_backups(backups: Sequence[BackupSummary], only_list: bool) -> None:
    """Print the backups as a table; after a backup, also the command that restores one."""
    from rich.markup import escape
    from rich.table import Column

    from holdfast.cli.output.console import build_table, get_console, number_column

    out = get_console()
    table = build_table("name", "created", "status", number_column("bytes"), Column("backup", no_wrap=True))
    for each in map(_to_json, backups):
        until = f", until {each['expires_at']}" if each["expires_at"] else ""
        table.add_row(
            escape(each["name"]),
            each["created_at"],
            each["status"] + until,
            f"{each['bytes']:,}",
            escape(each["backup"]),
        )
    if not backups:
        out.print("There are no backups.")
        return
    out.print(table)
    if not only_list:
        out.print("`holdfast restore TABLE --from-backup BACKUP` restores one.", markup=False)
