"""`holdfast indexes`: indexes added to tables that are in use, and how far each is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import HoldfastError, NotFound
from holdfast.settings import Settings
from holdfast.terminal import harmless

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.model.tables import Index
    from holdfast.runtime import IndexReport, Stores

EXIT_FAILED = 1


class Action(StrEnum):
    ADD = "add"
    STATUS = "status"


def indexes(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="add or status.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Whose indexes.")],
    table: Annotated[str | None, typer.Option("--table", metavar="NAME", help="Only of this table.")] = None,
    index: Annotated[str | None, typer.Option("--index", metavar="NAME", help="Only this index.")] = None,
    optional: Annotated[bool, typer.Option("--optional", help="Also those not made by default.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Begin, and do not wait.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Add indexes that are missing, online, one per table at a time; or tell how far each is."""
    from holdfast.model.system import installed_system

    found = installed_system(system)
    if action is Action.ADD:
        chosen = _chosen(found, table, index, everything=optional)
        reports, failures = asyncio.run(_added(found, chosen, wait=not no_wait, as_json=as_json))
    else:
        chosen = _chosen(found, table, index, everything=True)
        reports, failures = asyncio.run(_reported(found, chosen)), []
    _show(found, chosen, reports, as_json)
    for failure in failures:
        said = " ".join(["holdfast:", failure.message, *getattr(failure, "__notes__", [])])
        typer.echo(harmless(said), err=True)
    if failures:
        raise typer.Exit(EXIT_FAILED)


def _chosen(system: System, table: str | None, index: str | None, *, everything: bool) -> list[Index]:
    """Those of the table, or with the name, that are asked for; by name the optional ones too."""
    tables = system.tables if table is None else [system.table(table)]
    several = [each for one in tables for each in one.global_indexes]
    if index is None:
        return [each for each in several if everything or each.default]
    if named := [each for each in several if each.name == index]:
        return named
    raise NotFound(
        f"There is no index {index!r}: there are {', '.join(dict.fromkeys(each.name for each in several))}."
    )


async def _added(
    system: System, chosen: Sequence[Index], *, wait: bool, as_json: bool
) -> tuple[list[IndexReport], list[HoldfastError]]:
    """Table by table, so that one that fails does not keep the others from their indexes."""
    from holdfast.cli.showing import progress_bar
    from holdfast.runtime import add_indexes, open_stores

    failures: list[HoldfastError] = []
    percents = {(each.table.name, each.name): 0.0 for each in chosen}
    tables = list(dict.fromkeys(each.table for each in chosen))
    with progress_bar(shown=not as_json) as show:
        async with open_stores(system, Settings.load()) as stores:

            def tell(report: IndexReport) -> None:
                percents[report.table, report.index] = report.percent
                done = round(sum(percents.values()) / len(percents))
                show(f"{report.table} {report.index} (percent of all)", done, 100)

            async def add_to(own: list[Index]) -> None:
                try:
                    await add_indexes(stores, own, wait=wait, progress=tell)
                except HoldfastError as error:
                    if isinstance(error, NotFound):
                        error.add_note(f"`holdfast tables {system.name} --create` makes what is missing.")
                    failures.append(error)

            await asyncio.gather(
                *(add_to([each for each in chosen if each.table is table]) for table in tables)
            )
            return await _reports(stores, chosen), failures


async def _reported(system: System, chosen: Sequence[Index]) -> list[IndexReport]:
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        return await _reports(stores, chosen)


async def _reports(stores: Stores, chosen: Sequence[Index]) -> list[IndexReport]:
    from holdfast.runtime import index_reports

    wanted = {(each.table.name, each.name) for each in chosen}
    tables = list(dict.fromkeys(each.table for each in chosen))
    return [each for each in await index_reports(stores, tables) if (each.table, each.index) in wanted]


def _show(system: System, chosen: Sequence[Index], reports: Sequence[IndexReport], as_json: bool) -> None:
    from rich.table import Column

    from holdfast.cli.showing import console, number, plain_table, print_json

    optional = {(each.table.name, each.name): not each.default for each in chosen}
    if as_json:
        print_json(
            [
                {"system": system.name, **asdict(each), "optional": optional[each.table, each.index]}
                for each in reports
            ]
        )
        return
    shown = plain_table(
        "table", Column("index", no_wrap=True), "status", number("built"), number("items"), ""
    )
    for each in reports:
        note = each.problem or ("optional" if optional[each.table, each.index] else "")
        shown.add_row(each.table, each.index, each.status, f"{each.percent:.0f} %", f"{each.items:,}", note)
    active = sum(each.status == "ACTIVE" for each in reports)
    console().print(shown)
    console().print(f"{active} of {len(reports)} are active.")
