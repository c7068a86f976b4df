"""What operators do with requests and deliveries: replay, cancel, hold, lift, resend.

Each action is recorded by the console and by the gateway's own audit log, and answers with a redirect to the
page that it came from. A form carries what its user saw, so that one of two users who act at once learns of
the other.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Form
from starlette.responses import Response

from holdfast import Stores
from holdfast.console import CurrentConsole, CurrentUser, User, audit_effect, redirect
from holdfast.core.errors import ConditionFailed, Conflict, HoldfastError, InvalidRequest, NotFound
from pagw.api.cancellation import cancel
from pagw.api.explain import get_request
from pagw.domain.fhir.outcomes import FhirRefused
from pagw.model.audit import Actor
from pagw.ops import legal_holds, redelivery, request_replay
from pagw.pages.access import OPERATOR_ONLY, ROOT, SYSTEM

CHANGED: Final = (
    "Nothing was done: the request changed after you opened the page. See what it is now, and decide again."
)
# What an action refuses: its page then says why.
REFUSALS: Final = (Conflict, InvalidRequest, NotFound, FhirRefused)
MAX_ACTOR_CHARS: Final = 100
FormId = Annotated[str, Form(max_length=120)]
FormBack = Annotated[str, Form(max_length=500)]


def build_action_routes(stores: Stores) -> APIRouter:
    """Build the forms' targets. Each checks that the request exists before it records what it intends."""
    router = APIRouter(dependencies=[OPERATOR_ONLY])

    @router.post("/requests/replay")
    async def replay_request(
        console: CurrentConsole,
        user: CurrentUser,
        id: FormId,
        seen: Annotated[str, Form(max_length=50)],
        back: FormBack = "",
    ) -> Response:
        try:
            await get_request(stores, id)
            changed_at = _parse_seen(seen)
            async with audit_effect(console, user, "replay", system=SYSTEM, target=f"request {id}"):
                stage = await request_replay.replay(stores, id, get_actor(user), seen=changed_at)
        except REFUSALS as error:
            return _explain(back, error)
        return redirect(_get_page(back), f"Replayed: {id} goes to {stage.service} again.")

    @router.post("/requests/cancel")
    async def cancel_request(
        console: CurrentConsole, user: CurrentUser, id: FormId, back: FormBack = ""
    ) -> Response:
        try:
            request = await get_request(stores, id)
            async with audit_effect(console, user, "cancel", system=SYSTEM, target=f"request {id}"):
                await cancel(stores, request.tenant, id, get_actor(user))
        except REFUSALS as error:
            return _explain(back, error)
        return redirect(_get_page(back), f"Cancelled: {id} never reaches its payer. Its client is notified.")

    @router.post("/requests/hold")
    async def hold_request(
        console: CurrentConsole,
        user: CurrentUser,
        id: FormId,
        reason: Annotated[str, Form(max_length=legal_holds.MAX_REASON_CHARS)],
        back: FormBack = "",
    ) -> Response:
        try:
            await get_request(stores, id)
            async with audit_effect(console, user, "hold", system=SYSTEM, target=f"request {id}"):
                held = await legal_holds.place_hold(stores, id, reason, get_actor(user))
        except REFUSALS as error:
            return _explain(back, error)
        return redirect(_get_page(back), f"On hold: {id} and {held} files are kept beyond their retention.")

    @router.post("/requests/lift")
    async def lift_hold(
        console: CurrentConsole, user: CurrentUser, id: FormId, back: FormBack = ""
    ) -> Response:
        try:
            await get_request(stores, id)
            async with audit_effect(console, user, "lift", system=SYSTEM, target=f"request {id}"):
                freed = await legal_holds.lift_hold(stores, id, get_actor(user))
        except REFUSALS as error:
            return _explain(back, error)
        return redirect(_get_page(back), f"Lifted: {id} and {freed} files follow their retention again.")

    @router.post("/deliveries/resend")
    async def resend(console: CurrentConsole, user: CurrentUser, id: FormId, back: FormBack = "") -> Response:
        try:
            found = await redelivery.get_delivery(stores, id)
            target = f"delivery {found.delivery_id}"
            async with audit_effect(console, user, "resend", system=SYSTEM, target=target):
                await redelivery.resend(stores, id, get_actor(user))
        except REFUSALS as error:
            return _explain(back, error)
        return redirect(
            _get_page(back), "Sent again: the notification waits for its next attempt, under the same id."
        )

    return router


def get_actor(user: User) -> Actor:
    """Return the user as the actor of an event in the gateway's audit log."""
    return Actor("user", user.name[:MAX_ACTOR_CHARS])


def _parse_seen(text: str) -> datetime:
    """Return the time of the last change that the user saw. Raise `InvalidRequest` if it is not one."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("Invalid form: load the page again, and repeat what you did.") from None


def _get_page(back: str) -> str:
    """Return the page of PAGW that a form came from; the worklist for any other address."""
    return back if back.startswith(f"{ROOT}/") and "\\" not in back else f"{ROOT}/worklist"


def _explain(back: str, error: HoldfastError) -> Response:
    """Return to the page, which shows the present state, with the reason."""
    text = CHANGED if isinstance(error, ConditionFailed) else error.message
    return redirect(_get_page(back), text, "problem")
