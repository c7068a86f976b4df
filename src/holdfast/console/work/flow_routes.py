"""The pages of a flow: its executions by state, one item's timeline, its diagram; resuming what is parked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from holdfast.console.access import CurrentUser, require_role
from holdfast.console.audit_trail import audit_effect
from holdfast.console.context import CurrentConsole
from holdfast.console.explorer.diagrams import draw_flow, draw_widths
from holdfast.console.rendering import redirect, render
from holdfast.console.users import OPERATOR
from holdfast.console.work.action_views import format_text, to_plain
from holdfast.console.work.declared import build_url, find_flow
from holdfast.console.work.executions import (
    Waiting,
    build_timeline,
    describe_wait,
    read_executions,
    read_item,
)
from holdfast.console.work.page_context import WorkPage, hash_key, open_page
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import NotFound
from holdfast.flows import Execution, Flow, FlowItem
from holdfast.flows.item import FLOW_NAMES
from holdfast.model.entities import get_declaration
from holdfast.reports.docs.flows import COLUMNS, build_state_row

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import Response

EXECUTIONS_SHOWN: Final = 100
PARKED: Final = "parked"

router = APIRouter()


@dataclass(frozen=True)
class ExecutionRow:
    """An execution in the list, with its address, and what it waits for."""

    execution: Execution
    url: str
    waiting: Waiting | None
    problem: str


@router.get("/flows/{system}/{flow}")
async def show_flow(
    request: Request,
    system: str,
    flow: str,
    console: CurrentConsole,
    user: CurrentUser,
    state: str = "",
    key: str = "",
) -> Response:
    """Show the executions of a flow, the longest in its state first; with `key`, lead to one item."""
    page = open_page(request, console, user, system)
    declared = find_flow(page.system, flow)
    if key.strip():
        return redirect(build_url("flows", system, flow, "items", key.strip()))
    found = await read_executions(page.stores, declared)
    chosen = [each for each in found.executions if _is_chosen(each, state)]
    chosen.sort(key=lambda each: not each.is_parked)
    rows = await asyncio.gather(*(_build_row(page, declared, each) for each in chosen[:EXECUTIONS_SHOWN]))
    counts = {name: 0 for name in declared.states if not declared.get_state(name).is_end}
    for each in found.executions:
        counts[each.state] = counts.get(each.state, 0) + 1
    return render(
        request,
        "work/flow.html",
        page=page,
        flow=declared,
        url=build_url("flows", system, flow),
        state=state,
        counts=counts,
        rows=rows,
        total=len(chosen),
        all=len(found.executions),
        parked=sum(each.is_parked for each in found.executions),
        is_partial=found.is_partial,
        at=page.stores.now(),
    )


@router.get("/flows/{system}/{flow}/diagram")
async def show_diagram(
    request: Request, system: str, flow: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show the states of a flow, what happens in each, and where it leads."""
    page = open_page(request, console, user, system)
    declared = find_flow(page.system, flow)
    found = await read_executions(page.stores, declared)
    counts: dict[str, int] = {}
    for each in found.executions:
        counts[each.state] = counts.get(each.state, 0) + 1
    return render(
        request,
        "work/flow_diagram.html",
        page=page,
        flow=declared,
        url=build_url("flows", system, flow),
        drawing=draw_widths(lambda width: draw_flow(declared, width)),
        columns=COLUMNS,
        rows=[(state.name, build_state_row(declared, state)) for state in declared.states.values()],
        counts=counts,
        mermaid=declared.draw_diagram(),
    )


@router.get("/flows/{system}/{flow}/items/{key:path}")
async def show_item(
    request: Request, system: str, flow: str, key: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show one item's timeline, what it waits for, and its attributes."""
    page = open_page(request, console, user, system)
    declared = find_flow(page.system, flow)
    execution = await page.stores.run(declared.pattern_set.execution(key))
    item = await read_item(page.stores, declared, key)
    if item is None and execution is None:
        raise NotFound(
            f"No {declared.entity.__name__} has the key {key!r:.80} in the flow {flow}. The list shows those "
            "that run."
        )
    state = item.flow_state if item is not None else execution.state if execution is not None else ""
    now = page.stores.now()
    attributes, is_masked = ([], False) if item is None else _list_attributes(page, item)
    return render(
        request,
        "work/flow_item.html",
        page=page,
        flow=declared,
        key=key,
        url=build_url("flows", system, flow, "items", key),
        list_url=build_url("flows", system, flow),
        execution=execution,
        item=item,
        state=state,
        has_ended=item is not None and execution is None,
        timeline=None if item is None else build_timeline(declared, item, execution, now),
        waiting=_describe_masked_wait(page, declared, item, state),
        attributes=attributes,
        is_masked=is_masked,
        problem=_format_problem(page, execution),
        why_id=key.rpartition("#")[2] if page.system.admin.why else "",
    )


@router.post("/flows/{system}/{flow}/resume", dependencies=[require_role(OPERATOR)])
async def resume(
    request: Request,
    system: str,
    flow: str,
    console: CurrentConsole,
    user: CurrentUser,
    key: Annotated[str, Form()] = "",
) -> Response:
    """Let a worker try again what is parked: one item, or all of them."""
    page = open_page(request, console, user, system)
    declared = find_flow(page.system, flow)
    chosen = {"key": hash_key(key)} if key else {}
    async with audit_effect(console, user, "resume", system=system, target=flow, **chosen) as effect:
        count = await declared.resume(page.stores, key or None)
        effect.note(resumed=count)
    console.live.publish(page.topic)
    url = build_url("flows", system, flow, "items", key) if key else build_url("flows", system, flow)
    if not count:
        return redirect(url, "Nothing was resumed: somebody was faster, or nothing is parked.", "problem")
    words = "1 execution was" if count == 1 else f"{count:,} executions were"
    return redirect(url, f"{words} resumed. A worker continues next.")


def _is_chosen(execution: Execution, state: str) -> bool:
    """Return whether the execution passes the filter."""
    return state in ("", execution.state) or (state == PARKED and execution.is_parked)


async def _build_row(page: WorkPage, flow: Flow[Any], execution: Execution) -> ExecutionRow:
    """Return the row of an execution; the item is read only where it says who is asked."""
    wait = describe_wait(flow, None, execution.state)
    item = await read_item(page.stores, flow, execution.key) if wait is not None else None
    url = build_url("flows", page.system.name, flow.name, "items", execution.key)
    waiting = _describe_masked_wait(page, flow, item, execution.state)
    return ExecutionRow(execution, url, waiting, _format_problem(page, execution))


def _describe_masked_wait(
    page: WorkPage, flow: Flow[Any], item: FlowItem | None, state: str
) -> Waiting | None:
    """Return what an item waits for; who is asked is masked like any other text."""
    found = describe_wait(flow, item, state)
    if found is None:
        return None
    asked = str(page.masker.mask("answered_by", found.answered_by))
    return Waiting(found.name, found.answers, asked, found.deadline, found.then)


def _format_problem(page: WorkPage, execution: Execution | None) -> str:
    """Return why an execution is parked, or its last failure; empty without one."""
    if execution is None:
        return ""
    said = f"{execution.parked_for}: {execution.parked}" if execution.is_parked else execution.error or ""
    return str(page.masker.mask("error", said))


def _list_attributes(page: WorkPage, item: FlowItem) -> tuple[list[tuple[str, Any, str]], bool]:
    """Return the item's attributes as name, value and kind, without the flow's own; and whether any of them
    is masked.
    """
    key = get_declaration(type(item)).primary.attribute_names
    found: list[tuple[str, Any, str]] = []
    is_masked = False
    for name in type(item).model_fields:
        value = getattr(item, name)
        if name in FLOW_NAMES or value is None or value in ([], {}):
            continue
        plain = to_plain(value)
        shown = page.masker.mask(name, plain, is_key=name in key)
        is_masked = is_masked or shown != plain
        if isinstance(value, datetime) and shown == plain:
            found.append((name, value, "time"))
            continue
        text = format_text(shown)
        found.append((name, text, "block" if "\n" in text else "text"))
    return found, is_masked
