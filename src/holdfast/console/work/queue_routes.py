"""The pages of a queue: its messages, its groups, its dead letters; redriving and discarding dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from holdfast.console.access import CurrentUser, require_role
from holdfast.console.audit_trail import audit_effect
from holdfast.console.context import CurrentConsole
from holdfast.console.rendering import redirect, render
from holdfast.console.users import OPERATOR
from holdfast.console.work.declared import build_url, find_queue
from holdfast.console.work.messages import (
    MAX_MESSAGES,
    build_groups,
    build_message,
    discard,
    get_queues,
    peek,
    redrive,
)
from holdfast.console.work.page_context import WorkPage, hash_key, open_page
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import InvalidRequest
from holdfast.model.queues import Queue
from holdfast.operations.queues import IncomingMessage
from holdfast.reports.work.queue_states import read_queue_state

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import Response

MESSAGES_SHOWN: Final = 50

router = APIRouter()


_OPERATOR: Final = [require_role(OPERATOR)]


@router.get("/queues/{system}/{queue}")
async def show_messages(
    request: Request, system: str, queue: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show the oldest messages."""
    page = open_page(request, console, user, system)
    return await _show(request, page, find_queue(page.system, queue), "messages")


@router.get("/queues/{system}/{queue}/groups")
async def show_groups(
    request: Request, system: str, queue: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show the groups of a FIFO queue, and what holds each back."""
    page = open_page(request, console, user, system)
    return await _show(request, page, find_queue(page.system, queue), "groups")


@router.get("/queues/{system}/{queue}/dead")
async def show_dead_letters(
    request: Request, system: str, queue: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show the dead letters."""
    page = open_page(request, console, user, system)
    return await _show(request, page, find_queue(page.system, queue), "dead")


@router.post("/queues/{system}/{queue}", dependencies=_OPERATOR)
@router.post("/queues/{system}/{queue}/groups", dependencies=_OPERATOR)
@router.post("/queues/{system}/{queue}/dead", dependencies=_OPERATOR)
async def receive_messages(
    request: Request, system: str, queue: str, console: CurrentConsole, user: CurrentUser
) -> Response:
    """Show messages on an engine that cannot peek. Each one shown counts as received, so a form asks for it.

    It answers with the page itself: a reload asks the user before it receives them again.
    """
    page = open_page(request, console, user, system)
    found = find_queue(page.system, queue)
    part = request.scope["route"].path.rpartition("}")[2].removeprefix("/") or "messages"
    async with audit_effect(console, user, "receive", system=system, target=queue, part=part):
        return await _show(request, page, found, part, may_receive=True)


async def _show(
    request: Request, page: WorkPage, queue: Queue[Any], part: str, *, may_receive: bool = False
) -> Response:
    """Show one part of the page. On an engine that cannot peek, messages are read only with `may_receive`."""
    state = await read_queue_state(page.stores, queue, dead=False)
    has_dead = queue.max_receives is not None and state.exists
    dead = await read_queue_state(page.stores, queue, dead=True) if has_dead else None
    can_peek = get_queues(page.stores).can_peek
    is_read = state.exists and (part != "dead" or dead is not None) and (can_peek or may_receive)
    messages: Sequence[IncomingMessage] = (
        await peek(page.stores, queue, dead=part == "dead") if is_read else ()
    )
    now = page.stores.clock.now()
    return render(
        request,
        "work/queue.html",
        page=page,
        queue=queue,
        url=build_url("queues", page.system.name, queue.name),
        part=part,
        state=state,
        dead=dead,
        can_peek=can_peek,
        is_read=is_read,
        messages=[build_message(each, page.masker, now) for each in messages[:MESSAGES_SHOWN]],
        groups=build_groups(messages, page.masker, now) if queue.fifo else [],
        is_partial=len(messages) == MAX_MESSAGES,
    )


@router.post("/queues/{system}/{queue}/redrive", dependencies=[require_role(OPERATOR)])
async def redrive_dead_letters(
    request: Request,
    system: str,
    queue: str,
    console: CurrentConsole,
    user: CurrentUser,
    id: Annotated[str, Form()] = "",
    group: Annotated[str, Form()] = "",
) -> Response:
    """Move dead letters back: one by its id, those of a group, or all."""
    page = open_page(request, console, user, system)
    found = find_queue(page.system, queue)
    _require_dead_letters(found)
    chosen = {"id": id} if id else {"group": hash_key(group)} if group else {}
    async with audit_effect(console, user, "redrive", system=system, target=queue, **chosen) as effect:
        moved = await redrive(page.stores, found, id=id or None, group=group or None)
        effect.note(moved=moved)
    console.live.publish(page.topic)
    return redirect(_dead_url(system, queue), *_describe_moved(moved, bool(chosen)))


@router.post("/queues/{system}/{queue}/discard", dependencies=[require_role(OPERATOR)])
async def discard_dead_letter(
    request: Request,
    system: str,
    queue: str,
    console: CurrentConsole,
    user: CurrentUser,
    id: Annotated[str, Form()],
) -> Response:
    """Delete one dead letter."""
    page = open_page(request, console, user, system)
    found = find_queue(page.system, queue)
    _require_dead_letters(found)
    async with audit_effect(console, user, "discard", system=system, target=queue, id=id) as effect:
        count = await discard(page.stores, found, id)
        effect.note(discarded=count)
    console.live.publish(page.topic)
    if count:
        return redirect(
            _dead_url(system, queue), "The dead letter was discarded: it will never be processed."
        )
    return redirect(_dead_url(system, queue), _GONE, "problem")


_GONE: Final = (
    "Nothing was changed: the dead letter is not there any more, or a receiver holds it. The list shows what "
    "is there now."
)


def _require_dead_letters(queue: Queue[Any]) -> None:
    if queue.max_receives is None:
        raise InvalidRequest(
            f"The queue {queue.name} has no dead-letter queue: its messages are retried for ever."
        )


def _describe_moved(moved: int, is_selection: bool) -> tuple[str, Any]:
    """Return the notice about a redrive, and its kind."""
    if not moved:
        return (_GONE if is_selection else "Nothing was moved: there are no dead letters now."), "problem"
    words = "1 dead letter was" if moved == 1 else f"{moved:,} dead letters were"
    return f"{words} moved back to the queue. The workers process them next.", "done"


def _dead_url(system: str, queue: str) -> str:
    return build_url("queues", system, queue) + "/dead"
