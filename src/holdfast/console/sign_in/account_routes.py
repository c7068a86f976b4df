"""The page of the user's own account: how they are signed in, what they may do, their last sign-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.console.access import CurrentUser
from holdfast.console.audit_trail import audit_effect
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.model import (
    MAX_SESSION_LIFETIME_S,
    SESSION_LIFETIME_S,
    SignIn,
    SignInRecord,
    get_user,
    last_sign_ins,
)
from holdfast.console.rendering import redirect, render
from holdfast.console.sign_in.routes import forget_session
from holdfast.console.sign_in.sign_ins import end_all_sessions
from holdfast.console.users import ADMIN, describe_roles
from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

METHODS: Final = {
    "demo": "with one click, because this console has no users",
    "local": "with a password of this console",
    "oidc": "at the identity provider",
}


@dataclass(frozen=True)
class ShownSignIn:
    """One sign-in, as the account page lists it. `state` is `this`, `open`, `over` or `refused`."""

    at: datetime
    address: str
    state: str
    detail: str
    ends: datetime | None = None


@router.get("/account")
async def show_account(request: Request, console: CurrentConsole, user: CurrentUser) -> Response:
    """Show the user's account."""
    sign_in: SignIn = request.state.sign_in
    return render(
        request,
        "sign_in/account.html",
        method=METHODS[sign_in.method],
        roles=describe_roles(user),
        systems=[each for each in console.systems if user.can_see(each.name)],
        sign_ins=await _list_sign_ins(console, sign_in),
        idle_minutes=int(SESSION_LIFETIME_S // 60),
        max_hours=int(MAX_SESSION_LIFETIME_S // 3600),
        is_admin=user.has_role(ADMIN),
    )


@router.post("/account/sign-out-everywhere")
async def sign_out_everywhere(request: Request, console: CurrentConsole, user: CurrentUser) -> Response:
    """End all sessions of the user, this one too."""
    async with audit_effect(console, user, "sign-out everywhere"):
        await end_all_sessions(console, request.state.sign_in.account)
    return forget_session(console, redirect("/sign-in", "You are signed out on every device."))


async def _list_sign_ins(console: Console, current: SignIn) -> Sequence[ShownSignIn]:
    """Return the user's last sign-ins, newest first."""
    user = await console.own.run(get_user(current.account))
    ended_before = 0.0 if user is None else user.ended_before
    page = await console.own.run(last_sign_ins(current.account))
    return [_describe(each, current, ended_before, console.own.now()) for each in page]


def _describe(record: SignInRecord, current: SignIn, ended_before: float, now: datetime) -> ShownSignIn:
    """Return what a record says about its session now."""
    ends = record.at + timedelta(seconds=MAX_SESSION_LIFETIME_S)
    if record.refused is not None:
        return ShownSignIn(record.at, record.address, "refused", f"wrong {record.refused}")
    if record.place == current.place:
        return ShownSignIn(record.at, record.address, "this", "", ends)
    ended = record.ended or (
        datetime.fromtimestamp(ended_before, UTC) if record.at.timestamp() <= ended_before else None
    )
    if ended is not None or ends <= now:
        return ShownSignIn(record.at, record.address, "over", "", ended or ends)
    return ShownSignIn(record.at, record.address, "open", "", ends)
