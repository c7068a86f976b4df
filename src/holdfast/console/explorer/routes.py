"""The pages of the explorer: systems, tables, components, findings. `pattern_routes.py` has the patterns."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from holdfast.console.access import CurrentUser, require_sight
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.explorer import pattern_routes
from holdfast.console.explorer.accesses import find_patterns_of, list_accesses
from holdfast.console.explorer.context import CurrentExplorer, run_explorer
from holdfast.console.explorer.diagrams import draw_access, draw_flow, draw_model, draw_widths
from holdfast.console.explorer.findings import SEVERITIES, count_severities, select_findings
from holdfast.console.explorer.navigation import SystemUrls
from holdfast.console.explorer.pages import SystemName, build_page, list_views, open_system
from holdfast.console.explorer.resources import (
    list_entities,
    list_indexes,
    list_resources_besides_tables,
    list_table_properties,
)
from holdfast.console.rendering import render
from holdfast.console.users import User
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError
from holdfast.model.components import Component
from holdfast.model.system import System
from holdfast.reports.docs.flows import COLUMNS, build_state_row
from holdfast.reports.iam.policies import build_component_policies
from holdfast.reports.iam.sql_grants import build_component_grants, get_role_name

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Query
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter(lifespan=run_explorer)
router.include_router(pattern_routes.router)

SEVERITY_CHOICES: Final = ("", *SEVERITIES)


@router.get("/systems")
async def show_systems(
    request: Request, console: CurrentConsole, explorer: CurrentExplorer, user: CurrentUser
) -> Response:
    """Show every installed system that the user may see, and those that did not load."""
    systems = [each for each in console.systems if user.can_see(each.name)]
    rows = [
        {
            "system": each,
            "urls": SystemUrls(each),
            "pages": _list_pages(console, each),
            "results": explorer.analyses.peek(each.name),
        }
        for each in systems
    ]
    broken = {name: reason for name, reason in console.broken.items() if user.can_see(name)}
    return render(request, "explorer/systems.html", rows=rows, broken=broken)


@router.get("/systems/{system}")
async def show_system(
    request: Request, name: SystemName, console: CurrentConsole, explorer: CurrentExplorer, user: CurrentUser
) -> Response:
    """Show the model of a system: what it declares, as diagrams and tables."""
    if name in console.broken:
        return _show_broken(request, name, console, user)
    system = open_system(console, user, name)
    page = await build_page(explorer, system)
    accesses = list_accesses(system)
    return render(
        request,
        "explorer/system.html",
        **page,
        pages=_list_pages(console, system),
        model=draw_widths(lambda width: draw_model(system, width)),
        accesses=draw_widths(lambda width: draw_access(system, accesses, width)) if accesses else [],
        tables=[(each, list_indexes(each)) for each in system.tables],
        resources=list_resources_besides_tables(system),
        flows=[_build_flow(each) for each in system.flows],
        own_findings=select_findings(page["findings"], "system", ""),
    )


@router.get("/systems/{system}/tables/{table_name}")
async def show_table(
    request: Request,
    name: SystemName,
    table_name: str,
    console: CurrentConsole,
    explorer: CurrentExplorer,
    user: CurrentUser,
) -> Response:
    """Show a table: keys, indexes, entities, and the patterns and components that use it."""
    system = open_system(console, user, name)
    table = system.get_table(table_name)
    page = await build_page(explorer, system)
    views = list_views(page)
    used = {each.pattern.id for each in find_patterns_of(table, [view.example for view in views])}
    return render(
        request,
        "explorer/table.html",
        **page,
        table=table,
        items_url=SystemUrls(system).get_items(table.name),
        properties=list_table_properties(table),
        indexes=[
            (each, select_findings(page["findings"], "index", repr(each.index)))
            for each in list_indexes(table)
        ],
        entities=list_entities(table),
        views=[each for each in views if each.row.id in used],
        accesses=[each for each in list_accesses(system) if each.resource is table],
        own_findings=select_findings(page["findings"], "table", table.name),
    )


@router.get("/systems/{system}/components/{component_name}")
async def show_component(
    request: Request,
    name: SystemName,
    component_name: str,
    console: CurrentConsole,
    explorer: CurrentExplorer,
    user: CurrentUser,
) -> Response:
    """Show a component: what it uses and runs, and what it may do at AWS and in the database."""
    system = open_system(console, user, name)
    component = system.get_component(component_name)
    page = await build_page(explorer, system)
    accesses = [each for each in list_accesses(system) if each.component == component.name]
    ids = {each.id for each in component.patterns}
    return render(
        request,
        "explorer/component.html",
        **page,
        component=component,
        accesses=accesses,
        diagram_drawings=draw_widths(lambda width: draw_access(system, accesses, width)) if accesses else [],
        views=[each for each in list_views(page) if each.row.id in ids],
        own_findings=select_findings(page["findings"], "component", component.name),
        **_build_rights(console, system, component),
    )


@router.get("/systems/{system}/findings")
async def show_findings(
    request: Request,
    name: SystemName,
    console: CurrentConsole,
    explorer: CurrentExplorer,
    user: CurrentUser,
    severity: Annotated[str, Query()] = "",
) -> Response:
    """Show every finding of the design check with its remedy."""
    system = open_system(console, user, name)
    page = await build_page(explorer, system)
    shown = [each for each in page["findings"] if severity in ("", each.finding.severity)]
    return render(
        request,
        "explorer/findings.html",
        **page,
        shown=shown,
        severity=severity if severity in SEVERITY_CHOICES else "",
        counts=count_severities(page["findings"]),
    )


def _list_pages(console: Console, system: System) -> list[tuple[str, str]]:
    """Return the pages that the system adds to the console: title and address."""
    pages = console.pages.get(system.name)
    return [] if pages is None else [(each.title, f"/apps/{system.name}{each.path}") for each in pages.links]


def _show_broken(request: Request, name: SystemName, console: Console, user: User) -> Response:
    require_sight(user, name)
    return render(request, "explorer/broken.html", name=name, reason=console.broken[name])


def _build_flow(flow: Any) -> dict[str, Any]:
    """Return what the page shows of a flow."""
    return {
        "flow": flow,
        "drawing": draw_widths(lambda width: draw_flow(flow, width)),
        "columns": COLUMNS,
        "rows": [build_state_row(flow, state) for state in flow.states.values()],
    }


def _build_rights(console: Console, system: System, component: Component) -> dict[str, Any]:
    """Return the component's policies as JSON, and its SQL role; or why they cannot be derived."""
    try:
        policies = build_component_policies(system, component, environment=console.settings.environment)
        grants = build_component_grants(system, component)
    except HoldfastError as error:
        return {"policies": [], "grants": "", "role": "", "rights_error": error.message}
    return {
        "policies": [json.dumps(each, indent=2, ensure_ascii=False) for each in policies],
        "grants": grants,
        "role": get_role_name(system, component.name) if grants else "",
        "rights_error": "",
    }
