"""What operators do with requests and deliveries: replay, cancel, hold, lift, resend.

Each action is recorded by the console and by the gateway's own audit log, and answers with a redirect to the
page that it came from. A form carries what its user saw, so that one of two users who act at once learns of
the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Form
from starlette.responses import Response

from holdfast import Stores
from holdfast.console import Console, CurrentConsole, CurrentUser, User, audit_effect, redirect
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest, NotFound
from pagw.api.cancellation import cancel
from pagw.api.explain import get_request
from pagw.domain.fhir.outcomes import FhirRefused
from pagw.model.audit import Actor
from pagw.ops import legal_holds, redelivery, request_replay
from pagw.ops.redelivery import any_delivery
from pagw.pages.access import OPERATOR_ONLY, ROOT, SYSTEM

CHANGED: Final = (
    "Nothing was done: the request changed after you opened the page. See what it is now, and decide again."
)
FormId = Annotated[str, Form(max_length=120)]
FormBack = Annotated[str, Form(max_length=500)]


def build_action_routes(stores: Stores) -> APIRouter:
    """Build the forms' targets."""
    router = APIRouter(dependencies=[OPERATOR_ONLY])

    @router.post("/requests/replay")
    async def replay_request(
        console: CurrentConsole,
        user: CurrentUser,
        id: FormId,
        seen: Annotated[str, Form()],
        back: FormBack = "",
    ) -> Response:
        async def work() -> str:
            stage = await request_replay.replay(stores, id, _get_actor(user), seen=_parse_seen(seen))
            return f"Replayed: {id} goes to {stage.service} again."

        return await _act_on_request(stores, console, user, "replay", id, back, work)

    @router.post("/requests/cancel")
    async def cancel_request(
        console: CurrentConsole, user: CurrentUser, id: FormId, back: FormBack = ""
    ) -> Response:
        async def work() -> str:
            request = await get_request(stores, id)
            await cancel(stores, request.tenant, id, _get_actor(user))
            return f"Cancelled: {id} never reaches its payer. Its client is notified."

        return await _act_on_request(stores, console, user, "cancel", id, back, work)

    @router.post("/requests/hold")
    async def hold_request(
        console: CurrentConsole,
        user: CurrentUser,
        id: FormId,
        reason: Annotated[str, Form()],
        back: FormBack = "",
    ) -> Response:
        async def work() -> str:
            held = await legal_holds.place_hold(stores, id, reason, _get_actor(user))
            return f"On hold: {id} and {held} files are kept beyond their retention."

        return await _act_on_request(stores, console, user, "hold", id, back, work)

    @router.post("/requests/lift")
    async def lift_hold(
        console: CurrentConsole, user: CurrentUser, id: FormId, back: FormBack = ""
    ) -> Response:
        async def work() -> str:
            freed = await legal_holds.lift_hold(stores, id, _get_actor(user))
            return f"Lifted: {id} and {freed} files follow their retention again."

        return await _act_on_request(stores, console, user, "lift", id, back, work)

    @router.post("/deliveries/resend")
    async def resend(console: CurrentConsole, user: CurrentUser, id: FormId, back: FormBack = "") -> Response:
        async def check() -> None:
            if await stores.run(any_delivery(id)) is None:
                raise NotFound("Unknown delivery: it was removed with its request.")

        async def work() -> str:
            await redelivery.resend(stores, id, _get_actor(user))
            return "Sent again: the notification waits for its first attempt, under the same id."

        return await _act(console, user, "resend", f"delivery {id}", back, check, work)

    return router


def _get_actor(user: User) -> Actor:
    """Return the user as the actor of an event in the gateway's audit log."""
    return Actor("user", user.name[:100])


def _parse_seen(text: str) -> datetime:
    """Return the time of the last change that the user saw. Raise `InvalidRequest` if it is not one."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("Invalid form: load the page again, and repeat what you did.") from None


async def _act_on_request(
    stores: Stores,
    console: Console,
    user: User,
    action: str,
    id: str,
    back: str,
    work: Callable[[], Awaitable[str]],
) -> Response:
    """Carry out an action on a request that exists."""

    async def check() -> None:
        await get_request(stores, id)

    return await _act(console, user, action, f"request {id}", back, check, work)


async def _act(
    console: Console,
    user: User,
    action: str,
    target: str,
    back: str,
    check: Callable[[], Awaitable[None]],
    work: Callable[[], Awaitable[str]],
) -> Response:
    """Carry out an action and record it, and return to its page with what happened. `check` comes first, so
    that the record names only what exists.
    """
    page = back if back.startswith(f"{ROOT}/") and "\\" not in back else f"{ROOT}/worklist"
    try:
        await check()
        async with audit_effect(console, user, action, system=SYSTEM, target=target):
            notice = await work()
    except ConditionFailed:
        return redirect(page, CHANGED, "problem")
    except (Conflict, InvalidRequest, NotFound, FhirRefused) as error:
        return redirect(page, error.message, "problem")
    return redirect(page, notice)
