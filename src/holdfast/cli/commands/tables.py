"""`holdfast tables`: list the declared tables; with `--create`, create the missing ones first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments.system_names import NONE_INSTALLED, OptionalSystemName, select_systems
from holdfast.config.settings import Settings
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.model.tables import Index, Table


def tables(
    system: OptionalSystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    create: Annotated[
        bool, typer.Option("--create", help="Create the missing tables in the configured store.")
    ] = False,
) -> None:
    """List the declared tables: keys, indexes, TTL, stream and stored name."""
    from holdfast.cli.output.console import print_json

    settings, found = Settings.load(), select_systems(system)
    created = asyncio.run(_create_missing(found, settings)) if create else None
    if as_json:
        print_json([_to_json(each, table, settings, created) for each in found for table in each.tables])
    else:
        _print_tables(found, settings, created)


async def _create_missing(systems: Sequence[System], settings: Settings) -> set[str]:
    """Create the missing tables and return their physical names. Raise `SettingsError` if tables are in
    memory.
    """
    from holdfast.runtime import create_tables, open_stores

    if settings.has_memory_tables:
        raise SettingsError(
            "The setting `tables` keeps the tables in memory, where they would be lost when this command "
            "ends: set a file, such as sqlite:data/tables.db."
        )
    created: set[str] = set()
    for system in systems:
        async with open_stores(system, settings) as stores:
            created.update(await create_tables(stores, system.tables))
    return created


def _to_json(system: System, table: Table, settings: Settings, created: set[str] | None) -> dict[str, Any]:
    """Return the declared table as JSON; with `created`, also whether the command created it."""
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
        "recovery": table.point_in_time_recovery,
        "indexes": [_index_to_json(index) for index in table.indexes],
    }
    return row if created is None else row | {"created": physical in created}


def _index_to_json(index: Index) -> dict[str, Any]:
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


def _print_tables(systems: Sequence[System], settings: Settings, created: set[str] | None) -> None:
    from holdfast.cli.output.console import build_table, get_console

    out = get_console()
    if not systems:
        out.print(NONE_INSTALLED)
        return
    for system in systems:
        listing = build_table("table, index", "partition key", "sort key", "features", title=system.name)
        for table in system.tables:
            physical = table.physical_name(settings.environment)
            is_new = created is not None and physical in created
            name = table.name if physical == table.name else f"{table.name} [dim]as {physical}[/]"
            listing.add_row(
                f"{name} [green]created[/]" if is_new else name, *_format_keys(table), _format_features(table)
            )
            for index in table.indexes:
                listing.add_row(
                    f"  [cyan]{index.name}[/]", *_format_keys(index), _format_index_features(index)
                )
        out.print(listing)
        out.print()
    if created is not None:
        existing = sum(len(system.tables) for system in systems) - len(created)
        out.print(f"{len(created)} created, {existing} already exist.")


def _format_keys(declared: Table | Index) -> tuple[str, str]:
    """Return the partition key and the sort key with their types, for the two columns."""
    sort = "" if declared.sort is None else f"{declared.sort} [dim]{declared.sort_type}[/]"
    return f"{declared.partition} [dim]{declared.partition_type}[/]", sort


def _format_features(table: Table) -> str:
    features = (
        table.ttl and f"TTL in {table.ttl}",
        table.stream and f"stream of {table.stream}",
        table.point_in_time_recovery and "point-in-time recovery",
    )
    return ", ".join(each for each in features if each)


def _format_index_features(index: Index) -> str:
    projection = index.projection
    projected = ", ".join(projection.attributes) if projection.kind == "INCLUDE" else projection.kind
    features = (projected, index.scope == "local" and "local", not index.default and "optional")
    return ", ".join(each for each in features if each)
