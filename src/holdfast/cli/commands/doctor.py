"""`holdfast doctor`: the health of every configured store, read without changing anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from holdfast.errors import HoldfastError, SettingsError, StoreFileError
from holdfast.settings import TABLES_FILE_NAME, Settings


@dataclass(frozen=True, slots=True)
class Health:
    """One line of the answer; other programs read these names with `--json`."""

    store: str
    engine: str
    ok: bool
    detail: str


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Look at DIR/tables.db instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Check every configured store; exit 1 if one is ill."""
    found = [_tables_health(_tables_file(data))]
    if as_json:
        _print_json(found)
    else:
        _print_lines(found)
    if not all(health.ok for health in found):
        raise typer.Exit(1)


def _tables_file(data: Path | None) -> Path | None:
    """None when the tables are in memory, where only their own process can look at them."""
    if data is not None:
        if not data.is_dir():
            what = "is not a folder" if data.exists() else "does not exist"
            raise SettingsError(f"The data folder {data} {what}: name the one you mean with --data.")
        return data / TABLES_FILE_NAME
    settings = Settings.load()
    return None if settings.tables_in_memory else settings.tables_file


def _tables_health(file: Path | None) -> Health:
    if file is None:
        return Health("tables", "memory", True, "in memory: each process has its own")
    try:
        return _file_health(file)
    except HoldfastError as error:
        return Health("tables", "sqlite", False, error.message)


def _file_health(file: Path) -> Health:
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
    tables = _checked_tables(file)
    holds = "1 table" if tables == 1 else f"{tables:,} tables"
    return Health("tables", "sqlite", True, f"{file}, {holds}, {file.stat().st_size:,} bytes")


def _checked_tables(file: Path) -> int:
    """How many tables the file holds. It is opened for reading: neither made, migrated nor repaired."""
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
            return 0 if is_blank else readable_tables(connection, path)
        finally:
            connection.close()
    except Exception as error:
        raise mapped(error, path) from error


def _print_json(found: list[Health]) -> None:
    import json

    typer.echo(json.dumps([asdict(health) for health in found], indent=2))


def _print_lines(found: list[Health]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("store", "engine", "health", "detail", box=None, pad_edge=False)
    for health in found:
        verdict = "[green]ok[/]" if health.ok else "[red]ill[/]"
        table.add_row(health.store, health.engine, verdict, health.detail)
    Console().print(table)
