"""Sessions over HTTP: begun with a token, named by a header or a cookie on reads, ended."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import TokenRefused
from holdfast.web.tokens import Caller
from pagw import sessions
from pagw.routes import describing
from pagw.routes.describing import described
from pagw.routes.guarding import SESSION_COOKIE, Gate, open_to_all, session_of
from pagw.routes.native import answer_of
from pagw.routes.views import SessionView

PATH: Final = "/sessions"


def session_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["sessions"])
    is_secure = gate.settings.public_url.startswith("https://")

    @router.post(PATH, **described("logIn", "Begin a session, with a token", gives=SessionView, status=201))
    @gate.serves()
    async def log_in(request: Request, caller: Caller) -> Response:
        scopes = tuple(sorted(caller.scopes))
        logged_in = sessions.LoggedIn(subject=caller.subject, client_id=caller.client_id, scopes=scopes)
        session = await sessions.begin(gate.stores, caller.tenant, logged_in)
        view = SessionView(session=session, expires_in=int(sessions.LIFETIME_S))
        answer = answer_of(view, 201)
        answer.set_cookie(
            SESSION_COOKIE,
            session,
            max_age=int(sessions.LONGEST_S),
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
        await sessions.end(gate.stores, session)
        answer = Response(status_code=204)
        answer.delete_cookie(SESSION_COOKIE, httponly=True, secure=is_secure, samesite="strict")
        return answer

    return router
