"""The pages that sign in and out: a password, an identity provider, or one click in a demo.

A refused attempt says neither whether the name exists nor which part was wrong, and takes as long as for a
user who exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from holdfast.console.access import CurrentUser, find_session, get_cookie_name, read_session_id
from holdfast.console.accounts import DEMO_METHOD, DEMO_USER, LOCAL_METHOD, OIDC_METHOD, read_users
from holdfast.console.audit_trail import audit
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.model import MAX_SESSION_LIFETIME_S, PENDING_LIFETIME_S, SignIn
from holdfast.console.rendering import redirect, render
from holdfast.console.sign_in.attempts import count_attempt, count_beginning, count_report
from holdfast.console.sign_in.passwords import verify_password
from holdfast.console.sign_in.sign_ins import begin_session, end_session, get_address, record_refusal
from holdfast.console.users import User
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import NotFound, RateLimited

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response

router = APIRouter()

# The user of refused attempts in the audit: what was typed may be a password.
NOBODY: Final = User("(not signed in)")
PENDING_COOKIE: Final = "holdfast_console_oidc"
SECURE_PENDING_COOKIE: Final = "__Host-holdfast_console_oidc"
CALLBACK: Final = "/sign-in/oidc/callback"
MINUTE_S: Final = 60


@router.get("/sign-in")
async def show_sign_in(request: Request, console: CurrentConsole, next: str = "/") -> Response:
    """Show how to sign in; a user who is signed in goes on to the page."""
    target = clean_target(next)
    if await find_session(request, console) is not None:
        return redirect(target)
    return _render_sign_in(request, console, target)


def _render_sign_in(
    request: Request, console: Console, target: str, *, status: int = HTTPStatus.OK, **values: Any
) -> Response:
    accounts = console.accounts
    shown: dict[str, Any] = {
        "next": target,
        "is_demo": accounts.is_demo,
        "has_passwords": accounts.local is not None,
        "has_provider": accounts.provider is not None,
        "problem": "",
        "name": "",
    }
    return render(request, "sign_in/sign_in.html", status_code=status, **(shown | values))


# --- a demo -------------------------------------------------------------------------------------------------


@router.post("/sign-in/demo")
async def sign_in_demo(
    request: Request, console: CurrentConsole, next: Annotated[str, Form()] = "/"
) -> Response:
    """Sign in as the demo's user."""
    if not console.accounts.is_demo:
        raise NotFound("This console has users: sign in as one of them.")
    return await _sign_in(request, console, SignIn(user=DEMO_USER.name, method=DEMO_METHOD, csrf=""), next)


# --- a password ---------------------------------------------------------------------------------------------


@router.post("/sign-in/password")
async def sign_in_with_password(
    request: Request,
    console: CurrentConsole,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",
) -> Response:
    """Sign in as a local user."""
    if console.accounts.local is None:
        raise NotFound("This console has no local users: go back to the sign-in.")
    target, name = clean_target(next), name.strip().lower()
    try:
        await count_attempt(console.own, address=get_address(request, console), name=name)
    except RateLimited as error:
        return await _refuse_more_attempts(request, console, target, error)
    user = read_users(console.accounts.local).get(name)
    if not await verify_password(None if user is None else user.password, password) or user is None:
        await _audit_wrong_password(request, console, None if user is None else user.name)
        problem = "The name or the password is wrong. Check both and try again."
        return _render_sign_in(
            request, console, target, status=HTTPStatus.FORBIDDEN, problem=problem, name=name
        )
    sign_in = SignIn(user=user.name, subject=user.name, method=LOCAL_METHOD, csrf="", stamp=user.stamp)
    return await _sign_in(request, console, sign_in, target)


# --- an identity provider -----------------------------------------------------------------------------------


@router.get("/sign-in/oidc")
async def begin_at_provider(request: Request, console: CurrentConsole, next: str = "/") -> Response:
    """Send the browser to the identity provider."""
    provider, target = console.accounts.provider, clean_target(next)
    if provider is None:
        raise NotFound("This console has no identity provider: go back to the sign-in.")
    try:
        await count_beginning(console.own, get_address(request, console))
    except RateLimited as error:
        return await _refuse_more_attempts(request, console, target, error)
    url, binding = await provider.begin(
        console.own, redirect_uri=console.settings.console_url + CALLBACK, target=target
    )
    response = RedirectResponse(url, HTTPStatus.SEE_OTHER)
    response.set_cookie(
        _get_pending_cookie(console),
        binding,
        max_age=int(PENDING_LIFETIME_S),
        secure=console.is_https,
        httponly=True,
        samesite="lax",
    )
    return response


@router.get(CALLBACK)
async def finish_at_provider(request: Request, console: CurrentConsole, state: str = "") -> Response:
    """Sign in the user whom the identity provider sends back."""
    from holdfast.console.sign_in.oidc import SignInRefused

    provider = console.accounts.provider
    if provider is None:
        raise NotFound("This console has no identity provider: go back to the sign-in.")
    try:
        await count_attempt(console.own, address=get_address(request, console))
        binding = request.cookies.get(_get_pending_cookie(console), "")
        pending = await provider.take_pending(console.own, state, binding)
        identity = await provider.finish(pending, request.query_params)
        if not identity.roles:
            raise SignInRefused(
                "no role",
                f"{identity.name} has no role for this console. Ask your administrator for one, then sign in "
                "again.",
            )
    except RateLimited as error:
        return await _refuse_more_attempts(request, console, "/", error)
    except SignInRefused as error:
        await _audit_refusal(request, console, error.reason)
        return _render_sign_in(request, console, "/", status=HTTPStatus.FORBIDDEN, problem=error.message)
    sign_in = SignIn(
        user=_distinguish(console, identity.name),
        subject=identity.subject,
        method=OIDC_METHOD,
        csrf="",
        stamp=provider.stamp,
        roles=identity.roles,
    )
    return await _sign_in(request, console, sign_in, pending.target)


def _distinguish(console: Console, name: str) -> str:
    """Return a name that no local user and no demo has, so that the audit never confuses two users."""
    local = console.accounts.local
    is_taken = name == DEMO_USER.name or (local is not None and name in read_users(local))
    return f"{name} (identity provider)" if is_taken else name


def _get_pending_cookie(console: Console) -> str:
    return SECURE_PENDING_COOKIE if console.is_https else PENDING_COOKIE


# --- sessions -----------------------------------------------------------------------------------------------


@router.post("/sign-out")
async def sign_out(request: Request, console: CurrentConsole, user: CurrentUser) -> Response:
    """End the session."""
    await end_session(console, read_session_id(request, console), request.state.sign_in)
    await audit(console, user, "sign-out")
    return forget_session(console, redirect("/sign-in", "You are signed out."))


def forget_session(console: Console, response: Response) -> Response:
    """Return the response with the session's cookie removed from the browser."""
    response.delete_cookie(get_cookie_name(console), secure=console.is_https, httponly=True, samesite="lax")
    return response


async def _sign_in(request: Request, console: Console, sign_in: SignIn, target: str) -> Response:
    """Begin a session and return the response that leads to the target, with the session's cookie."""
    id = await begin_session(console, request, sign_in)
    named: Mapping[str, str] = {} if sign_in.subject in ("", sign_in.user) else {"subject": sign_in.subject}
    address = get_address(request, console)
    await audit(console, User(sign_in.user), "sign-in", method=sign_in.method, address=address, **named)
    response = RedirectResponse(clean_target(target), HTTPStatus.SEE_OTHER)
    response.set_cookie(
        get_cookie_name(console),
        id,
        max_age=int(MAX_SESSION_LIFETIME_S),
        secure=console.is_https,
        httponly=True,
        samesite="lax",
    )
    response.delete_cookie(_get_pending_cookie(console), secure=console.is_https, httponly=True)
    return response


async def _refuse_more_attempts(
    request: Request, console: Console, target: str, error: RateLimited
) -> Response:
    """Answer that there were too many attempts. The first of a window is audited."""
    if await count_report(console.own, get_address(request, console)):
        await _audit_refusal(request, console, "too many attempts")
    wait_s = error.retry_after_s or MINUTE_S
    minutes = max(1, -(-int(wait_s) // MINUTE_S))
    problem = f"Too many attempts to sign in. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
    response = _render_sign_in(request, console, target, status=HTTPStatus.TOO_MANY_REQUESTS, problem=problem)
    response.headers["retry-after"] = str(max(1, int(wait_s)))
    return response


async def _audit_wrong_password(request: Request, console: Console, name: str | None) -> None:
    """Record a wrong password in the audit, and in the list of the user's sign-ins.

    The list of `NOBODY` costs for an unknown name what the list of a user costs, and is not shown.
    """
    user = NOBODY if name is None else User(name)
    await record_refusal(console, request, f"{LOCAL_METHOD}:{user.name}", "password")
    await _audit_refusal(request, console, "password", user)


async def _audit_refusal(request: Request, console: Console, reason: str, user: User = NOBODY) -> None:
    """Record a refused attempt in the audit."""
    await audit(console, user, "sign-in refused", reason=reason, address=get_address(request, console))


def clean_target(target: str) -> str:
    """Return the path to continue at; the start page for an address of another site, and for the sign-in."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    is_own = not parts.scheme and not parts.netloc and target.startswith("/") and "\\" not in target
    is_page = not target.startswith("//") and parts.path not in ("/sign-in", "/live")
    return target if is_own and is_page else "/"
