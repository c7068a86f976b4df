"""`holdfast indexes`: add missing global indexes to existing tables, or report the status of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output.error_lines import format_error
from holdfast.config.settings import Settings
from holdfast.core.errors import HoldfastError, NotFound

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.model.tables import Index
    from holdfast.runtime import IndexReport, Stores

EXIT_FAILED = 1


class Subcommand(StrEnum):
    ADD = "add"
    STATUS = "status"


def indexes(
    action: Annotated[Subcommand, typer.Argument(metavar="ACTION", help="What to do.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system that declares the indexes.")],
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="Only the indexes of this table.")
    ] = None,
    index: Annotated[str | None, typer.Option("--index", metavar="NAME", help="Only this index.")] = None,
    optional: Annotated[bool, typer.Option("--optional", help="Also add the optional indexes.")] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Start the builds and do not wait for them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Add missing indexes online, or report the status of each.

    A table gets one index at a time.
    """
    from holdfast.model.system import load_system

    found = load_system(system)
    if action is Subcommand.ADD:
        selected = _select_indexes(found, table, index, with_optional=optional)
        reports, failures = asyncio.run(_add(found, selected, wait=not no_wait, as_json=as_json))
    else:
        selected = _select_indexes(found, table, index, with_optional=True)
        reports, failures = asyncio.run(_read_status(found, selected)), []
    _print_reports(found, selected, reports, as_json)
    for failure in failures:
        typer.echo(f"holdfast: {format_error(failure)}", err=True)
    if failures:
        raise typer.Exit(EXIT_FAILED)


def _select_indexes(
    system: System, table: str | None, index: str | None, *, with_optional: bool
) -> list[Index]:
    """Return the global indexes of one table or of all, only those named `index` if given.

    A named index may be an optional one; otherwise optional ones need `with_optional`. Raise `NotFound` for
    an unknown name.
    """
    tables = system.tables if table is None else [system.get_table(table)]
    declared = [each for one in tables for each in one.global_indexes]
    if index is None:
        return [each for each in declared if with_optional or each.default]
    if named := [each for each in declared if each.name == index]:
        return named
    raise NotFound(
        f"Unknown index {index!r}: choose from {', '.join(dict.fromkeys(each.name for each in declared))}."
    )


async def _add(
    system: System, selected: Sequence[Index], *, wait: bool, as_json: bool
) -> tuple[list[IndexReport], list[HoldfastError]]:
    """Add the indexes of all tables concurrently; a failure in one table does not stop the others.

    Return the reports of all selected indexes and the failures. Without `wait`, the builds are only started.
    """
    from holdfast.cli.output.console import progress_bar
    from holdfast.runtime import add_indexes, open_stores

    failures: list[HoldfastError] = []
    percents = {(each.table.name, each.name): 0.0 for each in selected}
    tables = list(dict.fromkeys(each.table for each in selected))
    with progress_bar(enabled=not as_json) as show:
        async with open_stores(system, Settings.load()) as stores:

            def show_report(report: IndexReport) -> None:
                percents[report.table, report.index] = report.percent
                done = round(sum(percents.values()) / len(percents))
                show(f"{report.table} {report.index} (percent of all)", done, 100)

            async def add_to(own: list[Index]) -> None:
                try:
                    await add_indexes(stores, own, wait=wait, progress=show_report)
                except HoldfastError as error:
                    if isinstance(error, NotFound):
                        error.add_note(f"`holdfast tables {system.name} --create` creates missing tables.")
                    failures.append(error)

            await asyncio.gather(
                *(add_to([each for each in selected if each.table is table]) for table in tables)
            )
            return await _fetch_reports(stores, selected), failures


async def _read_status(system: System, selected: Sequence[Index]) -> list[IndexReport]:
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        return await _fetch_reports(stores, selected)


async def _fetch_reports(stores: Stores, selected: Sequence[Index]) -> list[IndexReport]:
    """Return the reports of the selected indexes."""
    from holdfast.runtime import get_index_reports

    wanted = {(each.table.name, each.name) for each in selected}
    tables = list(dict.fromkeys(each.table for each in selected))
    return [each for each in await get_index_reports(stores, tables) if (each.table, each.index) in wanted]


def _print_reports(
    system: System, selected: Sequence[Index], reports: Sequence[IndexReport], as_json: bool
) -> None:
    """Print status, progress and items of each index, as a table or JSON."""
    from rich.table import Column

    from holdfast.cli.output.console import build_table, get_console, number_column, print_json

    optional = {(each.table.name, each.name): not each.default for each in selected}
    if as_json:
        print_json(
            [
                {"system": system.name, **asdict(each), "optional": optional[each.table, each.index]}
                for each in reports
            ]
        )
        return
    table = build_table(
        "table", Column("index", no_wrap=True), "status", number_column("built"), number_column("items"), ""
    )
    for each in reports:
        note = each.problem or ("optional" if optional[each.table, each.index] else "")
        table.add_row(each.table, each.index, each.status, f"{each.percent:.0f} %", f"{each.items:,}", note)
    active = sum(each.status == "ACTIVE" for each in reports)
    get_console().print(table)
    get_console().print(f"{active} of {len(reports)} are active.")
