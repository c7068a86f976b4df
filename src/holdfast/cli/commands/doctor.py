"""`holdfast doctor`: the health of every configured store, read without changing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from holdfast.cli.choosing import loadable
from holdfast.cli.extras import require
from holdfast.cli.sql_health import sql_health
from holdfast.cli.store_health import Health, cache_health, objects_health, queues_health
from holdfast.errors import DeclarationError, HoldfastError, NotFound, SettingsError, StoreFileError
from holdfast.settings import (
    EMBEDDED_SQL_SCHEME,
    FILE_SCHEME,
    QUEUES_FILE_NAME,
    SQLITE_SCHEME,
    TABLES_FILE_NAME,
    Settings,
)

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.operations.tables import TableDescription

OBJECTS_FOLDER_NAME: Final = "objects"
SQL_FOLDER_NAME: Final = "postgres"
# Of a table at DynamoDB: it answers, or will soon.
WELL: Final = frozenset({"ACTIVE", "CREATING", "UPDATING"})

# The tables that are there, by name, each with the names of its indexes.
Found: TypeAlias = Mapping[str, frozenset[str]]


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Look at the stores in DIR instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Check every configured store; exit 1 if one is ill."""
    settings = Settings.load()
    found = [_tables_health(settings, data), *_other_healths(settings, data)]
    if as_json:
        _print_json(found)
    else:
        _print_lines(found)
    if not all(health.ok for health in found):
        raise typer.Exit(1)


def _tables_health(settings: Settings, data: Path | None) -> Health:
    if data is None and not settings.tables_embedded:
        return _service_health(settings)
    if data is None and settings.tables_in_memory:
        return Health("tables", "memory", True, "in memory: each process has its own")
    file = settings.tables_file if data is None else _named_folder(data) / TABLES_FILE_NAME
    try:
        return _file_health(file, settings.environment)
    except HoldfastError as error:
        return Health("tables", "sqlite", False, error.message)


def _other_healths(settings: Settings, data: Path | None) -> list[Health]:
    """The stores beside tables, where an installed system declares something in them."""
    systems = _systems()[0]
    if data is not None:
        settings = replace(settings, queues=f"{SQLITE_SCHEME}{data / QUEUES_FILE_NAME}", base=Path())
        settings = replace(settings, objects=f"{FILE_SCHEME}{data / OBJECTS_FOLDER_NAME}")
        settings = replace(settings, sql=f"{EMBEDDED_SQL_SCHEME}{data / SQL_FOLDER_NAME}", sql_reader="")
    queues = [queue for system in systems for queue in system.queues]
    buckets = [bucket for system in systems for bucket in system.buckets]
    found = [queues_health(settings, queues)] if queues else []
    found += [objects_health(settings, buckets)] if buckets else []
    found += [sql_health(settings, systems)] if any(system.schemas for system in systems) else []
    found += [cache_health(settings)] if any(_uses(system, "cache") for system in systems) else []
    return found


def _uses(system: System, store: str) -> bool:
    """Whether a pattern of the system is on that store, as its example shows; `holdfast check` tells of a bad example."""
    for pattern in system.patterns:
        with suppress(HoldfastError):
            if pattern.example().store == store:
                return True
    return False


def _named_folder(data: Path) -> Path:
    if not data.is_dir():
        what = "is not a folder" if data.exists() else "does not exist"
        raise SettingsError(f"The data folder {data} {what}: name the one you mean with --data.")
    return data


# --- the embedded engine ------------------------------------------------------------------------------------


def _file_health(file: Path, environment: str) -> Health:
    from holdfast.stores.sqlite.log_damage import refuse_lost_database

    refuse_lost_database(str(file))
    if not file.exists():
        return Health("tables", "sqlite", True, f"{file} is not there yet: it is made when first needed")
    if file.is_dir():
        return Health(
            "tables", "sqlite", False, f"{file} is a folder, where a file has its place: move it away"
        )
    if file.stat().st_size == 0:
        return Health("tables", "sqlite", True, f"{file} is empty: it holds no tables, and is as good as new")
    there = _checked_tables(file)
    holds = f"{_counted(len(there))}, {file.stat().st_size:,} bytes"
    return Health("tables", "sqlite", True, f"{file}, {holds}{_lacks(there, environment)}")


def _checked_tables(file: Path) -> Found:
    """What the file holds. It is opened for reading: neither made, migrated nor repaired."""
    from holdfast.stores.sqlite.connections import Tuning, open_reader
    from holdfast.stores.sqlite.failures import mapped
    from holdfast.stores.sqlite.log_damage import refuse_damaged_log
    from holdfast.stores.sqlite.schema import check_identity
    from holdfast.stores.tables.embedded.storage.catalog import readable_tables
    from holdfast.stores.tables.embedded.storage.schema import SCHEMA

    path = str(file)
    try:
        connection = open_reader(path, Tuning())
        try:
            check_identity(connection, SCHEMA, path)
            refuse_damaged_log(connection, path)
            found = [str(line) for (line,) in connection.execute("PRAGMA quick_check")]
            if found != ["ok"]:
                raise StoreFileError(f"{path} is damaged: {'; '.join(found)}")
            # A process that died before its first transaction leaves a header and nothing else.
            is_blank = connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
            return {} if is_blank else readable_tables(connection, path)
        finally:
            connection.close()
    except Exception as error:
        raise mapped(error, path) from error


# --- a service ----------------------------------------------------------------------------------------------


def _service_health(settings: Settings) -> Health:
    where = settings.tables_endpoint or settings.tables_region or "the region of the AWS settings"
    try:
        require("doctor", "aws")
        count, described = asyncio.run(_looked_at(settings))
    except HoldfastError as error:
        return Health("tables", "dynamodb", False, f"{where}: {error.message}")
    there = {name: frozenset(table.global_indexes) for name, table in described.items()}
    states = {name: table.status for name, table in described.items() if table.status != "ACTIVE"}
    told = "".join(f"; {name} is {status}" for name, status in states.items())
    detail = f"{where}, reachable, {_counted(count)}{told}{_lacks(there, settings.environment)}"
    return Health("tables", "dynamodb", WELL.issuperset(states.values()), detail)


async def _looked_at(settings: Settings) -> tuple[int, dict[str, TableDescription]]:
    """How many tables there are, and those of them that installed systems declare."""
    from holdfast.operations.tables import DescribeTable, ListTables
    from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb

    # Health is asked for now: one that only comes with patience is not.
    backoff = Backoff(attempts_max=2, deadline_s=5)
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
        for name in _declared_tables(settings.environment):
            try:
                described[name] = await tables.run(DescribeTable(name))
            except NotFound:
                continue
    return count, described


# --- what systems declare -----------------------------------------------------------------------------------


def _systems() -> tuple[list[System], list[str]]:
    """The systems that can be loaded, and of each other one why it cannot: its stores could not be looked at."""
    from holdfast.model.system import installed_names, installed_systems

    with suppress(DeclarationError):
        return list(installed_systems().values()), []
    found: list[System] = []
    told: list[str] = []
    for name in installed_names():
        try:
            system, lack = loadable(name)
        except DeclarationError as error:
            told.append(error.message)
            continue
        if system is None:
            told.append(f"{name} is left out: it {lack}")
        else:
            found.append(system)
    return found, told


def _declared_tables(environment: str) -> list[str]:
    return [table.physical_name(environment) for system in _systems()[0] for table in system.tables]


def _lacks(there: Found, environment: str) -> str:
    """What installed systems declare and the store does not have. It is made when they run: no illness."""
    systems, not_loaded = _systems()
    lacks = "".join(_lacks_of(system, there, environment) for system in systems)
    return lacks + "".join(f"; {each}" for each in not_loaded)


def _lacks_of(system: System, there: Found, environment: str) -> str:
    tables, indexes = [], []
    for table in system.tables:
        found = there.get(table.physical_name(environment))
        if found is None:
            tables.append(table.physical_name(environment))
        else:
            missing = [
                index.name for index in table.global_indexes if index.default and index.name not in found
            ]
            indexes += [f"{table.physical_name(environment)}.{name}" for name in missing]
    told = ""
    if len(tables) > 1 and len(tables) == len(system.tables):
        told += f"; {system.name}: {len(tables)} tables yet to be made (it has not run here)"
    elif tables:
        told += f"; {system.name} has yet to be given {_named('table', tables)}"
    if indexes:
        told += f"; {system.name} lacks {_named('index', indexes)} (`holdfast indexes add {system.name}`)"
    return told


def _named(what: str, names: list[str]) -> str:
    several = {"table": "tables", "index": "indexes"}[what]
    return f"the {what if len(names) == 1 else several} {', '.join(names)}"


def _counted(tables: int) -> str:
    return "1 table" if tables == 1 else f"{tables:,} tables"


# --- the answer ---------------------------------------------------------------------------------------------


def _print_json(found: list[Health]) -> None:
    import json

    typer.echo(json.dumps([asdict(health) for health in found], indent=2))


def _print_lines(found: list[Health]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from holdfast.cli.showing import Screen

    table = Table("store", "engine", "health", "detail", box=None, pad_edge=False)
    for health in found:
        verdict = "[green]ok[/]" if health.ok else "[red]ill[/]"
        table.add_row(health.store, escape(health.engine), verdict, escape(health.detail))
    Screen().print(table)
