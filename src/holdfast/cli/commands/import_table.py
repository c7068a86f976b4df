"""`holdfast import`: a CSV file into a system's table, with a bar, a file of rejects and a summary."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import NotFound, SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.runtime import Importer, ImportReport

EXIT_REJECTED = 1
COLUMNS_SHOWN_MAX = 8


def import_table(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Whose table.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table that the rows are for.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV; its first line names the columns.")],
    rejects: Annotated[
        Path | None, typer.Option("--rejects", metavar="FILE", help="Where refused rows are told.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="From the start, although an earlier import was interrupted.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if any row was refused.")] = False,
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="NAME", help="How the file is written.")
    ] = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Import a CSV file. Rows are put by key, so it may be repeated; killed, it goes on where it was."""
    from holdfast.cli.showing import print_json
    from holdfast.model.system import installed_system

    found = installed_system(system)
    importer = _importer(found, table)
    if file.is_dir():
        raise SettingsError(f"{file} is a folder: name the CSV file that has the rows.")
    report = asyncio.run(_imported(found, importer, file, rejects, restart, encoding, as_json))
    if as_json:
        print_json(_as_json(found, table, file, report))
    else:
        _print_summary(file, table, report)
    if not (report.written or report.kept) or (strict and report.rejected):
        raise typer.Exit(EXIT_REJECTED)


def _importer(system: System, table: str) -> Importer:
    system.table(table)  # refuses a name that it does not know
    importer: Importer | None = system.imports.get(table)
    if importer is None:
        raise NotFound(
            f"{system.name} has no import for {table}: it has one for {', '.join(system.imports) or 'none'}. Declare "
            f"System(imports={{{table!r}: Importer(…)}}), with the entity and the pattern that puts it."
        )
    return importer


async def _imported(
    system: System,
    importer: Importer,
    file: Path,
    rejects: Path | None,
    restart: bool,
    encoding: str,
    as_json: bool,
) -> ImportReport:
    from holdfast.cli.showing import progress_bar
    from holdfast.runtime import import_csv, open_stores

    settings = Settings.load()
    if settings.tables_in_memory:
        raise SettingsError(
            "The setting `tables` keeps them in memory, and what is imported there ends with this command: name a "
            "file, as sqlite:data/tables.db."
        )
    place = str(settings.tables_file.resolve()) if settings.tables_embedded else settings.tables
    with progress_bar(shown=not as_json) as show:
        async with open_stores(system, settings) as stores:
            return await import_csv(
                stores,
                importer,
                file,
                rejects,
                restart=restart,
                place=place,
                encoding=encoding,
                progress=lambda done, total: show(f"{file.name} (bytes)", done, total),
            )


def _as_json(system: System, table: str, file: Path, report: ImportReport) -> dict[str, Any]:
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
    from holdfast.cli.showing import console

    out = console()
    told = f"{report.rows:,} rows of {file.name}: {report.written:,} are in {table}"
    if report.resumed:
        told += f" ({report.resumed:,} from the import that was interrupted)"
    out.print(f"{told}, {report.rejected:,} were refused.", soft_wrap=True)
    if report.kept:
        out.print(
            f"{report.kept:,} were kept as they are in {table}: they were changed since, and the file is older.",
            soft_wrap=True,
        )
    if report.duplicates:
        out.print(f"{report.duplicates:,} of those refused have the key of an earlier row.", soft_wrap=True)
    if report.ignored_columns:
        shown = ", ".join(report.ignored_columns[:COLUMNS_SHOWN_MAX])
        more = "" if len(report.ignored_columns) <= COLUMNS_SHOWN_MAX else " and more"
        out.print(
            f"Columns that {table} does not have were left out: {shown}{more}.", soft_wrap=True, markup=False
        )
    if report.rejects is not None:
        out.print(
            f"Why each was refused: {report.rejects}. Mend it and import it as it is.",
            soft_wrap=True,
            markup=False,
        )
