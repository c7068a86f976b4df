"""`holdfast retention`: list what a system stores, where and for how long, and what has no known end."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments.system_names import NONE_INSTALLED, OptionalSystemName, select_systems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.guarantees import RetentionEntry
    from holdfast.model.system import System

EXIT_OPEN_ENDED = 1


def retention(
    system: OptionalSystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what is stored, where, and for how long.

    Exit 1 if something has no known end.
    """
    from holdfast.cli.output.console import get_console, print_json
    from holdfast.guarantees import build_retention_report

    reports = [(each, build_retention_report(each)) for each in select_systems(system)]
    if as_json:
        print_json([{"system": each.name, **asdict(kept)} for each, rows in reports for kept in rows])
    elif not reports:
        get_console().print(NONE_INSTALLED)
    else:
        for each, rows in reports:
            _print_rows(each, rows)
    if any(kept.problem for _, rows in reports for kept in rows):
        raise typer.Exit(EXIT_OPEN_ENDED)


def _print_rows(system: System, rows: Sequence[RetentionEntry]) -> None:
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console
    from holdfast.guarantees.privacy.retention.periods import format_period

    table = build_table("store", "name", "data", "retention", "reason", title=system.name)
    for kept in rows:
        period = format_period(kept.seconds) if kept.seconds is not None else ""
        reason = (
            f"{escape(kept.why)} [yellow]{escape(kept.problem)}[/]".strip()
            if kept.problem
            else escape(kept.why)
        )
        until = "" if period and kept.until == "for good" else kept.until
        table.add_row(kept.store, kept.name, escape(kept.what), f"{period} {until}".strip(), reason)
    open_ended = sum(bool(kept.problem) for kept in rows)
    get_console().print(table)
    get_console().print(f"{system.name}: {open_ended or 'nothing'} without a known end\n", markup=False)
