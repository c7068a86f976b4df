"""The pages of the data browser: every group of routes, and the first page of all."""

from __future__ import annotations

from typing import Annotated

from holdfast.console.access import CurrentUser, require_role, require_sight
from holdfast.console.audit_trail import audit
from holdfast.console.browser import (
    edit_routes,
    history_routes,
    item_routes,
    object_routes,
    sql_routes,
    stream_routes,
    table_routes,
)
from holdfast.console.browser.catalog import load_system_data
from holdfast.console.browser.edits import hash_text
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import redirect, render
from holdfast.console.reveal import add_reveal_token, strip_reveal_token
from holdfast.console.users import PERSONAL
from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import InvalidRequest

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


@router.get("/data")
async def show_data(request: Request, console: CurrentConsole, user: CurrentUser) -> Response:
    """Show what every system stores."""
    seen = [stores for name, stores in console.stores.items() if user.can_see(name)]
    systems = await gather_or_cancel(load_system_data(each) for each in seen)
    return render(request, "browser/data.html", systems=systems, one=None)


@router.get("/data/{system}")
async def show_system(request: Request, console: CurrentConsole, user: CurrentUser, system: str) -> Response:
    """Show what one system stores."""
    require_sight(user, system)
    found = await load_system_data(console.get_stores(system))
    return render(request, "browser/data.html", systems=[found], one=found.system)


@router.post("/data/{system}/reveal", dependencies=[require_role(PERSONAL)])
async def reveal(
    request: Request, console: CurrentConsole, user: CurrentUser, system: str, target: Annotated[str, Form()]
) -> Response:
    """Show a page of the system with its personal data, for five minutes, and record that."""
    url = strip_reveal_token(target)
    if not url.startswith(f"/data/{system}/"):
        raise InvalidRequest("Invalid target: expected a page with the data of this system. Load it again.")
    path, _, query = url.partition("?")
    await audit(console, user, "reveal", system=system, target=f"{path} {hash_text(query)}".strip())
    return redirect(add_reveal_token(request, url))


for each in (
    sql_routes.router,
    object_routes.router,
    stream_routes.router,
    history_routes.router,
    edit_routes.router,
    item_routes.router,
    table_routes.router,
):
    router.include_router(each)
