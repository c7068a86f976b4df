"""Routes that start a session with a token and end it. `auth` accepts the session on reads."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import CallerForbidden, TokenRefused
from holdfast.web.tokens import Caller
from pagw.api.routes import openapi
from pagw.api.routes.auth import (
    CLAIM_READ,
    SESSION_COOKIE,
    SUBSCRIPTION_READ,
    Gate,
    allow_anonymous,
    get_session,
)
from pagw.api.routes.native import build_response
from pagw.api.routes.openapi import describe_route
from pagw.api.routes.refusal_audit import MAX_ACTOR_CHARS, SERVICE
from pagw.api.routes.views import SessionView
from pagw.model import sessions
from pagw.model.audit import Actor, AuditEvent, record_event

PATH: Final = "/sessions"
# The token needs one of them: a session is only for reads.
READ_SCOPES: Final = [CLAIM_READ, SUBSCRIPTION_READ]


def build_session_routes(gate: Gate) -> APIRouter:
    """Return the routes that start and end sessions."""
    router = APIRouter(tags=["sessions"])
    is_secure = gate.settings.public_url.startswith("https://")

    @router.post(
        PATH, **describe_route("logIn", "Start a session with a token", gives=SessionView, status=201)
    )
    @gate.authorize(audits="session")
    async def log_in(request: Request, caller: Caller) -> Response:
        left_s = caller.expires_at - gate.stores.clock.now()
        _refuse_unusable_token(caller, left_s)
        logged_in = sessions.SessionIdentity(
            subject=caller.subject,
            client_id=caller.client_id,
            scopes=tuple(sorted(caller.scopes)),
            ends_at=caller.expires_at,
        )
        await record_event(gate.stores, _build_event(caller.tenant, caller.subject, "begun"))
        session = await sessions.begin(gate.stores, caller.tenant, logged_in)
        view = SessionView(session=session, expires_in=int(min(sessions.LIFETIME_S, left_s)))
        answer = build_response(view, 201)
        answer.set_cookie(
            SESSION_COOKIE,
            session,
            max_age=int(min(sessions.MAX_LIFETIME_S, left_s)),
            httponly=True,
            secure=is_secure,
            samesite="strict",
        )
        return answer

    @router.delete(
        f"{PATH}/current",
        **describe_route("logOut", "End the session", status=204, schemes=openapi.SESSION_SCHEMES),
    )
    @allow_anonymous
    async def log_out(request: Request) -> Response:
        """End the session. The session itself is the credential: no token is needed."""
        session = get_session(request)
        if session is None:
            raise TokenRefused(
                "SessionMissing",
                "The session is missing. Send the session to end in the Authorization header or the cookie.",
                challenge="Bearer",
            )
        tenant, logged_in = await sessions.find(gate.stores, session)
        await sessions.end(gate.stores, session)
        await record_event(gate.stores, _build_event(tenant, logged_in.subject, "ended"))
        answer = Response(status_code=204)
        answer.delete_cookie(SESSION_COOKIE, httponly=True, secure=is_secure, samesite="strict")
        return answer

    return router


def _refuse_unusable_token(caller: Caller, left_s: float) -> None:
    """Raise `TokenRefused` for a token that has expired, which other routes accept for a moment because
    clocks differ, and `CallerForbidden` for one without a read scope.
    """
    if left_s <= 0:
        raise TokenRefused("TokenExpired", "The token has expired. Log in with a new one.")
    if caller.scopes.isdisjoint(READ_SCOPES):
        raise CallerForbidden(READ_SCOPES)


def _build_event(tenant: str, subject: str, subtype: str) -> AuditEvent:
    """Build the audit event. It names the user and not the session, whose id is as good as a token."""
    actor = Actor("user", subject[:MAX_ACTOR_CHARS])
    return AuditEvent(
        type="SESSION", subtype=subtype, actor=actor, service=SERVICE, tenant=tenant, resource_type="session"
    )
