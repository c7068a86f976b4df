"""The pages of delayed actions: the list by state, and one action with approve, edit, cancel and reopen.

A decision carries the revision of the action that the page showed. If somebody was faster, nothing is done,
and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from holdfast.console.access import CurrentUser, require_role
from holdfast.console.audit_trail import audit_effect
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import redirect, render
from holdfast.console.users import OPERATOR, User
from holdfast.console.work.action_views import (
    STATES,
    build_fields,
    build_row,
    describe_state,
    list_facts,
    parse_edit,
)
from holdfast.console.work.declared import build_url, find_actions
from holdfast.console.work.page_context import WorkPage, hash_key, open_page
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import ConditionFailed, InvalidRequest, NotPending
from holdfast.guarantees import OUTCOME_UNKNOWN, DelayedAction, DelayedActions, OnceStatus
from holdfast.guarantees.delayed_actions.inspection import list_queued, search_ended

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import Response

DECISIONS: Final = {
    "approve": "Approved: the action is due now, and a worker runs it next.",
    "edit": "Saved. The action still waits until it is due.",
    "cancel": "Cancelled: the action will never run.",
    "reopen": "Reopened: the action is due now, and a worker runs it next.",
}
_STATUSES: Final = {
    "": (),
    "held": (OnceStatus.HELD,),
    "due": (OnceStatus.HELD,),
    "running": (OnceStatus.PROCESSING,),
    "failed": (OnceStatus.FAILED,),
}

router = APIRouter()


@router.get("/actions/{system}/{name}")
async def show_actions(
    request: Request,
    system: str,
    name: str,
    console: CurrentConsole,
    user: CurrentUser,
    state: str = "",
    after: str = "",
) -> Response:
    """Show delayed actions by state, those that are due first."""
    page = open_page(request, console, user, system)
    actions = find_actions(page.system, name)
    if state not in STATES:
        raise InvalidRequest(f"Invalid state {state!r:.40}: expected one of {', '.join(STATES)[2:]}.")
    if state == "ended":
        found = await search_ended(actions, page.stores, after or None)
    else:
        found = await list_queued(actions, page.stores, after=after or None, statuses=_STATUSES[state])
    now = page.stores.now()
    rows = [build_row(actions, each, page.masker, system, now) for each in found]
    if state in ("held", "due"):
        wanted = "due" if state == "due" else "waiting"
        rows = [each for each in rows if each.state == wanted]
    return render(
        request,
        "work/actions.html",
        page=page,
        actions=actions,
        url=build_url("actions", system, name),
        state=state,
        states=STATES,
        rows=rows,
        cursor=found.cursor,
        examined=found.examined,
    )


@router.get("/actions/{system}/{name}/{key:path}")
async def show_action(
    request: Request, system: str, name: str, key: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show one action: what it would do, when, who decided what, and how it ended."""
    page = open_page(request, console, user, system)
    actions = find_actions(page.system, name)
    record = await actions.get(page.stores, key)
    state, kind = describe_state(record, page.stores.now())
    url = build_url("actions", system, name, key)
    facts = list_facts(actions, record, page.masker)
    return render(
        request,
        "work/action.html",
        page=page,
        actions=actions,
        record=record,
        url=url,
        # With the token of a reveal, which lets an edit see what it replaces.
        form_url=f"{url}?{request.url.query}" if page.is_revealed else url,
        list_url=build_url("actions", system, name),
        state=state,
        kind=kind,
        facts=facts,
        fields=build_fields(actions, record, page.masker, _get_edited(actions)),
        is_held=record.status is OnceStatus.HELD,
        is_refused=record.refused is not None,
        is_unknown=record.refused == OUTCOME_UNKNOWN,
        why_id=str(getattr(record, "id", "")) if page.system.admin.why else "",
    )


@router.post("/actions/{system}/{name}/{key:path}", dependencies=[require_role(OPERATOR)])
async def decide(
    request: Request,
    system: str,
    name: str,
    key: str,
    console: CurrentConsole,
    user: CurrentUser,
    decision: Annotated[str, Form()],
    revision: Annotated[int, Form()],
    reason: Annotated[str, Form()] = "",
) -> Response:
    """Approve, edit, cancel or reopen an action, if it is still as the page showed it."""
    if decision not in DECISIONS:
        raise InvalidRequest(f"Invalid decision {decision!r:.40}: expected one of {', '.join(DECISIONS)}.")
    page = open_page(request, console, user, system)
    actions = find_actions(page.system, name)
    url = build_url("actions", system, name, key)
    record = await actions.get(page.stores, key)
    if record.revision != revision:
        return redirect(url, _describe_race(record), "problem")
    target = f"{name}/{hash_key(key)}"
    try:
        given = await _read_form(request, page, actions, record, decision, reason.strip())
        async with audit_effect(console, user, decision, system=system, target=target):
            await _apply(page, actions, record, user, decision, given)
    except (ConditionFailed, NotPending) as lost:
        return redirect(url, f"Your decision was not made. {lost.message}", "problem")
    except InvalidRequest as refused:
        return redirect(url, f"Your decision was not made. {refused.message}", "problem")
    console.live.publish(page.topic)
    return redirect(url, DECISIONS[decision])


async def _read_form(
    request: Request,
    page: WorkPage,
    actions: DelayedActions[Any],
    record: DelayedAction,
    decision: str,
    reason: str,
) -> dict[str, Any]:
    """Return what the form adds to the decision. Raise `InvalidRequest` for what is missing or invalid."""
    if decision == "cancel":
        if not reason:
            raise InvalidRequest("Missing reason: say in a few words why the action must not run.")
        return {"reason": reason}
    if decision != "edit":
        return {}
    form = await request.form()
    given = {each.removeprefix("field-"): str(value) for each, value in form.items()}
    return parse_edit(record, build_fields(actions, record, page.masker, _get_edited(actions)), given)


async def _apply(
    page: WorkPage,
    actions: DelayedActions[Any],
    record: DelayedAction,
    user: User,
    decision: str,
    given: dict[str, Any],
) -> None:
    """Make the decision in the user's name."""
    if decision == "approve":
        await actions.approve(page.stores, record, by=user.name)
    elif decision == "reopen":
        await actions.reopen(page.stores, record, by=user.name)
    elif decision == "cancel":
        await actions.cancel(page.stores, record, by=user.name, **given)
    else:
        await actions.edit(page.stores, record, by=user.name, **given)


def _get_edited(actions: DelayedActions[Any]) -> Sequence[str]:
    """Return the attributes that a person edits: the declared payload, which says what the action does."""
    return tuple(name for name in actions.payload if name in actions.editable)


def _describe_race(record: DelayedAction) -> str:
    who = f" by {record.reviewed_by}" if record.reviewed_by else ""
    return (
        f"Your decision was not made: the action was changed{who} since this page showed it. This is how it "
        "is now. Look at it, and decide again."
    )
