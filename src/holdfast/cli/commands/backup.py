"""`holdfast backup`: back tables up, or list the backups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.cli.arguments.table_names import TableSelection
    from holdfast.operations.tables import BackupSummary


def backup(
    of: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM|TABLE", help="All tables of a system, or one table."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The name of the backup.")
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Only list the backups.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Back up tables as they are now, or list the backups."""
    from holdfast.cli.arguments.table_names import TableSelection, resolve_tables
    from holdfast.cli.output.console import print_json

    if of is None and not only_list:
        raise UsageError("Give a SYSTEM or a TABLE to back up, or list the backups with --list.")
    if name is not None and only_list:
        raise UsageError("--name and --list exclude each other: --name is for a new backup.")
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
