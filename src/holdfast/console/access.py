"""Who asks, and what they may: the dependencies of every route of the console.

    @router.post("/queues/{system}/{queue}/redrive", dependencies=[require_role(OPERATOR)])
    async def redrive(user: CurrentUser, console: CurrentConsole, …

A page without a session answers with the way to the sign-in. A request that changes something must carry the
token of its session, in the field `csrf` of its form or in the header `X-CSRF-Token`. A path with `{system}`
exists only for users who have a role for that system. What is refused is audited (`errors.py`).
"""

from __future__ import annotations

import hmac
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from holdfast.console.context import Console, CurrentConsole, build_missing_system
from holdfast.console.model import SESSIONS, SignIn, get_user
from holdfast.console.rendering import is_fragment
from holdfast.console.users import User
from holdfast.core.distribution import explain_missing
from holdfast.core.http.hosts import SAFE_METHODS

with explain_missing(__name__, "console"):
    from fastapi import Depends
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

__all__ = [
    "ActionRefused",
    "CurrentUser",
    "SignInRequired",
    "build_sight_guard",
    "check_role",
    "find_session",
    "read_session_id",
    "require_role",
    "require_sight",
    "require_user",
]

COOKIE: Final = "holdfast_console"
# A browser accepts it only over TLS, for this host and every path: no other site can set it.
SECURE_COOKIE: Final = "__Host-holdfast_console"
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"


class SignInRequired(Exception):
    """The request has no session: the user must sign in, and then continues at `path`."""

    def __init__(self, path: str) -> None:
        super().__init__(f"Sign in to see {path}.")
        self.path = path

    @property
    def url(self) -> str:
        """The address of the sign-in page, which leads back."""
        return "/sign-in" if self.path == "/" else f"/sign-in?next={quote(self.path, safe='/')}"


class ActionRefused(HTTPException):
    """A signed-in user may not do this. `reason` is for the audit: the role that is missing, or `csrf`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, message)
        self.reason = reason


def get_cookie_name(console: Console) -> str:
    """Return the name of the cookie with the session's id."""
    return SECURE_COOKIE if console.is_https else COOKIE


def read_session_id(request: Request, console: Console) -> str:
    """Return the id of the session in the cookie; empty if there is none."""
    return request.cookies.get(get_cookie_name(console), "")


async def find_session(
    request: Request, console: CurrentConsole, *, is_used: bool | None = None
) -> User | None:
    """Return the user of the request's session, or None; the rest of the request finds it in its state.

    A session that is used lasts longer. A part of a page that htmx loads again is not a use, so that a page
    left open does not keep its user signed in.
    """
    if is_used is None:
        is_used = not (is_fragment(request) and request.method in SAFE_METHODS)
    look_up = SESSIONS.find if is_used else SESSIONS.peek
    found = await look_up(console.own, read_session_id(request, console))
    user = None if found is None else console.accounts.find_user(found)
    if found is None or user is None or await _was_ended(console, found):
        return None
    request.state.user, request.state.csrf, request.state.sign_in = user, found.csrf, found
    return user


async def _was_ended(console: Console, sign_in: SignIn) -> bool:
    """Return whether the user, or an administrator, ended all sessions since this one began."""
    user = await console.own.run(get_user(sign_in.account))
    return user is not None and sign_in.begun_at <= user.ended_before


async def require_user(request: Request, console: CurrentConsole) -> User:
    """Return the signed-in user. Raise `SignInRequired` without one, `NotFound` for a system that they may
    not see, and 403 for a change without the token of its session.
    """
    user = await find_session(request, console)
    if user is None:
        query = f"?{request.url.query}" if request.url.query else ""
        raise SignInRequired(request.url.path + query if request.method in SAFE_METHODS else "/")
    if request.method not in SAFE_METHODS:
        await _check_csrf(request)
    system = request.path_params.get("system")
    if system is not None:
        require_sight(user, system)
    return user


CurrentUser = Annotated[User, Depends(require_user)]
"""A parameter of a route: the signed-in user."""


def require_role(role: str) -> Any:
    """Return a dependency that refuses users without the role: for the system in the path (`{system}`) or
    whose page this is, else for every system.
    """

    async def check(request: Request, user: CurrentUser) -> None:
        own = getattr(request.state, "system", None)
        check_role(user, role, request.path_params.get("system", own))

    return Depends(check)


def build_sight_guard(system: str) -> Any:
    """Return a dependency that hides the pages of a system from users without a role for it."""

    async def check(request: Request, user: CurrentUser) -> None:
        require_sight(user, system)
        request.state.system = system

    return Depends(check)


def require_sight(user: User, system: str) -> None:
    """Raise `NotFound` for a system for which the user has no role: to them it does not exist."""
    if not user.can_see(system):
        raise build_missing_system(system)


def check_role(user: User, role: str, system: str | None = None) -> None:
    """Raise 403 unless the user has the role, for every system or for this one."""
    if not user.has_role(role, system):
        where = "" if system is None else f" for {system}"
        raise ActionRefused(
            f"role {role}",
            f"This needs the role {role}{where}, which {user.name} does not have. Ask your administrator for "
            "it.",
        )


async def _check_csrf(request: Request) -> None:
    """Raise 403 unless the request carries the token of its session."""
    given = request.headers.get(CSRF_HEADER)
    if given is None:
        given = str((await request.form()).get(CSRF_FIELD, ""))
    expected: str = request.state.csrf
    if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode()):
        raise ActionRefused(
            "csrf", "This form belongs to another sign-in. Load the page again, and repeat what you did."
        )
