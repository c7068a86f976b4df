"""`holdfast check`: run the design check and print a reason and a remedy for each finding."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.arguments.system_names import NONE_INSTALLED, OptionalSystemName, select_systems
from holdfast.cli.extras import get_scratch_extras
from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.reports.design.rules.base import Finding, Severity

EXIT_ERRORS = 1
COLOURS: Final[dict[Severity, str]] = {"error": "red", "warning": "yellow", "info": "cyan"}


def check(
    system: OptionalSystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check the design of a system; exit 1 on an error."""
    from holdfast.cli.output.console import print_json, progress_bar
    from holdfast.model.system import list_system_names
    from holdfast.reports.design.design_check import check_design

    findings: list[Finding] = []
    systems = select_systems(system, get_scratch_extras)
    for each in systems:
        with progress_bar(enabled=not as_json) as progress:
            findings += asyncio.run(check_design(each, progress=progress))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print_findings(systems, findings)
    if not systems and not list_system_names():
        raise SettingsError(NONE_INSTALLED)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(EXIT_ERRORS)


def _print_findings(systems: Sequence[System], findings: Sequence[Finding]) -> None:
    """Print a table of findings for each system, and the counts by severity."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console
    from holdfast.reports.design.design_check import RULES

    out = get_console()
    for system in systems:
        own = [finding for finding in findings if finding.system == system.name]
        table = build_table("", "subject", "finding and remedy", title=system.name)
        for finding in own:
            table.add_row(
                f"[{COLOURS[finding.severity]}]{finding.severity}[/]",
                escape(finding.subject),
                f"{escape(finding.message)}\n[dim]{escape(finding.remedy)}[/]",
            )
        if own:
            out.print(table)
        out.print(f"[bold]{system.name}[/]: {_format_counts(own)}, by {len(RULES)} rules\n")


def _format_counts(findings: Sequence[Finding]) -> str:
    """Format the counts by severity: `2 errors, 1 warning`, or `no findings`."""
    severities = [finding.severity for finding in findings]
    counts = [(severities.count(each), each) for each in COLOURS if each in severities]
    parts = [f"{count} {each}{'s' if count > 1 and each != 'info' else ''}" for count, each in counts]
    return ", ".join(parts) or "no findings"
