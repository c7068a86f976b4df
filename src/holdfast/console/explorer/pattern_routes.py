"""The pages of access patterns: the list, and one pattern with the form that runs it.

A read runs by its address, so that a result can be linked and the back button works. A write runs by a post
that the user confirmed, and the page that follows shows what it returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode

from holdfast.console.access import CurrentUser, require_role
from holdfast.console.audit_trail import audit, audit_effect
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.explorer.arguments import (
    DEFAULT_LIMIT,
    LIMITS,
    PREFIX,
    PatternForm,
    build_form,
)
from holdfast.console.explorer.context import CurrentExplorer, Explorer
from holdfast.console.explorer.navigation import SystemUrls
from holdfast.console.explorer.pages import SystemName, build_page, list_views, open_system
from holdfast.console.explorer.pattern_rows import STORES, PatternFilter, PatternView, list_resource_names
from holdfast.console.explorer.runs import Run, run_pattern
from holdfast.console.masking import Masker
from holdfast.console.rendering import redirect, render
from holdfast.console.reveal import PARAMETER, add_reveal_token, is_revealed, strip_reveal_token
from holdfast.console.users import EDITOR, PERSONAL, User
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.patterns import Pattern
from holdfast.model.sql import SqlOperation
from holdfast.model.system import System
from holdfast.reports.docs.declaration_text import format_signature
from holdfast.runtime.json_calls.arguments import CURSOR

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Depends, Form
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

LIMIT: Final = "limit"
RESULT_ANCHOR: Final = "#result"


def read_filter(
    q: str = "", store: str = "", component: str = "", kind: str = "", table: str = ""
) -> PatternFilter:
    """Return what the user searches for: a dependency."""
    return PatternFilter(q.strip(), store, component, kind, table)


@router.get("/systems/{system}/patterns")
async def show_patterns(
    request: Request,
    name: SystemName,
    console: CurrentConsole,
    explorer: CurrentExplorer,
    user: CurrentUser,
    chosen: Annotated[PatternFilter, Depends(read_filter)],
) -> Response:
    """Show every access pattern, or those that the user searches for."""
    system = open_system(console, user, name)
    page = await build_page(explorer, system)
    views = list_views(page)
    return render(
        request,
        "explorer/patterns.html",
        **page,
        views=chosen.select(views),
        chosen=chosen,
        stores={key: title for key, title in STORES.items() if any(each.row.store == key for each in views)},
        resource_names=list_resource_names(views),
    )


@router.get("/systems/{system}/patterns/{id:path}")
async def show_pattern(
    request: Request,
    name: SystemName,
    id: str,
    console: CurrentConsole,
    explorer: CurrentExplorer,
    user: CurrentUser,
) -> Response:
    """Show one pattern; with `run`, its result for these arguments; with `result`, a result that was kept."""
    system = open_system(console, user, name)
    pattern = _get_pattern(system, id)
    form = build_form(pattern, system.admin.arguments)
    texts, run = dict(request.query_params), None
    note, revealed = "", is_revealed(request, user, name)
    if "result" in texts:
        run, note = _find_kept(explorer, user, texts["result"])
        form = form if run is None else form.fill(run.arguments)
    elif "run" in texts and not form.writes and not form.refused:
        form, run = await _run(console, form, system, texts, revealed)
    else:
        form = form.fill_texts(texts)
    if run is not None:
        run = run.show(Masker.for_system(system, is_revealed=revealed))
    return await _render_pattern(request, explorer, system, form, run, texts, note)


@router.post("/systems/{system}/patterns/{id:path}/run", dependencies=[require_role(EDITOR)])
async def run_write(
    request: Request,
    name: SystemName,
    id: str,
    console: CurrentConsole,
    explorer: CurrentExplorer,
    user: CurrentUser,
) -> Response:
    """Run a pattern that writes, once, and lead to its result."""
    system = open_system(console, user, name)
    pattern = _get_pattern(system, id)
    texts = {key: str(value) for key, value in (await request.form()).items()}
    form, given = build_form(pattern, system.admin.arguments).read_form(texts)
    if form.refused or form.problems or "confirmed" not in texts:
        return await _render_pattern(request, explorer, system, form, None, texts, "")
    target, names = pattern.id, sorted(given)
    async with audit_effect(
        console, user, "run-pattern", system=name, target=target, arguments=names
    ) as effect:
        run = await run_pattern(console.get_stores(name), form, given, {})
        if run.error:
            effect.fail("the pattern failed")
    result = explorer.results.keep(user.name, run)
    url = f"{SystemUrls(system).get_pattern(pattern)}?result={result}{RESULT_ANCHOR}"
    if run.error:
        return redirect(url, f"{pattern.id} failed: the reason is below.", "problem")
    return redirect(url, f"{pattern.id} ran.")


@router.post("/systems/{system}/patterns/{id:path}/reveal", dependencies=[require_role(PERSONAL)])
async def reveal(
    request: Request,
    name: SystemName,
    id: str,
    console: CurrentConsole,
    user: CurrentUser,
    target: Annotated[str, Form()],
) -> Response:
    """Lead back to a result that shows personal data for five minutes, and record that."""
    system = open_system(console, user, name)
    pattern = _get_pattern(system, id)
    url = strip_reveal_token(target)
    if url.partition("?")[0] != SystemUrls(system).get_pattern(pattern):
        raise InvalidRequest("Invalid target: expected a result of this pattern. Load it again.")
    names = [
        key.removeprefix(PREFIX) for key, _ in parse_qsl(url.partition("?")[2]) if key.startswith(PREFIX)
    ]
    await audit(console, user, "reveal", system=name, target=pattern.id, arguments=sorted(names))
    return redirect(f"{add_reveal_token(request, url)}{RESULT_ANCHOR}")


async def _run(
    console: Console, form: PatternForm, system: System, texts: Mapping[str, str], with_bytes: bool
) -> tuple[PatternForm, Run | None]:
    """Return the filled form, and the result of the read unless an argument is wrong."""
    form, given = form.read_form(texts)
    if form.problems:
        return form, None
    stores, added = console.get_stores(system.name), _read_added(form, texts)
    return form, await run_pattern(stores, form, given, added, with_bytes=with_bytes)


def _read_added(form: PatternForm, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the limit and the cursor, as far as the pattern takes them."""
    names = {*form.added_names, *((CURSOR,) if form.takes_cursor else ())}
    found = {name: texts[name] for name in names if texts.get(name)}
    if LIMIT in form.added_names:
        found.setdefault(LIMIT, str(DEFAULT_LIMIT))
    return found


def _find_kept(explorer: Explorer, user: User, id: str) -> tuple[Run | None, str]:
    """Return a result that was kept, or why it is not there."""
    run = explorer.results.find(user.name, id)
    gone = "This result is not kept any more. What it did is done; run the pattern again to read once more."
    return run, "" if run is not None else gone


def _get_pattern(system: System, id: str) -> Pattern[..., Any]:
    """Return a pattern by its id."""
    for each in system.patterns:
        if each.id == id:
            return each
    raise NotFound(f"{system.title or system.name} has no pattern {id!r}: the list shows those that it has.")


async def _render_pattern(
    request: Request,
    explorer: Explorer,
    system: System,
    form: PatternForm,
    run: Run | None,
    texts: Mapping[str, str],
    note: str,
) -> Response:
    page = await build_page(explorer, system)
    view = next(each for each in list_views(page) if each.row.id == form.pattern.id)
    return render(
        request,
        "explorer/pattern.html",
        **page,
        view=view,
        form=form,
        signature=format_signature(form.pattern),
        statements=_list_statements(view),
        limits=LIMITS,
        limit=texts.get(LIMIT) or str(DEFAULT_LIMIT),
        run=run,
        note=note,
        environment=request.app.state.console.settings.environment,
        next_url=_build_next_url(view, form, run, texts),
        target=strip_reveal_token(f"{request.url.path}?{request.url.query}"),
    )


def _build_next_url(view: PatternView, form: PatternForm, run: Run | None, texts: Mapping[str, str]) -> str:
    """Return the address of the next page of a read; empty after the last, and for a kept result."""
    if run is None or run.cursor is None or "run" not in texts or not form.takes_cursor:
        return ""
    query = {key: value for key, value in texts.items() if key not in (CURSOR, PARAMETER)}
    query[CURSOR] = run.cursor
    return f"{view.url}?{urlencode(query)}{RESULT_ANCHOR}"


def _list_statements(view: PatternView) -> list[str]:
    """Return the SQL that the pattern runs."""
    return [part.text.strip() for part in view.example.parts if isinstance(part, SqlOperation)]
