"""Parsing of requests: the body within limits of size and time, and the query parameters of lists."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from holdfast.core.clock import Clock
from holdfast.core.errors import InvalidRequest
from tripcortex.api.identity import EMPLOYEE_FORM, Employee
from tripcortex.model.entities import EmployeeId

LIMIT_DEFAULT: Final = 20
MAX_LIMIT: Final = 200
MAX_CURSOR_CHARS: Final = 10_000
MAX_JSON_BYTES: Final = 64 * 1024
# For the whole body, so that a client that sends single bytes does not hold a connection longer.
MAX_BODY_S: Final = 60.0
# The document's default: the last 30 days.
RANGE_DAYS: Final = 30
TOO_LARGE: Final = 413
TIMED_OUT: Final = 408

M = TypeVar("M", bound=BaseModel)


class Range(NamedTuple):
    """A time range in UTC, both ends inclusive."""

    since: datetime
    until: datetime


async def parse_json(request: Request, model: type[M]) -> M:
    """Parse the JSON body, at most 64 KiB; an empty body counts as `{}`.

    Raise pydantic's `ValidationError`, which is answered without the input.
    """
    return model.model_validate_json(await read_body(request, MAX_JSON_BYTES) or b"{}")


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Read the body.

    Raise 413 if its declared or actual length is above `bytes_max`, 408 after 60 seconds.
    """
    _refuse_too_large(request, bytes_max)
    try:
        async with asyncio.timeout(MAX_BODY_S):
            return await _read_stream(request, bytes_max)
    except TimeoutError:
        raise HTTPException(TIMED_OUT, "The body did not arrive in time. Send it without pauses.") from None


def limit_body(request: Request, bytes_max: int) -> Request:
    """Return the request with its body limited to `bytes_max`, for code that reads it itself (a form).

    Unlike `read_body` it has no time limit.
    """
    _refuse_too_large(request, bytes_max)
    read = 0

    async def receive() -> Message:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > bytes_max:
            raise _build_too_large(bytes_max)
        return message

    return Request(request.scope, receive)


def _refuse_too_large(request: Request, bytes_max: int) -> None:
    """Raise 413 if the declared content length is above the limit."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _build_too_large(bytes_max)


async def _read_stream(request: Request, bytes_max: int) -> bytes:
    """Read the body in chunks. Raise 413 as soon as it is above the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise _build_too_large(bytes_max)
    return bytes(body)


def _build_too_large(bytes_max: int) -> HTTPException:
    """Return the 413 error; the caller raises it."""
    return HTTPException(TOO_LARGE, f"The body is larger than the limit of {bytes_max} bytes.")


def parse_limit(request: Request) -> int:
    """Return the page size `limit`, 20 by default. Raise `InvalidRequest` unless it is from 1 to 200."""
    given = request.query_params.get("limit", str(LIMIT_DEFAULT))
    if not (given.isascii() and given.isdigit() and len(given) < 10 and 1 <= int(given) <= MAX_LIMIT):
        raise InvalidRequest(f"Invalid limit: expected an integer from 1 to {MAX_LIMIT}.")
    return int(given)


def parse_cursor(request: Request) -> str | None:
    """Return the parameter `cursor`, or None for the first page. Raise `InvalidRequest` for a bad length.

    A cursor holds a position but no partition, so every caller sees only their own data.
    """
    given = request.query_params.get("cursor")
    if given is not None and not 1 <= len(given) <= MAX_CURSOR_CHARS:
        raise InvalidRequest(
            "Invalid cursor: send the cursor of the previous page, or none for the first page."
        )
    return given


def parse_range(request: Request, clock: Clock) -> Range:
    """Return the range of `since` and `until`. `until` defaults to now, `since` to 30 days before it.

    Raise `InvalidRequest` if a time is invalid or `since` is later than `until`.
    """
    until = _parse_time(request, "until") or datetime.fromtimestamp(clock.now(), UTC)
    try:
        since = _parse_time(request, "since") or until - timedelta(days=RANGE_DAYS)
    except OverflowError:
        raise InvalidRequest("Invalid until: 30 days before it is out of range. Send since too.") from None
    if since > until:
        raise InvalidRequest("Invalid range: since is after until.")
    return Range(since, until)


def parse_employee(request: Request, caller: Employee) -> EmployeeId:
    """Return the employee whose entries are requested: the one in `employeeId`, by default the caller.

    Raise `CallerForbidden` if a caller who is not an admin names another employee.
    """
    named = request.query_params.get("employeeId")
    if named is None or named == caller.employee_id:
        return caller.employee_id
    caller.require_admin()
    if not EMPLOYEE_FORM.fullmatch(named):
        raise InvalidRequest("Invalid employeeId: expected the id of an employee.")
    return EmployeeId(named)


def _parse_time(request: Request, name: str) -> datetime | None:
    """Return the parameter `name` in UTC, or None if absent. Raise `InvalidRequest` without a time zone."""
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
        raise InvalidRequest(
            f"Invalid {name}: expected a time with its zone, such as 2026-11-15T00:00:00Z."
        ) from None
