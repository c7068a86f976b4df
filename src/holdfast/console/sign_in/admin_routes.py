"""The pages of administrators: who uses the console, and what they did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from holdfast.console.access import CurrentUser, require_role
from holdfast.console.accounts import DEMO_METHOD, DEMO_USER, LOCAL_METHOD, OIDC_METHOD, read_users
from holdfast.console.audit_trail import audit_effect, pair_entries
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.model import ConsoleAudit, ConsoleUser, get_user, list_users, newest_entries
from holdfast.console.rendering import redirect, render
from holdfast.console.sign_in.sign_ins import end_all_sessions
from holdfast.console.users import ADMIN
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import NotFound

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Form, Query
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter(prefix="/admin", dependencies=[require_role(ADMIN)])

WAYS: Final = {"demo": "one click", "local": "password", "oidc": "identity provider"}
MAX_TEXT_CHARS: Final = 128


@dataclass(frozen=True)
class ShownUser:
    """A user, as the list of users shows them. Without an account, they have never signed in."""

    name: str
    way: str
    roles: Sequence[str]
    account: str | None = None
    last_sign_in: datetime | None = None
    is_removed: bool = False


@router.get("/users")
async def show_users(request: Request, console: CurrentConsole, after: str | None = None) -> Response:
    """List the users."""
    page = await console.own.run(list_users(after=after))
    users = [_describe_user(console, each) for each in page]
    if after is None and page.cursor is None:
        users += _list_newcomers(console, {each.account for each in page})
    return render(
        request,
        "sign_in/users.html",
        users=sorted(users, key=lambda each: (each.is_removed, each.name)),
        own_account=request.state.sign_in.account,
        next_page=page.cursor and f"/admin/users?{urlencode({'after': page.cursor})}",
        file=console.accounts.local and console.settings.console_users,
        is_demo=console.accounts.is_demo,
    )


@router.post("/users/end")
async def end_sign_ins(
    request: Request, console: CurrentConsole, user: CurrentUser, account: Annotated[str, Form()]
) -> Response:
    """End all sessions of a user."""
    found = await console.own.run(get_user(account))
    if found is None:
        raise NotFound("No such user has signed in. Load the list again.")
    async with audit_effect(console, user, "end sign-ins", target=found.name):
        await end_all_sessions(console, account)
    return redirect("/admin/users", f"Every sign-in of {found.name} is over.")


@router.get("/audit")
async def show_audit(
    request: Request,
    console: CurrentConsole,
    day: str = "",
    user: Annotated[str, Query(max_length=MAX_TEXT_CHARS)] = "",
    action: Annotated[str, Query(max_length=MAX_TEXT_CHARS)] = "",
    after: str | None = None,
) -> Response:
    """Show the audit of a day, newest first."""
    today = console.own.now().date()
    shown, problem = _parse_day(day, today)
    user, action = user.strip(), action.strip()
    page = await console.own.run(newest_entries(shown.isoformat(), user, action, after=after))
    entries = await pair_entries(console.own, page.items)

    def link(**changes: Any) -> str:
        values = {"day": shown.isoformat(), "user": user, "action": action, **changes}
        return f"/admin/audit?{urlencode({name: value for name, value in values.items() if value})}"

    return render(
        request,
        "sign_in/audit.html",
        status_code=HTTPStatus.BAD_REQUEST if problem else HTTPStatus.OK,
        problem=problem,
        entries=[(each, _describe_payload(each.entry)) for each in entries],
        day=shown,
        today=today,
        previous=link(day=(shown - timedelta(days=1)).isoformat()) if shown > date.min else None,
        following=link(day=(shown + timedelta(days=1)).isoformat()) if shown < today else None,
        next_page=page.cursor and link(after=page.cursor),
        user_filter=user,
        action_filter=action,
    )


def _describe_user(console: Console, user: ConsoleUser) -> ShownUser:
    """Return a user who has signed in, with the roles they have now."""
    roles = _find_roles(console, user)
    return ShownUser(
        user.name,
        WAYS.get(user.method, user.method),
        sorted(roles or ()),
        user.account,
        user.last_sign_in,
        is_removed=roles is None,
    )


def _find_roles(console: Console, user: ConsoleUser) -> Collection[str] | None:
    """Return the roles of a user who has signed in; None if they cannot do so any more."""
    accounts = console.accounts
    if user.method == LOCAL_METHOD and accounts.local is not None:
        found = read_users(accounts.local).get(user.account.partition(":")[2])
        return None if found is None else found.roles
    if user.method == OIDC_METHOD and accounts.provider is not None:
        return user.roles or ()
    return DEMO_USER.roles if user.method == DEMO_METHOD and accounts.is_demo else None


def _list_newcomers(console: Console, known: Collection[str]) -> list[ShownUser]:
    """Return the users of the file who have not signed in yet."""
    users = {} if console.accounts.local is None else read_users(console.accounts.local)
    return [
        ShownUser(each.name, WAYS[LOCAL_METHOD], sorted(each.roles))
        for each in users.values()
        if f"{LOCAL_METHOD}:{each.name}" not in known
    ]


def _parse_day(text: str, today: date) -> tuple[date, str]:
    """Return the day to show, and what is wrong with the given one."""
    if not text:
        return today, ""
    try:
        return date.fromisoformat(text), ""
    except ValueError:
        return today, f"Invalid day {text[:MAX_TEXT_CHARS]!r}: expected a date such as {today.isoformat()}."


def _describe_payload(entry: ConsoleAudit) -> str:
    """Return the details of an entry as `name: value` pairs."""
    details = entry.parsed_payload
    return ", ".join(f"{name}: {value}" for name, value in details.items())
