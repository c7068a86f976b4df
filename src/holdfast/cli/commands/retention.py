"""`holdfast retention`: what a system keeps, in which store, for how long, and what has no end."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.choosing import NONE_INSTALLED, SystemName, chosen_systems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.guarantees import Kept
    from holdfast.model.system import System

EXIT_OPEN_ENDED = 1


def retention(
    system: SystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Tell what is kept, where and how long; exit 1 if something has no known end."""
    from holdfast.cli.showing import console, print_json
    from holdfast.guarantees import retention_report

    reports = [(each, retention_report(each)) for each in chosen_systems(system)]
    if as_json:
        print_json([{"system": each.name, **asdict(kept)} for each, rows in reports for kept in rows])
    elif not reports:
        console().print(NONE_INSTALLED)
    else:
        for each, rows in reports:
            _print_rows(each, rows)
    if any(kept.problem for _, rows in reports for kept in rows):
        raise typer.Exit(EXIT_OPEN_ENDED)


def _print_rows(system: System, rows: Sequence[Kept]) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, plain_table
    from holdfast.guarantees.retention.periods import spoken

    table = plain_table("store", "name", "what", "how long", "", title=system.name)
    for kept in rows:
        period = spoken(kept.seconds) if kept.seconds is not None else ""
        told = (
            f"{escape(kept.why)} [yellow]{escape(kept.problem)}[/]".strip()
            if kept.problem
            else escape(kept.why)
        )
        until = "" if period and kept.until == "for good" else kept.until
        table.add_row(kept.store, kept.name, escape(kept.what), f"{period} {until}".strip(), told)
    open_ended = sum(bool(kept.problem) for kept in rows)
    console().print(table)
    console().print(f"{system.name}: {open_ended or 'nothing'} without a known end\n", markup=False)
