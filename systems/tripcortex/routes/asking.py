"""What a request asks, taken apart: its body within bounds, its parameters."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from holdfast.clock import Clock
from holdfast.errors import InvalidRequest
from tripcortex.live.identity import EMPLOYEE_FORM, Employee
from tripcortex.model import EmployeeId

LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 200
CURSOR_CHARS_MAX: Final = 10_000
JSON_BYTES_MAX: Final = 64 * 1024
# For a whole body: whoever sends a byte now and then holds its place no longer than this.
BODY_S_MAX: Final = 60.0
# The document's question: what of the last 30 days.
RANGE_DAYS: Final = 30
TOO_LARGE: Final = 413
TIMED_OUT: Final = 408

M = TypeVar("M", bound=BaseModel)


class Range(NamedTuple):
    since: datetime
    until: datetime


async def json_of(request: Request, model: type[M]) -> M:
    """Raises pydantic's `ValidationError`, which is answered without what was sent."""
    return model.model_validate_json(await body_of(request, JSON_BYTES_MAX) or b"{}")


async def body_of(request: Request, bytes_max: int) -> bytes:
    """One that says it is too large is refused unread; one that does not say, where it becomes so."""
    _refuse_too_large(request, bytes_max)
    try:
        async with asyncio.timeout(BODY_S_MAX):
            return await _read(request, bytes_max)
    except TimeoutError:
        raise HTTPException(TIMED_OUT, "The body was not whole in time: send it at once.") from None


def bounded(request: Request, bytes_max: int) -> Request:
    """The same, for what is read by others (a form): its body is refused as that of `body_of` is."""
    _refuse_too_large(request, bytes_max)
    read = 0

    async def receive() -> Message:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > bytes_max:
            raise _too_large(bytes_max)
        return message

    return Request(request.scope, receive)


def _refuse_too_large(request: Request, bytes_max: int) -> None:
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(bytes_max)


async def _read(request: Request, bytes_max: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
    return bytes(body)


def _too_large(bytes_max: int) -> HTTPException:
    return HTTPException(TOO_LARGE, f"The body is larger than {bytes_max} bytes, the most this takes.")


def limit_of(request: Request) -> int:
    given = request.query_params.get("limit", str(LIMIT_DEFAULT))
    if not (given.isascii() and given.isdigit() and len(given) < 10 and 1 <= int(given) <= LIMIT_MAX):
        raise InvalidRequest(f"limit is a whole number from 1 to {LIMIT_MAX}.")
    return int(given)


def cursor_of(request: Request) -> str | None:
    """It names a place and nobody's partition: whoever uses it sees their own alone."""
    given = request.query_params.get("cursor")
    if given is not None and not 1 <= len(given) <= CURSOR_CHARS_MAX:
        raise InvalidRequest("This is no cursor of a page before: leave it out for the first page.")
    return given


def range_of(request: Request, clock: Clock) -> Range:
    until = _moment(request, "until") or datetime.fromtimestamp(clock.now(), UTC)
    try:
        since = _moment(request, "since") or until - timedelta(days=RANGE_DAYS)
    except OverflowError:
        raise InvalidRequest("There is no time before `until`: say `since` too.") from None
    if since > until:
        raise InvalidRequest("since is after until: exchange them.")
    return Range(since, until)


def subject_of(request: Request, caller: Employee) -> EmployeeId:
    """Whose entries are asked for: the caller's, or for admins those of whom they name."""
    named = request.query_params.get("employeeId")
    if named is None or named == caller.employee_id:
        return caller.employee_id
    caller.need_admin()
    if not EMPLOYEE_FORM.fullmatch(named):
        raise InvalidRequest("employeeId is no id of an employee.")
    return EmployeeId(named)


def _moment(request: Request, name: str) -> datetime | None:
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        # A plus sign that was not escaped arrives as a space.
        moment = datetime.fromisoformat(given.replace(" ", "+") if "T" in given else given)
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{name} is a moment with its zone, as 2026-11-15T00:00:00Z.") from None
