"""Sessions next to bearer tokens: a dependency that accepts either, for the reads of a person.

A session is named in `Authorization: Session …` or in a cookie. The system stores sessions and finds their
callers. Writes need the token, so that a page of another origin cannot make them with the cookie.
"""

# Without deferred annotations: those of the dependencies refer to the arguments of their factories.
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeAlias

from holdfast.core.distribution import explain_missing
from holdfast.web.tokens import BearerGuard, Caller

with explain_missing(__name__, "api"):
    from fastapi import Depends
    from fastapi.security import APIKeyCookie, HTTPBearer, SecurityScopes
    from fastapi.security.http import HTTPBase
    from starlette.requests import Request

__all__ = [
    "FindCaller",
    "ReadSession",
    "build_session_guard",
    "build_session_reader",
]

SCHEME: Final = "Session"

ReadSession: TypeAlias = Callable[..., Awaitable[str | None]]
"""A dependency that returns the session of a request, or None."""

FindCaller: TypeAlias = Callable[[str], Awaitable[Caller]]
"""Returns the caller that a session belongs to."""


def build_session_reader(cookie: str) -> ReadSession:
    """Return a dependency that returns the session of a request, or None.

    If there is an `Authorization` header, the cookie is ignored.
    """
    in_header = HTTPBase(
        scheme=SCHEME.lower(), scheme_name=SCHEME, description="A session, for reads only.", auto_error=False
    )
    in_cookie = APIKeyCookie(name=cookie, scheme_name=f"{SCHEME}Cookie", auto_error=False)

    async def read_session(
        request: Request,
        _header: Annotated[object, Depends(in_header)],
        stored: Annotated[str | None, Depends(in_cookie)],
    ) -> str | None:
        given = request.headers.get("authorization")
        if given is None:
            return stored
        scheme, _, session = given.partition(" ")
        return session.strip() if scheme.lower() == SCHEME.lower() else None

    return read_session


def build_session_guard(
    bearer: BearerGuard, read_session: ReadSession, find_caller: FindCaller
) -> Callable[..., Awaitable[Caller]]:
    """Return a dependency that accepts a session, or what `bearer` accepts if the request names none.

    `find_caller` returns the caller of a session, and raises `TokenRefused` if it is unknown or over.
    """
    # It only describes the token in OpenAPI: the guard reads it.
    described = HTTPBearer(
        bearerFormat="JWT",
        scheme_name=bearer.scheme_name,
        description=bearer.model.description,
        auto_error=False,
    )

    async def require_caller(
        request: Request,
        needed: SecurityScopes,
        _: Annotated[object, Depends(described)],
        session: Annotated[str | None, Depends(read_session)],
    ) -> Caller:
        caller = await (bearer.authenticate(request) if session is None else find_caller(session))
        return await bearer.admit(request, caller, needed.scopes)

    return require_caller
