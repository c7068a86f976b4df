"""`holdfast tables`: the tables that are declared, and with `--create` the missing ones made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.choosing import NONE_INSTALLED, SystemName, chosen_systems
from holdfast.errors import SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.model.tables import Index, Table


def tables(
    system: SystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
    create: Annotated[
        bool, typer.Option("--create", help="Create what is missing in the configured store.")
    ] = False,
) -> None:
    """List the tables that are declared: keys, indexes, lifetime, stream, and their names in the store."""
    from holdfast.cli.showing import print_json

    settings, found = Settings.load(), chosen_systems(system)
    made = asyncio.run(_created(found, settings)) if create else None
    if as_json:
        print_json([_as_json(each, table, settings, made) for each in found for table in each.tables])
    else:
        _print_tables(found, settings, made)


async def _created(systems: Sequence[System], settings: Settings) -> set[str]:
    """The physical names of the tables that were missing and are there now."""
    from holdfast.runtime import create_tables, open_stores

    if settings.tables_in_memory:
        raise SettingsError(
            "The setting `tables` keeps them in memory, and what is created there ends with this command: name a "
            "file, as sqlite:data/tables.db."
        )
    made: set[str] = set()
    for system in systems:
        async with open_stores(system, settings) as stores:
            made.update(await create_tables(stores, system.tables))
    return made


def _as_json(system: System, table: Table, settings: Settings, made: set[str] | None) -> dict[str, Any]:
    physical = table.physical_name(settings.environment)
    row = {
        "system": system.name,
        "table": table.name,
        "physical_name": physical,
        "purpose": table.purpose,
        "partition": table.partition,
        "partition_type": table.partition_type,
        "sort": table.sort,
        "sort_type": None if table.sort is None else table.sort_type,
        "ttl": table.ttl,
        "stream": table.stream,
        "recovery": table.recovery,
        "indexes": [_index_as_json(index) for index in table.indexes],
    }
    return row if made is None else row | {"created": physical in made}


def _index_as_json(index: Index) -> dict[str, Any]:
    return {
        "name": index.name,
        "scope": index.scope,
        "partition": index.partition,
        "partition_type": index.partition_type,
        "sort": index.sort,
        "sort_type": None if index.sort is None else index.sort_type,
        "projection": index.projection.kind,
        "attributes": list(index.projection.attributes),
        "default": index.default,
        "purpose": index.purpose,
    }


def _print_tables(systems: Sequence[System], settings: Settings, made: set[str] | None) -> None:
    from holdfast.cli.showing import console, plain_table

    out = console()
    if not systems:
        out.print(NONE_INSTALLED)
    for system in systems:
        shown = plain_table("table, index", "partition key", "sort key", "with", title=system.name)
        for table in system.tables:
            physical = table.physical_name(settings.environment)
            is_new = made is not None and physical in made
            name = table.name if physical == table.name else f"{table.name} [dim]as {physical}[/]"
            shown.add_row(f"{name} [green]created[/]" if is_new else name, *_keys(table), _extras(table))
            for index in table.indexes:
                shown.add_row(f"  [cyan]{index.name}[/]", *_keys(index), _index_extras(index))
        out.print(shown)
        out.print()
    if made is not None:
        kept = sum(len(system.tables) for system in systems) - len(made)
        out.print(f"{len(made)} created, {kept} were there already.")


def _keys(place: Table | Index) -> tuple[str, str]:
    sort = "" if place.sort is None else f"{place.sort} [dim]{place.sort_type}[/]"
    return f"{place.partition} [dim]{place.partition_type}[/]", sort


def _extras(table: Table) -> str:
    extras = (
        table.ttl and f"lifetime in {table.ttl}",
        table.stream and f"stream of {table.stream}",
        table.recovery and "recovery",
    )
    return ", ".join(each for each in extras if each)


def _index_extras(index: Index) -> str:
    projection = index.projection
    holds = ", ".join(projection.attributes) if projection.kind == "INCLUDE" else projection.kind
    extras = (holds, index.scope == "local" and "local", not index.default and "optional")
    return ", ".join(each for each in extras if each)
