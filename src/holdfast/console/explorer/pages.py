"""What all pages of one system share: its addresses, its analysis, its findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from holdfast.console.access import require_sight
from holdfast.console.context import Console
from holdfast.console.costs.routes import TOPIC
from holdfast.console.explorer.context import Explorer
from holdfast.console.explorer.findings import place_findings
from holdfast.console.explorer.glossary import GLOSSARY
from holdfast.console.explorer.navigation import SystemUrls
from holdfast.console.explorer.pattern_rows import PatternView, build_pattern_views
from holdfast.console.users import User
from holdfast.core.distribution import explain_missing
from holdfast.model.system import System

with explain_missing(__name__, "console"):
    from fastapi import Path


SystemName = Annotated[str, Path(alias="system")]
"""The name of the system in a path. Pages have the system itself as `system`."""


def open_system(console: Console, user: User, name: str) -> System:
    """Return a system that the user may see. Raise `NotFound` for any other."""
    require_sight(user, name)
    return console.get_system(name)


async def build_page(explorer: Explorer, system: System) -> dict[str, Any]:
    """Return the values that every template of a system uses. The first page begins its measurement."""
    analysis = await explorer.analyses.get(system.name)
    results = analysis.results
    findings = place_findings(system, () if results is None else results.findings)
    urls = SystemUrls(system)
    return {
        "system": system,
        "urls": urls,
        "analysis": analysis,
        "topic": TOPIC,
        "findings": findings,
        "glossary": GLOSSARY,
        "tab_entries": urls.list_tabs(None if results is None else len(findings)),
    }


def list_views(page: Mapping[str, Any]) -> list[PatternView]:
    """Return the system's patterns with what the analysis found so far."""
    return build_pattern_views(page["system"], page["analysis"].results, page["findings"])
