"""`holdfast patterns`: list the declared access patterns, and with `--measure` what each consumes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments.system_names import NONE_INSTALLED, OptionalSystemName, select_systems
from holdfast.cli.extras import get_scratch_extras
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings

if TYPE_CHECKING:
    from holdfast.core.progress import Progress
    from holdfast.model.system import System
    from holdfast.reports.measurement.pattern_measures import Measure
    from holdfast.reports.pattern_list import PatternRow

EXIT_FAILED = 1


def patterns(
    system: OptionalSystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    with_measures: Annotated[
        bool,
        typer.Option("--measure", help="Run each pattern with its example; report items, units and time."),
    ] = False,
    allow_writes: Annotated[
        bool,
        typer.Option(
            "--allow-writes",
            help="On a service (not an embedded store), also run writes. They are not undone.",
        ),
    ] = False,
    on_sample: Annotated[
        bool, typer.Option("--sample", help="Measure on sample data, whichever stores are configured.")
    ] = False,
) -> None:
    """List the access patterns; exit 1 if a measured one fails."""
    from holdfast.cli.output.console import print_json, progress_bar
    from holdfast.reports.pattern_list import build_pattern_rows

    if allow_writes and not with_measures:
        raise UsageError("--allow-writes needs --measure: give both, or neither.")
    if on_sample and (allow_writes or not with_measures):
        raise UsageError("--sample needs --measure and excludes --allow-writes.")
    rows: list[PatternRow] = []
    grounds: dict[str, str] = {}
    for each in select_systems(system, get_scratch_extras) if with_measures else select_systems(system):
        if with_measures:
            with progress_bar(enabled=not as_json) as progress:
                grounds[each.name], measures = asyncio.run(_measure(each, allow_writes, on_sample, progress))
            rows += build_pattern_rows(each, {measure.pattern.id: measure for measure in measures})
        else:
            rows += build_pattern_rows(each)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        _print_rows(rows, grounds)
    if any(row.measure is not None and row.measure.has_failed for row in rows):
        raise typer.Exit(EXIT_FAILED)


async def _measure(
    system: System, allow_writes: bool, on_sample: bool, progress: Progress
) -> tuple[str, list[Measure]]:
    """Measure the system's patterns; return a description of the data and the measures."""
    from holdfast.reports.measurement.data_sources import open_data_source, open_sample_data
    from holdfast.reports.measurement.pattern_measures import measure_patterns

    opening = (
        open_sample_data(system, progress=progress)
        if on_sample
        else open_data_source(system, Settings.load(), progress=progress)
    )
    async with opening as ground:
        measures = await measure_patterns(
            ground, system.patterns, allow_writes=allow_writes, progress=progress
        )
        return ground.description, measures


def _print_rows(rows: Sequence[PatternRow], grounds: dict[str, str]) -> None:
    """Print a table per system; `grounds` describes the measured data of each system that was measured."""
    from holdfast.cli.output.console import get_console

    out = get_console()
    if not rows:
        out.print(NONE_INSTALLED)
    for system in dict.fromkeys(row.system for row in rows):
        own = [row for row in rows if row.system == system]
        if system in grounds:
            _print_measured(system, own, grounds[system])
        else:
            _print_declared(system, own)


def _print_declared(system: str, rows: Sequence[PatternRow]) -> None:
    """Print the patterns of a system with operation, rate and components."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console

    table = build_table("id", "pattern", "runs", "rate", "components", title=system)
    for row in rows:
        table.add_row(
            row.id,
            f"{row.name}\n[dim]{escape(row.purpose)}[/]",
            f"{row.operation or '[red]its example fails[/]'}\n[dim]{_format_table_name(row)}[/]",
            f"{row.rate['times']:g} × per {row.rate['per']}",
            ", ".join(row.components) or "[yellow]none[/]",
        )
    get_console().print(table)
    get_console().print()


def _print_measured(system: str, rows: Sequence[PatternRow], ground: str) -> None:
    """Print the measures of a system's patterns; `ground` describes the data. Reasons follow the table."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column

    figures = map(number_column, ("read", "returned", "units", "ms"))
    table = build_table("id", "pattern", "runs", *figures, title=system)
    out = get_console()
    for row in rows:
        assert row.measure is not None
        operation = f"{row.operation or '?'} [dim]{_format_table_name(row)}[/]"
        table.add_row(row.id, row.name, operation, *_format_figures(row.measure))
    out.print(table)
    out.print(f"\nMeasured on {ground}, each after a warm-up; times are the best of up to five runs.")
    for (reason, colour), ids in _group_by_reason(rows).items():
        out.print(f"[{colour}]{', '.join(ids)}[/] {escape(reason)}")
    out.print()


def _group_by_reason(rows: Sequence[PatternRow]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the patterns that were not measured or failed, by reason and colour."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.measure is not None and row.measure.reason is not None:
            groups.setdefault((row.measure.reason, _choose_colour(row.measure)), []).append(row.id)
    return groups


def _format_figures(measure: Measure) -> tuple[str, str, str, str]:
    """Return items read, items returned, units and milliseconds, or dashes and why there are none."""
    if measure.ms is None:
        return "–", "–", "–", f"[{_choose_colour(measure)}]{'failed' if measure.has_failed else 'not run'}[/]"
    counts = f"{measure.items_read:,}", f"{measure.items_returned:,}"
    return *counts, _format_units(measure), f"{measure.ms:.2f}"


def _choose_colour(measure: Measure) -> str:
    return "red" if measure.has_failed else "yellow"


def _format_table_name(row: PatternRow) -> str:
    return row.table or "" if row.index is None else f"{row.table}.{row.index}"


def _format_units(measure: Measure) -> str:
    """Format read and write units: `0.5 r + 2 w`, or `0`."""
    read, write = measure.units.read, measure.units.write
    return " + ".join(f"{amount:,g} {kind}" for amount, kind in ((read, "r"), (write, "w")) if amount) or "0"
