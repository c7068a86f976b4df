"""Sessions of the console: begin one, end it, end all of a user; and the list of a user's sign-ins."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from holdfast.console.access import read_session_id
from holdfast.console.context import Console
from holdfast.console.model import (
    SESSIONS,
    SignIn,
    SignInRecord,
    end_before,
    note_sign_in,
    record_sign_in,
    record_sign_out,
)
from holdfast.console.sign_in.client_address import find_client_address
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import ConditionFailed
from holdfast.core.rng import make_hex_token, make_url_token
from holdfast.model.entities import format_timestamp

with explain_missing(__name__, "console"):
    from starlette.requests import Request

__all__ = ["begin_session", "end_all_sessions", "end_session", "get_address", "record_refusal"]

CSRF_BYTES: Final = 32
PLACE_BYTES: Final = 8


def get_address(request: Request, console: Console) -> str:
    """Return the address of the client: behind a proxy that the settings do not trust, that of the proxy."""
    return find_client_address(request, console.settings.trusted_proxies)


async def begin_session(console: Console, request: Request, sign_in: SignIn) -> str:
    """Begin a session with a new id, and end the one that the browser had. Return the id."""
    now = console.own.now()
    begun = sign_in.model_copy(
        update={
            "csrf": make_url_token(CSRF_BYTES),
            "begun_at": now.timestamp(),
            "place": _make_place(console),
        }
    )
    await SESSIONS.end(console.own, read_session_id(request, console))
    roles = None if begun.roles is None else list(begun.roles)
    await console.own.run(note_sign_in(begun.account, begun.user, begun.method, roles, now))
    record = SignInRecord(
        account=begun.account, place=begun.place, at=now, address=get_address(request, console)
    )
    await console.own.run(record_sign_in(record))
    return await SESSIONS.begin(console.own, begun)


async def record_refusal(console: Console, request: Request, account: str, reason: str) -> None:
    """Add a refused attempt to the list of a user's sign-ins."""
    record = SignInRecord(
        account=account,
        place=_make_place(console),
        at=console.own.now(),
        address=get_address(request, console),
        refused=reason,
    )
    await console.own.run(record_sign_in(record))


async def end_session(console: Console, id: str, sign_in: SignIn) -> None:
    """End one session, and the event streams of its pages."""
    await SESSIONS.end(console.own, id)
    console.live.end_streams(sign_in.account, sign_in.place)
    with suppress(ConditionFailed):  # the record has expired
        await console.own.run(record_sign_out(sign_in.account, sign_in.place, console.own.now()))


async def end_all_sessions(console: Console, account: str) -> None:
    """End every session of a user that began until now, and the event streams of their pages."""
    await console.own.run(end_before(account, console.own.clock.now()))
    console.live.end_streams(account)


def _make_place(console: Console) -> str:
    """Return the place of a new record in the list of a user's sign-ins, which is sorted by time."""
    return f"{format_timestamp(console.own.now())}#{make_hex_token(PLACE_BYTES)}"
