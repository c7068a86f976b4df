"""Sessions over HTTP: begun with a token, named by a header or a cookie on reads, ended."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import CallerForbidden, TokenRefused
from holdfast.web.tokens import Caller
from pagw import sessions
from pagw.auditing import Actor, AuditEvent, record
from pagw.routes import describing
from pagw.routes.describing import described
from pagw.routes.guarding import CLAIM_READ, SESSION_COOKIE, SUBSCRIPTION_READ, Gate, open_to_all, session_of
from pagw.routes.native import answer_of
from pagw.routes.refused_calls import ACTOR_CHARS_MAX, SERVICE
from pagw.routes.views import SessionView

PATH: Final = "/sessions"
# One of them: a session is for reads alone.
READ_SCOPES: Final = [CLAIM_READ, SUBSCRIPTION_READ]


def session_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["sessions"])
    is_secure = gate.settings.public_url.startswith("https://")

    @router.post(PATH, **described("logIn", "Begin a session, with a token", gives=SessionView, status=201))
    @gate.serves(audits="session")
    async def log_in(request: Request, caller: Caller) -> Response:
        left_s = caller.expires_at - gate.stores.clock.now()
        _refuse_useless(caller, left_s)
        logged_in = sessions.LoggedIn(
            subject=caller.subject,
            client_id=caller.client_id,
            scopes=tuple(sorted(caller.scopes)),
            ends_at=caller.expires_at,
        )
        await record(gate.stores, _event(caller.tenant, caller.subject, "begun"))
        session = await sessions.begin(gate.stores, caller.tenant, logged_in)
        view = SessionView(session=session, expires_in=int(min(sessions.LIFETIME_S, left_s)))
        answer = answer_of(view, 201)
        answer.set_cookie(
            SESSION_COOKIE,
            session,
            max_age=int(min(sessions.LONGEST_S, left_s)),
            httponly=True,
            secure=is_secure,
            samesite="strict",
        )
        return answer

    @router.delete(
        f"{PATH}/current", **described("logOut", "End the session", status=204, proofs=describing.ENDS)
    )
    @open_to_all
    async def log_out(request: Request) -> Response:
        """Whoever can name a session may end it."""
        session = session_of(request)
        if session is None:
            raise TokenRefused("SessionMissing", "Name the session that is to end.", challenge="Bearer")
        tenant, logged_in = await sessions.found(gate.stores, session)
        await sessions.end(gate.stores, session)
        await record(gate.stores, _event(tenant, logged_in.subject, "ended"))
        answer = Response(status_code=204)
        answer.delete_cookie(SESSION_COOKIE, httponly=True, secure=is_secure, samesite="strict")
        return answer

    return router


def _refuse_useless(caller: Caller, left_s: float) -> None:
    """A token is taken for a moment after its end, for clocks that differ; a session is not begun with one. And it reads."""
    if left_s <= 0:
        raise TokenRefused("TokenExpired", "The token has ended: log in with a new one.")
    if caller.scopes.isdisjoint(READ_SCOPES):
        raise CallerForbidden(READ_SCOPES)


def _event(tenant: str, subject: str, what: str) -> AuditEvent:
    """Who began or ended a session; not which, as its id is as good as a token."""
    actor = Actor("user", subject[:ACTOR_CHARS_MAX])
    return AuditEvent(
        type="SESSION", subtype=what, actor=actor, service=SERVICE, tenant=tenant, resource_type="session"
    )
