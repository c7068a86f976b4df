"""Why something happened: the search for an id, and the explanation as a page with links."""

from __future__ import annotations

import json
from typing import Any

from holdfast.console.access import CurrentUser
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import redirect, render
from holdfast.console.work.declared import build_url
from holdfast.console.work.explanations import find_links, list_candidates, search, split_line
from holdfast.console.work.page_context import open_page
from holdfast.core.distribution import explain_missing
from holdfast.reports.work.explanations import explain

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()


@router.get("/why")
async def find_explanation(
    request: Request, console: CurrentConsole, user: CurrentUser, id: str = "", system: str = ""
) -> Response:
    """Lead to the explanation of an id, or show which systems know it."""
    id = id.strip()
    seen = {name: each for name, each in console.stores.items() if user.can_see(name)}
    asked = {name: each for name, each in seen.items() if system in ("", name)}
    found = await search(asked, id) if id else None
    if found is not None and len(found.known_by) == 1:
        return redirect(build_url("why", found.known_by[0], id))
    explaining = [each for each in console.systems if each.name in seen and each.admin.why is not None]
    return render(request, "work/why_search.html", id=id, chosen=system, systems=explaining, found=found)


@router.get("/why/{system}/{id:path}")
async def show_explanation(
    request: Request, system: str, id: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show why something happened, masked, with links to what it names."""
    page = open_page(request, console, user, system)
    explanation = await explain(page.stores, id)
    links = await find_links(page.stores, console.settings, id, list_candidates(explanation, id))
    shown = [str(page.masker.mask("line", each)) for each in explanation.lines]
    links = {each: url for each, url in links.items() if any(each in line for line in shown)}
    data = json.loads(json.dumps(explanation.data, default=_to_json))
    masked = page.masker.mask("data", data)
    return render(
        request,
        "work/why.html",
        page=page,
        id=id,
        lines=[split_line(each, links) for each in shown],
        links=links,
        data=masked,
        is_masked=shown != list(explanation.lines) or masked != data,
    )


def _to_json(value: Any) -> Any:
    """Return the data of a document or an entity, anything else as text."""
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else str(value)
