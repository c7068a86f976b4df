"""`holdfast patterns`: the access patterns that are declared, and with `--measure` what each really uses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.choosing import NONE_INSTALLED, SystemName, chosen_systems
from holdfast.cli.extras import stores_extras
from holdfast.cli.misuse import CalledWrongly
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.reports.measuring import Measure
    from holdfast.reports.pattern_list import PatternRow
    from holdfast.reports.scratch import Progress

EXIT_FAILED = 1


def patterns(
    system: SystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
    with_measures: Annotated[
        bool, typer.Option("--measure", help="Run each with its example: items, units and time.")
    ] = False,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="On a service, measure writes too: they stay.")
    ] = False,
    on_sample: Annotated[
        bool, typer.Option("--sample", help="Measure on the sample data, whatever the settings name.")
    ] = False,
) -> None:
    """List the access patterns; exit 1 if one that is measured fails."""
    from holdfast.cli.showing import print_json, progress_bar
    from holdfast.reports.pattern_list import pattern_rows

    if allow_writes and not with_measures:
        raise CalledWrongly("--allow-writes says what --measure may do: give both, or neither.")
    if on_sample and (allow_writes or not with_measures):
        raise CalledWrongly("--sample says where --measure runs: give both, without --allow-writes.")
    rows: list[PatternRow] = []
    grounds: dict[str, str] = {}
    for each in chosen_systems(system, stores_extras) if with_measures else chosen_systems(system):
        if with_measures:
            with progress_bar(shown=not as_json) as progress:
                grounds[each.name], measures = asyncio.run(_measured(each, allow_writes, on_sample, progress))
            rows += pattern_rows(each, {found.pattern.id: found for found in measures})
        else:
            rows += pattern_rows(each)
    if as_json:
        print_json([row.as_json() for row in rows])
    else:
        _print_rows(rows, grounds)
    if any(row.measure is not None and row.measure.failed for row in rows):
        raise typer.Exit(EXIT_FAILED)


async def _measured(
    system: System, allow_writes: bool, on_sample: bool, progress: Progress
) -> tuple[str, list[Measure]]:
    from holdfast.reports.measuring import measure
    from holdfast.reports.scratch import measuring_ground, sample_ground

    opened = (
        sample_ground(system, progress=progress)
        if on_sample
        else measuring_ground(system, Settings.load(), progress=progress)
    )
    async with opened as ground:
        found = await measure(ground, system.patterns, allow_writes=allow_writes, progress=progress)
        return ground.told, found


def _print_rows(rows: Sequence[PatternRow], grounds: dict[str, str]) -> None:
    from holdfast.cli.showing import console

    out = console()
    if not rows:
        out.print(NONE_INSTALLED)
    for system in dict.fromkeys(row.system for row in rows):
        several = [row for row in rows if row.system == system]
        if system in grounds:
            _print_measured(system, several, grounds[system])
        else:
            _print_declared(system, several)


def _print_declared(system: str, rows: Sequence[PatternRow]) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, plain_table

    table = plain_table("id", "pattern", "runs", "rate", "components", title=system)
    for row in rows:
        table.add_row(
            row.id,
            f"{row.name}\n[dim]{escape(row.purpose)}[/]",
            f"{row.operation or '[red]its example fails[/]'}\n[dim]{_place(row)}[/]",
            f"{row.rate['times']:g} × per {row.rate['per']}",
            ", ".join(row.components) or "[yellow]none[/]",
        )
    console().print(table)
    console().print()


def _print_measured(system: str, rows: Sequence[PatternRow], ground: str) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table

    figures = map(number, ("read", "returned", "units", "ms"))
    table = plain_table("id", "pattern", "runs", *figures, title=system)
    out = console()
    for row in rows:
        assert row.measure is not None
        place = f"{row.operation or '?'} [dim]{_place(row)}[/]"
        table.add_row(row.id, row.name, place, *_figures(row.measure))
    out.print(table)
    out.print(f"\nMeasured on {ground}, each after a warm-up; the time is the best of up to five runs.")
    for (reason, colour), ids in _by_reason(rows).items():
        out.print(f"[{colour}]{', '.join(ids)}[/] {escape(reason)}")
    out.print()


def _by_reason(rows: Sequence[PatternRow]) -> dict[tuple[str, str], list[str]]:
    """The patterns that were not measured, those with the same reason together."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.measure is not None and row.measure.reason is not None:
            found.setdefault((row.measure.reason, _colour(row.measure)), []).append(row.id)
    return found


def _figures(found: Measure) -> tuple[str, str, str, str]:
    if found.ms is None:
        return "–", "–", "–", f"[{_colour(found)}]{'failed' if found.failed else 'not run'}[/]"
    return f"{found.items_read:,}", f"{found.items_returned:,}", _units(found), f"{found.ms:.2f}"


def _colour(found: Measure) -> str:
    return "red" if found.failed else "yellow"


def _place(row: PatternRow) -> str:
    return row.table or "" if row.index is None else f"{row.table}.{row.index}"


def _units(found: Measure) -> str:
    read, write = found.units.read, found.units.write
    return " + ".join(f"{amount:,g} {kind}" for amount, kind in ((read, "r"), (write, "w")) if amount) or "0"
