"""The pages of breakers and of leases: both say who may act now, and since when."""

from __future__ import annotations

from holdfast.console.access import CurrentUser
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import render
from holdfast.console.work.circuits import build_view, read_circuits
from holdfast.console.work.declared import list_breakers, list_leases
from holdfast.console.work.dedicated_tables import has_own_table
from holdfast.console.work.lease_views import read_leases
from holdfast.console.work.page_context import open_page
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


@router.get("/breakers/{system}")
async def show_breakers(
    request: Request, system: str, console: CurrentConsole, user: CurrentUser, service: str = ""
) -> Response:
    """Show the circuits of each breaker; with `service`, those of this external service."""
    page = open_page(request, console, user, system)
    breakers = []
    for each in list_breakers(page.system):
        if service:
            circuit = await each.get_circuit(page.stores, service)
            circuits = [build_view(page.stores, each, circuit)]
        else:
            circuits = await read_circuits(page.stores, each)
        breakers.append((each, circuits, has_own_table(each.entity)))
    return render(request, "work/breakers.html", page=page, breakers=breakers, service=service)


@router.get("/leases/{system}")
async def show_leases(request: Request, system: str, console: CurrentConsole, user: CurrentUser) -> Response:
    """Show the leases of the system."""
    page = open_page(request, console, user, system)
    leases = [
        (each, await read_leases(page.stores, each), has_own_table(each.entity))
        for each in list_leases(page.system)
    ]
    return render(request, "work/leases.html", page=page, leases=leases)
