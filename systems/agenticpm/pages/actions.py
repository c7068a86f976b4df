"""The page of one action: what is sent where, why, and its review: approve, edit, cancel, reopen."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from agenticpm.api import action_reviews
from agenticpm.api.serializers import format_outcome
from agenticpm.domain.autonomy import MAIL
from agenticpm.model.entities import Action
from agenticpm.model.review_rules import EDITABLE_FIELDS
from agenticpm.pages.access import OPERATOR_ONLY, SYSTEM, CurrentReader, Reader
from agenticpm.pages.evidence import read_evidence
from agenticpm.pages.inbox import load_names
from agenticpm.workers.actions import SITE_KEY
from holdfast import Stores
from holdfast.console import (
    Console,
    CurrentConsole,
    CurrentUser,
    Effect,
    User,
    audit_effect,
    redirect,
    render,
)
from holdfast.core.errors import Conflict, InvalidRequest
from holdfast.guarantees import OnceStatus

GLOBAL_SCOPE: Final = "global"
MAX_REASON_CHARS: Final = 500
MAX_TEXT_CHARS: Final = 20_000
INBOX: Final = f"/apps/{SYSTEM}/inbox"


def build_action_pages(stores: Stores) -> APIRouter:
    """Build the page of an action and its reviews. Actions without a project are under `global`."""
    router = APIRouter(prefix="/projects/{scope}/actions/{id}")

    @router.get("")
    async def show_action(request: Request, reader: CurrentReader, scope: str, id: str) -> Response:
        action = await action_reviews.get_action(stores, _parse_scope(scope), id)
        names = await load_names(stores, [action])
        return render(
            request,
            "agenticpm/action.html",
            action=action,
            scope=scope,
            project=names.get(action.project_id),
            fields=_list_fields(action, reader),
            evidence=read_evidence(reader.mask((action.detail or {}).get("because"))),
            site=(action.detail or {}).get(SITE_KEY),
            title=reader.mask(action.description),
            outcome=reader.mask(format_outcome(action)),
            is_held=action.status is OnceStatus.HELD,
            is_refused=action.refused is not None,
            reader=reader,
        )

    @router.post("/approve", dependencies=[OPERATOR_ONLY])
    async def approve(
        console: CurrentConsole, user: CurrentUser, scope: str, id: str, revision: Annotated[int, Form()]
    ) -> Response:
        try:
            async with _audit_review(console, user, "approve", id):
                await action_reviews.approve(stores, _parse_scope(scope), id, by=user.name, revision=revision)
        except Conflict as error:
            return _explain(scope, id, error)
        return redirect(INBOX, "Approved. The agent does it at its next turn.")

    @router.post("/cancel", dependencies=[OPERATOR_ONLY])
    async def cancel(
        console: CurrentConsole,
        user: CurrentUser,
        scope: str,
        id: str,
        revision: Annotated[int, Form()],
        reason: Annotated[str, Form(max_length=MAX_REASON_CHARS)] = "",
    ) -> Response:
        said = reason.strip() or None
        try:
            async with _audit_review(console, user, "cancel", id):
                await action_reviews.cancel(
                    stores, _parse_scope(scope), id, by=user.name, reason=said, revision=revision
                )
        except Conflict as error:
            return _explain(scope, id, error)
        return redirect(INBOX, "Cancelled. The agent never does it.")

    @router.post("/edit", dependencies=[OPERATOR_ONLY])
    async def edit(
        request: Request, console: CurrentConsole, user: CurrentUser, scope: str, id: str
    ) -> Response:
        form = await request.form()
        given = {name: str(value) for name, value in form.items() if isinstance(value, str)}
        try:
            action = await action_reviews.get_action(stores, _parse_scope(scope), id)
            _check_seen(action, given)
            changed = _read_edit(action, given)
            if changed:
                async with _audit_review(console, user, "edit", id, changed=sorted(changed)):
                    await action_reviews.edit(stores, _parse_scope(scope), id, by=user.name, detail=changed)
        except (Conflict, InvalidRequest) as error:
            return _explain(scope, id, error)
        if not changed:
            return redirect(_format_page(scope, id), "Nothing was changed: the texts are the same.")
        return redirect(_format_page(scope, id), "Changed. It stays held until its time.")

    @router.post("/reopen", dependencies=[OPERATOR_ONLY])
    async def reopen(
        console: CurrentConsole, user: CurrentUser, scope: str, id: str, revision: Annotated[int, Form()]
    ) -> Response:
        try:
            async with _audit_review(console, user, "reopen", id):
                await action_reviews.reopen(stores, _parse_scope(scope), id, by=user.name, revision=revision)
        except Conflict as error:
            return _explain(scope, id, error)
        return redirect(_format_page(scope, id), "Reopened. The agent tries it again at its next turn.")

    return router


def _audit_review(
    console: Console, user: User, review: str, id: str, **details: Any
) -> AbstractAsyncContextManager[Effect]:
    """Record the intent of a review and its outcome around the block."""
    return audit_effect(console, user, review, system=SYSTEM, target=f"action {id}", **details)


def _parse_scope(scope: str) -> str | None:
    """Return the project id, or None for `global`."""
    return None if scope == GLOBAL_SCOPE else scope


def _format_page(scope: str, id: str) -> str:
    return f"/apps/{SYSTEM}/projects/{scope}/actions/{id}"


def _explain(scope: str, id: str, error: Conflict | InvalidRequest) -> Response:
    """Return to the action, which shows its present state, with the reason."""
    return redirect(_format_page(scope, id), error.message, "problem")


def _list_fields(action: Action, reader: Reader) -> list[dict[str, Any]]:
    """Return the fields of what is sent, and which of them may be edited."""
    detail = action.detail or {}
    may = EDITABLE_FIELDS.get(str(detail.get("kind")), ())
    hidden = ("because", "kind", SITE_KEY)
    # Nobody edits what they do not see: saving a mask would replace the text.
    is_whole = all(
        reader.mask(_format_field(detail.get(each))) == _format_field(detail.get(each)) for each in may
    )
    names = [*may, *(each for each in detail if each not in may and each not in hidden)]
    return [
        {
            "name": name,
            "label": name.replace("_", " ").capitalize(),
            "value": reader.mask(_format_field(detail.get(name))),
            "is_editable": name in may and is_whole,
            "is_long": name == "text",
        }
        for name in names
    ]


def _format_field(value: Any) -> str:
    """Return a field as text; the recipients of a mail one after the other."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _check_seen(action: Action, given: Mapping[str, str]) -> None:
    """Raise `Conflict` if the action was changed since the form was shown."""
    if given.get("seen") != action.payload_sha256:
        raise Conflict(
            "Somebody changed this action after you opened it. Your text was not saved: see what it says now."
        )


def _read_edit(action: Action, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the form that differ from the action. Raise `InvalidRequest` for a text that is
    too long.
    """
    detail = action.detail or {}
    kind = str(detail.get("kind"))
    changed: dict[str, Any] = {}
    for name in EDITABLE_FIELDS.get(kind, ()):
        text = given.get(name, "").replace("\r\n", "\n")
        if len(text) > MAX_TEXT_CHARS:
            raise InvalidRequest(f"Invalid {name}: expected at most {MAX_TEXT_CHARS} characters.")
        if text.strip() != _format_field(detail.get(name)).strip():
            is_list = kind == MAIL and name == "to"
            changed[name] = [each.strip() for each in text.split(",") if each.strip()] if is_list else text
    return changed
