"""Routes that start a session with a token and end it. `auth` accepts the session on reads."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Response, Security

from holdfast.core.errors import CallerForbidden, TokenRefused
from holdfast.web.tokens import Caller
from pagw.api.routes.auth import CLAIM_READ, SESSION_COOKIE, SUBSCRIPTION_READ, Gate
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
        PATH,
        operation_id="logIn",
        summary="Start a session with a token",
        status_code=201,
        dependencies=[gate.audit.watch("session")],
    )
    async def log_in(caller: Annotated[Caller, Security(gate.bearer)], response: Response) -> SessionView:
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
        response.set_cookie(
            SESSION_COOKIE,
            session,
            max_age=int(min(sessions.MAX_LIFETIME_S, left_s)),
            httponly=True,
            secure=is_secure,
            samesite="strict",
        )
        return SessionView(session=session, expires_in=int(min(sessions.LIFETIME_S, left_s)))

    # The session itself is the credential: no token is needed.
    @router.delete(
        f"{PATH}/current",
        operation_id="logOut",
        summary="End the session",
        status_code=204,
        response_class=Response,
    )
    async def log_out(session: Annotated[str | None, Depends(gate.read_session)]) -> Response:
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
