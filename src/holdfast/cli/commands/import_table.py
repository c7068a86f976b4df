"""`holdfast import`: import a CSV file into a system's table and report the rejected rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound, SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.runtime import Importer, ImportReport

EXIT_REJECTED = 1
MAX_COLUMNS_SHOWN = 8


def import_table(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system that declares the table.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to import into.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The CSV file; its first line has the column names.")
    ],
    rejects: Annotated[
        Path | None, typer.Option("--rejects", metavar="FILE", help="Write rejected rows to this file.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over instead of resuming an interrupted import.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if any row was rejected.")] = False,
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="NAME", help="The encoding of the file.")
    ] = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Import a CSV file into a table.

    Repeating is safe: rows are put by key. An interrupted import resumes.
    """
    from holdfast.cli.output.console import print_json
    from holdfast.model.system import load_system

    found = load_system(system)
    importer = _find_importer(found, table)
    if file.is_dir():
        raise SettingsError(f"{file} is a folder: give a CSV file.")
    report = asyncio.run(_import(found, importer, file, rejects, restart, encoding, as_json))
    if as_json:
        print_json(_to_json(found, table, file, report))
    else:
        _print_summary(file, table, report)
    if not (report.written or report.kept) or (strict and report.rejected):
        raise typer.Exit(EXIT_REJECTED)


def _find_importer(system: System, table: str) -> Importer:
    """Return the system's importer for the table. Raise `NotFound` for an unknown table or one without an
    importer.
    """
    system.get_table(table)  # raises for an unknown name
    importer: Importer | None = system.admin.imports.get(table)
    if importer is None:
        raise NotFound(
            f"{system.name} has no import for {table}; it has imports for: "
            f"{', '.join(system.admin.imports) or 'none'}. Declare "
            f"Admin(imports={{{table!r}: Importer(…)}}), with the entity and the pattern that puts it."
        )
    return importer


async def _import(
    system: System,
    importer: Importer,
    file: Path,
    rejects: Path | None,
    restart: bool,
    encoding: str,
    as_json: bool,
) -> ImportReport:
    """Import the file, with a progress bar unless `as_json`. Raise `SettingsError` if the tables are in
    memory.
    """
    from holdfast.cli.output.console import progress_bar
    from holdfast.runtime import import_csv, open_stores

    settings = Settings.load()
    if settings.has_memory_tables:
        raise SettingsError(
            "The setting `tables` keeps the tables in memory, where the import would be lost when this "
            "command ends: set a file, such as sqlite:data/tables.db."
        )
    place = str(settings.tables_file.resolve()) if settings.has_embedded_tables else settings.tables
    with progress_bar(enabled=not as_json) as show:
        async with open_stores(system, settings) as stores:
            return await import_csv(
                stores,
                importer,
                file,
                rejects,
                restart=restart,
                location=place,
                encoding=encoding,
                progress=lambda done, total: show(f"{file.name} (bytes)", done, total),
            )


def _to_json(system: System, table: str, file: Path, report: ImportReport) -> dict[str, Any]:
    return {
        "system": system.name,
        "table": table,
        "file": str(file),
        "rows": report.rows,
        "written": report.written,
        "kept": report.kept,
        "rejected": report.rejected,
        "duplicates": report.duplicates,
        "resumed": report.resumed,
        "ignored_columns": list(report.ignored_columns),
        "rejects": None if report.rejects is None else str(report.rejects),
    }


def _print_summary(file: Path, table: str, report: ImportReport) -> None:
    """Print the counts of the import, ignored columns, and where the rejected rows are."""
    from holdfast.cli.output.console import get_console

    out = get_console()
    summary = f"{report.rows:,} rows of {file.name}: {report.written:,} written to {table}"
    if report.resumed:
        summary += f" ({report.resumed:,} by the interrupted import)"
    out.print(f"{summary}, {report.rejected:,} rejected.", soft_wrap=True)
    if report.kept:
        out.print(
            f"Rows of {table} kept, because they are newer than those in the file: {report.kept:,}.",
            soft_wrap=True,
        )
    if report.duplicates:
        out.print(f"Rejected rows with the key of an earlier row: {report.duplicates:,}.", soft_wrap=True)
    if report.ignored_columns:
        shown = ", ".join(report.ignored_columns[:MAX_COLUMNS_SHOWN])
        more = "" if len(report.ignored_columns) <= MAX_COLUMNS_SHOWN else " and more"
        out.print(
            f"Columns that {table} does not have were ignored: {shown}{more}.", soft_wrap=True, markup=False
        )
    if report.rejects is not None:
        out.print(
            f"The rejected rows with reasons are in {report.rejects}. Fix them and import that file.",
            soft_wrap=True,
            markup=False,
        )
