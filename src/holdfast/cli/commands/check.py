"""`holdfast check`: the design check, with reasons and remedies in words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.choosing import NONE_INSTALLED, SystemName, chosen_systems
from holdfast.cli.extras import stores_extras

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.reports.checks.design import Finding, Severity

EXIT_ERRORS = 1
COLOURS: Final[dict[Severity, str]] = {"error": "red", "warning": "yellow", "info": "cyan"}


def check(
    system: SystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Check the design of a system; exit 1 on an error."""
    from holdfast.cli.showing import print_json, progress_bar
    from holdfast.reports.design_check import check_design

    found: list[Finding] = []
    systems = chosen_systems(system, stores_extras)
    for each in systems:
        with progress_bar(shown=not as_json) as progress:
            found += asyncio.run(check_design(each, progress=progress))
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        _print_findings(systems, found)
    if any(finding.severity == "error" for finding in found):
        raise typer.Exit(EXIT_ERRORS)


def _print_findings(systems: Sequence[System], found: Sequence[Finding]) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, plain_table
    from holdfast.reports.design_check import RULES

    out = console()
    if not systems:
        out.print(NONE_INSTALLED)
    for system in systems:
        several = [finding for finding in found if finding.system == system.name]
        table = plain_table("", "subject", "what, and what to do", title=system.name)
        for finding in several:
            table.add_row(
                f"[{COLOURS[finding.severity]}]{finding.severity}[/]",
                escape(finding.subject),
                f"{escape(finding.message)}\n[dim]{escape(finding.remedy)}[/]",
            )
        if several:
            out.print(table)
        out.print(f"[bold]{system.name}[/]: {_counted(several)}, by {len(RULES)} rules\n")


def _counted(found: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`, or that nothing was found."""
    severities = [finding.severity for finding in found]
    counts = [(severities.count(each), each) for each in COLOURS if each in severities]
    told = [f"{count} {each}{'s' if count > 1 and each != 'info' else ''}" for count, each in counts]
    return ", ".join(told) or "nothing to remark"
