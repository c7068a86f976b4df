"""Revealing the personal data of a work page: recorded, then shown for some minutes at the page's address."""

from __future__ import annotations

from typing import Annotated

from holdfast.console.access import CurrentUser, require_role, require_sight
from holdfast.console.audit_trail import audit
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import redirect
from holdfast.console.reveal import add_reveal_token, strip_reveal_token
from holdfast.console.users import PERSONAL
from holdfast.console.work.page_context import hash_key
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import InvalidRequest

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import Response

# The parts of a path that name a page: `/flows/tripcortex/booking`, but `/why/tripcortex`. The rest is a key.
PAGE_PARTS = 4
WHY_PARTS = 3

# The data browser and the model explorer record what they reveal themselves.
PAGES = ("actions", "apps", "breakers", "flows", "leases", "outbox", "queues", "why")

router = APIRouter()


@router.post("/reveal/{system}", dependencies=[require_role(PERSONAL)])
async def reveal(
    request: Request, system: str, console: CurrentConsole, user: CurrentUser, page: Annotated[str, Form()]
) -> Response:
    """Record that the user reveals a page of a system, and lead back to it."""
    require_sight(user, system)
    address = strip_reveal_token(page)
    parts = address.partition("?")[0].split("/")
    is_page = len(parts) > 2 and not parts[0] and parts[1] in PAGES
    if not is_page or parts[2] != system or "\\" in address:
        raise InvalidRequest(f"Invalid page {page!r:.100}: expected the path of a page of {system}.")
    named = WHY_PARTS if parts[1] == "why" else PAGE_PARTS
    key = "/".join(parts[named:]) + address.partition("?")[2]
    target = "/".join(parts[:named]) + (f"/{hash_key(key)}" if key else "")
    await audit(console, user, "reveal", system=system, target=target)
    return redirect(add_reveal_token(request, address))
