"""Sessions next to tokens: a guard that accepts either, from the header or a cookie."""

from typing import Annotated

import pytest
from fastapi import APIRouter, FastAPI, Security
from starlette.requests import Request

from holdfast.core.errors import TokenRefused
from holdfast.security.tokens import VerifiedToken
from holdfast.web.sessions import build_session_guard, build_session_reader
from holdfast.web.tokens import Caller, require_bearer
from tests.unit.web.app_client import build_app, call, get_problem

COOKIE = "seat_session"


class OneToken:
    """Verifier that knows one token."""

    async def verify(self, token: str) -> VerifiedToken:
        if token != "t0ken":
            raise TokenRefused("TokenForged", "Not mine.")
        claims = {"sub": "by-token", "tenant": "acme"}
        return VerifiedToken("by-token", "c", frozenset({"read"}), 9e9, claims)


def build_session_app() -> FastAPI:
    """Build an app whose route accepts a session or a token with the scope `read`."""

    async def find_caller(session: str) -> Caller:
        if session not in ("s1", "s2"):
            raise TokenRefused("SessionEnded", "It is over.")
        return Caller("acme", "by-session", frozenset({"read"} if session == "s1" else ()), "c")

    guard = build_session_guard(require_bearer(OneToken()), build_session_reader(COOKIE), find_caller)
    router = APIRouter()

    @router.get("/seats")
    async def list_seats(
        caller: Annotated[Caller, Security(guard, scopes=["read"])], request: Request
    ) -> str:
        assert request.state.caller == caller
        return caller.subject

    return build_app(router)


@pytest.mark.parametrize(
    ("headers", "subject"),
    [
        ({"Authorization": "Bearer t0ken"}, "by-token"),
        ({"Authorization": "Session s1"}, "by-session"),
        ({"Cookie": f"{COOKIE}=s1"}, "by-session"),
        # The cookie is ignored next to the header.
        ({"Authorization": "Bearer t0ken", "Cookie": f"{COOKIE}=s1"}, "by-token"),
    ],
)
def test_accepts_a_token_or_a_session(headers: dict[str, str], subject: str) -> None:
    assert call(build_session_app(), "GET", "/seats", headers=headers).json() == subject


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "TokenMissing"),
        ({"Authorization": "Session s9"}, 401, "SessionEnded"),
        ({"Authorization": "Basic x", "Cookie": f"{COOKIE}=s1"}, 401, "TokenMissing"),
        ({"Authorization": "Session s2"}, 403, "InsufficientScope"),
    ],
)
def test_refuses_other_callers(headers: dict[str, str], status: int, code: str) -> None:
    problem = get_problem(call(build_session_app(), "GET", "/seats", headers=headers))

    assert (problem["status"], problem["detail"].partition(":")[0]) == (status, code)


def test_description_names_the_alternatives() -> None:
    description = call(build_session_app(), "GET", "/openapi.json").json()

    security = description["paths"]["/seats"]["get"]["security"]
    assert [name for each in security for name in each] == ["Bearer", "Session", "SessionCookie"]
    schemes = description["components"]["securitySchemes"]
    assert (schemes["Session"]["scheme"], schemes["SessionCookie"]["name"]) == ("session", COOKIE)
