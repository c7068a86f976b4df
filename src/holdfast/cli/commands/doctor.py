"""`holdfast doctor`: check the health of every configured store, without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

import typer

from holdfast.cli.arguments.data_folders import require_data_folder
from holdfast.cli.arguments.system_names import try_load_system
from holdfast.cli.extras import require_extras
from holdfast.cli.health.environments import (
    EnvironmentsBySystem,
    find_environments,
    format_environments,
    list_table_names,
    select_environments,
)
from holdfast.cli.health.sql import check_sql
from holdfast.cli.health.sqlite_files import describe_absent_file, open_checked_file
from holdfast.cli.health.stores import StoreHealth, check_cache, check_objects, check_queues
from holdfast.config.settings import Settings
from holdfast.core.errors import DeclarationError, HoldfastError, NotFound

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.operations.tables import TableDescription

# Statuses of a DynamoDB table that answers, or will soon.
HEALTHY_STATUSES: Final = frozenset({"ACTIVE", "CREATING", "UPDATING"})

# The names of existing tables, each with the names of its indexes.
IndexesByTable: TypeAlias = Mapping[str, frozenset[str]]


class InstalledSystems(NamedTuple):
    """The systems that load, and for each of the others the reason why it does not."""

    systems: list[System]
    problems: list[str]


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Check the embedded stores in DIR instead.")
    ] = None,
    is_deep: Annotated[
        bool, typer.Option("--deep", help="Read everything that is stored, and verify its checksums.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every configured store; exit 1 if one is unhealthy."""
    settings, installed = Settings.load(), _load_systems()
    if data is not None:
        settings = settings.in_folder(require_data_folder(data))
    healths = [_check_tables(settings, installed), *_check_other_stores(settings, installed)]
    if is_deep:
        healths = _verify_all(healths, settings, show=not as_json)
    if as_json:
        _print_json(healths)
    else:
        _print_table(healths)
    if not all(health.ok for health in healths):
        raise typer.Exit(1)


def _verify_all(healths: list[StoreHealth], settings: Settings, *, show: bool) -> list[StoreHealth]:
    """Verify everything in the stores, with a progress bar if `show`."""
    from holdfast.cli.health.deep import deepen
    from holdfast.cli.output.console import progress_bar

    with progress_bar(enabled=show) as progress:
        return [deepen(health, settings, progress) for health in healths]


def _check_tables(settings: Settings, installed: InstalledSystems) -> StoreHealth:
    """Check the tables store: DynamoDB, memory, or an SQLite file."""
    if not settings.has_embedded_tables:
        return _check_dynamodb(settings, installed)
    if settings.has_memory_tables:
        return StoreHealth("tables", "memory", True, "in memory: each process has its own data")
    try:
        health = _check_tables_file(settings.tables_file, settings.environment, installed)
    except HoldfastError as error:
        health = StoreHealth("tables", "sqlite", False, error.message)
    return replace(health, detail=health.detail + "".join(f"; {each}" for each in installed.problems))


def _check_other_stores(settings: Settings, installed: InstalledSystems) -> list[StoreHealth]:
    """Check the queues, objects, SQL and cache, each only if an installed system uses it."""
    systems = installed.systems
    healths = [check_queues(settings, systems)] if any(system.queues for system in systems) else []
    healths += [check_objects(settings, systems)] if any(system.buckets for system in systems) else []
    healths += [check_sql(settings, systems)] if any(system.schemas for system in systems) else []
    healths += [check_cache(settings)] if any(_has_pattern_on(system, "cache") for system in systems) else []
    return healths


def _has_pattern_on(system: System, store: str) -> bool:
    """Return True if a pattern's example runs on the store. Invalid examples are ignored: `holdfast check`
    reports them.
    """
    for pattern in system.patterns:
        with suppress(HoldfastError):
            if pattern.build_example().store == store:
                return True
    return False


# --- the embedded engine ------------------------------------------------------------------------------------


def _check_tables_file(file: Path, environment: str, installed: InstalledSystems) -> StoreHealth:
    """Check a SQLite tables file; a missing or empty file is healthy. Raise `HoldfastError` if it is
    damaged.
    """
    from holdfast.stores.tables.embedded.storage.catalog import inspect_tables
    from holdfast.stores.tables.embedded.storage.schema import SCHEMA

    absent = describe_absent_file(file, "tables")
    if absent is not None:
        return StoreHealth("tables", "sqlite", True, absent)
    with open_checked_file(file, SCHEMA) as checked:
        existing: IndexesByTable = {} if checked.is_blank else inspect_tables(checked.connection, str(file))
    found = find_environments(existing, installed.systems, list_table_names)
    content = f"{_format_table_count(len(existing))}, {file.stat().st_size:,} bytes"
    missing = _format_missing(existing, found, environment, installed)
    detail = f"{file}, {content}{format_environments(found)}{missing}{checked.remarks}"
    return StoreHealth("tables", "sqlite", True, detail)


# --- DynamoDB -----------------------------------------------------------------------------------------------


def _check_dynamodb(settings: Settings, installed: InstalledSystems) -> StoreHealth:
    """Check that DynamoDB answers and that no declared table is in a failed status. Few retries are made."""
    where = settings.tables_endpoint or settings.tables_region or "the region of the AWS settings"
    try:
        require_extras("doctor", "aws")
        count, described = asyncio.run(_describe_tables(settings, installed.systems))
    except HoldfastError as error:
        return StoreHealth("tables", "dynamodb", False, f"{where}: {error.message}")
    existing = {name: frozenset(table.global_indexes) for name, table in described.items()}
    statuses = {name: table.status for name, table in described.items() if table.status != "ACTIVE"}
    inactive = "".join(f"; {name} is {status}" for name, status in statuses.items())
    missing = _format_missing(existing, {}, settings.environment, installed)
    problems = "".join(f"; {each}" for each in installed.problems)
    detail = f"{where}, reachable, {_format_table_count(count)}{inactive}{missing}{problems}"
    return StoreHealth("tables", "dynamodb", HEALTHY_STATUSES.issuperset(statuses.values()), detail)


async def _describe_tables(
    settings: Settings, systems: Sequence[System]
) -> tuple[int, dict[str, TableDescription]]:
    """Return the number of tables, and the descriptions of those that installed systems declare."""
    from holdfast.operations.tables import DescribeTable, ListTables
    from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb

    # Few retries: a store that answers only after many is not healthy.
    backoff = Backoff(max_attempts=2, deadline_s=5)
    async with open_dynamodb(
        region=settings.tables_region, endpoint=settings.tables_endpoint, backoff=backoff
    ) as tables:
        count, after = 0, None
        while True:
            page = await tables.run(ListTables(after))
            count, after = count + len(page.names), page.last_name
            if after is None:
                break
        described: dict[str, TableDescription] = {}
        declared = [table for system in systems for table in system.tables]
        for name in [table.physical_name(settings.environment) for table in declared]:
            try:
                described[name] = await tables.run(DescribeTable(name))
            except NotFound:
                continue
    return count, described


# --- declarations -------------------------------------------------------------------------------------------


def _load_systems() -> InstalledSystems:
    """Return the systems that load, and a reason for each of the others, whose stores are not checked."""
    from holdfast.model.system import list_system_names, load_systems

    with suppress(DeclarationError):
        return InstalledSystems(list(load_systems().values()), [])
    systems: list[System] = []
    problems: list[str] = []
    for name in list_system_names():
        try:
            system, missing = try_load_system(name)
        except DeclarationError as error:
            problems.append(error.message)
            continue
        if system is None:
            problems.append(f"{name} is skipped: it {missing}")
        else:
            systems.append(system)
    return InstalledSystems(systems, problems)


def _format_missing(
    existing: IndexesByTable, found: EnvironmentsBySystem, configured: str, installed: InstalledSystems
) -> str:
    """Describe the declared tables and indexes that do not exist.

    They are looked for in each environment with data, and in the configured one. Missing ones are healthy:
    systems create them when they run.
    """
    return "".join(
        _format_missing_in(system, existing, environment, has_run=bool(found.get(system.name)))
        for system in installed.systems
        for environment in select_environments(found, system, configured)
    )


def _format_missing_in(system: System, existing: IndexesByTable, environment: str, *, has_run: bool) -> str:
    """Describe the tables and default indexes that one system has not created in an environment; empty if it
    has created all. `has_run` says that it has data, there or in another environment.
    """
    tables, indexes = [], []
    for table in system.tables:
        found = existing.get(table.physical_name(environment))
        if found is None:
            tables.append(table.physical_name(environment))
        else:
            missing = [
                index.name for index in table.global_indexes if index.default and index.name not in found
            ]
            indexes += [f"{table.physical_name(environment)}.{name}" for name in missing]
    text = ""
    if len(tables) > 1 and len(tables) == len(system.tables):
        where = f"in {environment}" if has_run else "here"
        text += f"; {system.name}: {len(tables)} tables not created yet (it has not run {where})"
    elif tables:
        text += f"; {system.name} has not created {_join_names('table', tables)} yet"
    if indexes:
        text += (
            f"; {system.name} lacks {_join_names('index', indexes)} (`holdfast indexes add {system.name}`)"
        )
    return text


def _join_names(noun: str, names: list[str]) -> str:
    """Join names after their noun: `the table a`, `the tables a, b`."""
    plural = {"table": "tables", "index": "indexes"}[noun]
    return f"the {noun if len(names) == 1 else plural} {', '.join(names)}"


def _format_table_count(count: int) -> str:
    return "1 table" if count == 1 else f"{count:,} tables"


# --- output -------------------------------------------------------------------------------------------------


def _print_json(healths: list[StoreHealth]) -> None:
    import json

    typer.echo(json.dumps([asdict(health) for health in healths], indent=2))


def _print_table(healths: list[StoreHealth]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from holdfast.cli.output.console import SafeConsole

    table = Table("store", "engine", "health", "detail", box=None, pad_edge=False)
    for health in healths:
        verdict = "[green]ok[/]" if health.ok else "[red]unhealthy[/]"
        table.add_row(health.store, escape(health.engine), verdict, escape(health.detail))
    SafeConsole().print(table)
