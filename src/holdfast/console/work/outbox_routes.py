"""The page of an outbox: its unsent messages; sending dead ones again, and discarding them."""

from __future__ import annotations

from typing import Annotated, Final

from holdfast.console.access import CurrentUser, require_role
from holdfast.console.audit_trail import audit_effect
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import redirect, render
from holdfast.console.users import OPERATOR
from holdfast.console.work.declared import build_url, find_outbox
from holdfast.console.work.page_context import hash_key, open_page
from holdfast.core.distribution import explain_missing
from holdfast.guarantees import OutboxStatus
from holdfast.reports.work.outboxes import may_have_messages

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import Response

MESSAGES_SHOWN: Final = 200

router = APIRouter()


@router.get("/outbox/{system}/{outbox}")
async def show_outbox(
    request: Request, system: str, outbox: str, console: CurrentConsole, user: CurrentUser, state: str = ""
) -> Response:
    """Show the unsent messages, oldest first."""
    page = open_page(request, console, user, system)
    found = find_outbox(page.system, outbox)
    can_read = may_have_messages(found, console.settings)
    unsent = await found.list_unsent(page.stores) if can_read else []
    chosen = [each for each in unsent if state in ("", each.status)]
    return render(
        request,
        "work/outbox.html",
        page=page,
        outbox=found,
        url=build_url("outbox", system, outbox),
        state=state,
        messages=chosen[:MESSAGES_SHOWN],
        total=len(chosen),
        pending=sum(each.status is OutboxStatus.PENDING for each in unsent),
        dead=sum(each.status is OutboxStatus.DEAD for each in unsent),
        queues={each.name for each in page.system.queues},
    )


@router.post("/outbox/{system}/{outbox}/redrive", dependencies=[require_role(OPERATOR)])
async def send_again(
    request: Request,
    system: str,
    outbox: str,
    console: CurrentConsole,
    user: CurrentUser,
    id: Annotated[str, Form()] = "",
    aggregate: Annotated[str, Form()] = "",
) -> Response:
    """Let the relay try dead messages again: one, those of an aggregate, or all."""
    page = open_page(request, console, user, system)
    found = find_outbox(page.system, outbox)
    chosen = {"id": id} if id else {"aggregate": hash_key(aggregate)} if aggregate else {}
    async with audit_effect(console, user, "send-again", system=system, target=outbox, **chosen) as effect:
        count = await found.redrive(page.stores, aggregate or None, ids=[id] if id else None)
        effect.note(count=count)
    console.live.publish(page.topic)
    if not count:
        return redirect(build_url("outbox", system, outbox), _NOTHING, "problem")
    words = "1 message is" if count == 1 else f"{count:,} messages are"
    return redirect(build_url("outbox", system, outbox), f"{words} pending again. The relay sends next.")


@router.post("/outbox/{system}/{outbox}/discard", dependencies=[require_role(OPERATOR)])
async def discard(
    request: Request,
    system: str,
    outbox: str,
    console: CurrentConsole,
    user: CurrentUser,
    id: Annotated[str, Form()],
) -> Response:
    """Give up one dead message for ever, so that those behind it are sent."""
    page = open_page(request, console, user, system)
    found = find_outbox(page.system, outbox)
    async with audit_effect(console, user, "discard", system=system, target=outbox, id=id) as effect:
        count = await found.discard(page.stores, [id])
        effect.note(discarded=count)
    console.live.publish(page.topic)
    if not count:
        return redirect(build_url("outbox", system, outbox), _NOTHING, "problem")
    return redirect(
        build_url("outbox", system, outbox), "The message was discarded. Those behind it are sent next."
    )


_NOTHING: Final = (
    "Nothing was changed: no such message is dead any more. Somebody was faster, or it was sent. The list "
    "shows what is there now."
)
