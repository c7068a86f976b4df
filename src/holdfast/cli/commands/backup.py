"""`holdfast backup`: tables backed up on demand, and the backups that there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.cli.table_names import NamedTables
    from holdfast.operations.tables import BackupSummary


def backup(
    of: Annotated[
        str | None,
        typer.Argument(metavar="[SYSTEM|TABLE]", help="All tables of a system, or one table."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the backup is called.")
    ] = None,
    only_list: Annotated[bool, typer.Option("--list", help="Tell the backups that there are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Back tables up as they are now, or list the backups."""
    from holdfast.cli.showing import print_json
    from holdfast.cli.table_names import NamedTables, named_tables

    if of is None and not only_list:
        raise CalledWrongly("Name a SYSTEM or a TABLE to back up, or ask for the backups with --list.")
    if name is not None and only_list:
        raise CalledWrongly("--name is for a new backup, and --list makes none: leave one of them out.")
    settings = Settings.load()
    if settings.tables_in_memory:
        raise SettingsError("The setting `tables` keeps them in memory: there is nothing to back up.")
    chosen = NamedTables(()) if of is None else named_tables(of, settings)
    work = _listed(chosen, settings) if only_list else _made(chosen, settings, name, as_json)
    found = asyncio.run(work)
    if as_json:
        print_json([_as_json(each) for each in found])
    else:
        _print_backups(found, only_list)


async def _made(
    chosen: NamedTables, settings: Settings, name: str | None, as_json: bool
) -> list[BackupSummary]:
    from holdfast.cli.showing import progress_bar
    from holdfast.runtime import back_up, open_stores

    with progress_bar(shown=not as_json) as progress:
        async with open_stores(chosen.system, settings) as stores:
            return [await back_up(stores, table, name, progress=progress) for table in chosen.names]


async def _listed(chosen: NamedTables, settings: Settings) -> list[BackupSummary]:
    """Of the tables that are named, or of all."""
    from holdfast.runtime import list_backups, open_stores

    async with open_stores(chosen.system, settings) as stores:
        tables: Sequence[str | None] = chosen.names or (None,)
        return [each for table in tables for each in await list_backups(stores, table)]


def _as_json(each: BackupSummary) -> dict[str, Any]:
    from holdfast.runtime.restoring import shown_moment

    return {
        "table": each.table,
        "backup": f"{each.table}/backup/{each.id}",
        "name": each.name,
        "type": each.type,
        "status": each.status,
        "created_at": shown_moment(each.created_at),
        "expires_at": None if each.expires_at is None else shown_moment(each.expires_at),
        "bytes": each.size_bytes,
    }


def _print_backups(found: Sequence[BackupSummary], only_list: bool) -> None:
    from rich.markup import escape
    from rich.table import Column

    from holdfast.cli.showing import console, number, plain_table

    out = console()
    shown = plain_table("name", "made", "status", number("bytes"), Column("backup", no_wrap=True))
    for each in map(_as_json, found):
        until = f", until {each['expires_at']}" if each["expires_at"] else ""
        shown.add_row(
            escape(each["name"]),
            each["created_at"],
            each["status"] + until,
            f"{each['bytes']:,}",
            escape(each["backup"]),
        )
    if not found:
        out.print("There is no backup.")
        return
    out.print(shown)
    if not only_list:
        out.print("`holdfast restore TABLE --from-backup BACKUP` brings one back.", markup=False)
