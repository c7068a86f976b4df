"""What a request to the gateway asks, taken apart: its body within bounds, its headers, its parameters."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from pagw.fhir.outcomes import FhirRefused, error
from pagw.fhir.reading import check_media_type
from pagw.model import FHIR_JSON, JSON
from pagw.routes.refusals import Refused
from pagw.statuses import Status

KEY_HEADER: Final = "x-idempotency-key"
CALLBACK_HEADER: Final = "x-callback-url"
IDEMPOTENCY_KEY: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 200
CURSOR_CHARS_MAX: Final = 200
NUMBER_DIGITS_MAX: Final = 18
# For a whole body: whoever sends a byte now and then holds its place no longer than this.
BODY_S_MAX: Final = 30.0
# What is answered: JSON, whichever of its names is asked for.
ANSWERED: Final = frozenset({FHIR_JSON, JSON, "application/*", "*/*", "text/json"})
FORMATS: Final = frozenset({"json", "text/json", FHIR_JSON, JSON})


class Place(NamedTuple):
    """Where a page goes on: at this moment, and by the id of what was last."""

    before: datetime
    before_id: str


def fhir_answer(resource: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(resource, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(body, status, headers, media_type=FHIR_JSON)


def check_accept(request: Request) -> None:
    """406 where the caller takes nothing that is answered here. FHIR's `_format` counts more than the header."""
    asked = request.query_params.get("_format")
    if asked is not None:
        is_taken = asked.partition(";")[0].strip().lower() in FORMATS
    else:
        accepted = [each.strip().lower() for each in request.headers.get("accept", "*/*").split(",")]
        is_taken = any(_is_taken(each) for each in accepted if each) or not any(accepted)
    if not is_taken:
        raise Refused(406, error("not-supported", f"Answers are {FHIR_JSON} or {JSON}: accept one of these."))


def _is_taken(accepted: str) -> bool:
    media, *parameters = [part.strip() for part in accepted.split(";")]
    is_refused = any(re.fullmatch(r"q\s*=\s*0(\.0*)?", each) for each in parameters)
    return media in ANSWERED and not is_refused


async def json_body(request: Request, bytes_max: int) -> bytes:
    """A body that says it is JSON, and is no larger than this."""
    check_media_type(request.headers.get("content-type"))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, error("not-supported", "The body is encoded: send it as it is."))
    return await bounded_body(request, bytes_max)


async def bounded_body(request: Request, bytes_max: int) -> bytes:
    """One that says it is too large is refused unread; one that does not say, where it becomes so."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(bytes_max)
    try:
        async with asyncio.timeout(BODY_S_MAX):
            return await _read(request, bytes_max)
    except TimeoutError:
        wrong = f"The body was not whole after {BODY_S_MAX:g} seconds: send it at once."
        raise Refused(408, error("timeout", wrong), connection="close") from None


async def _read(request: Request, bytes_max: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
    return bytes(body)


def _too_large(bytes_max: int) -> FhirRefused:
    return FhirRefused([error("too-long", f"The body is larger than {bytes_max} bytes.")], 413)


def idempotency_key(request: Request, *, is_needed: bool) -> str | None:
    given = request.headers.get(KEY_HEADER)
    if given is None:
        if is_needed:
            wrong = (
                "The header X-Idempotency-Key is missing: name each request, and repeat it under its name."
            )
            raise Refused(400, error("required", wrong))
        return None
    if not IDEMPOTENCY_KEY.fullmatch(given):
        wrong = "X-Idempotency-Key is made of letters, digits and - _ . :, up to 128 of them."
        raise Refused(400, error("value", wrong))
    return given


# --- pages --------------------------------------------------------------------------------------------------


def limit_of(request: Request) -> int:
    given = request.query_params.get("limit", str(LIMIT_DEFAULT))
    if not (given.isascii() and given.isdigit() and len(given) < 10 and 1 <= int(given) <= LIMIT_MAX):
        raise Refused(400, error("value", f"limit is a whole number from 1 to {LIMIT_MAX}.", "limit"))
    return int(given)


def status_of(request: Request) -> Status | None:
    given = request.query_params.get("status")
    if given is None:
        return None
    try:
        return Status(given)
    except ValueError:
        raise Refused(400, error("value", f"status is one of {', '.join(Status)}.", "status")) from None


def place_of(request: Request) -> Place | None:
    """By the cursor of the page before. It names a place and no tenant: whoever uses it sees its own requests alone."""
    given = request.query_params.get("cursor")
    if given is None:
        return None
    try:
        if len(given) > CURSOR_CHARS_MAX:
            raise ValueError
        at, id = base64.urlsafe_b64decode(given.encode("ascii")).decode("ascii").split("|")
        place = Place(datetime.fromisoformat(at), id)
        if place.before.tzinfo is None or "\x00" in id:
            raise ValueError
        # One whose day in UTC is before the first year or after the last is none that we gave.
        place.before.astimezone(UTC)
    except (ValueError, OverflowError, binascii.Error, UnicodeError):
        raise _no_cursor() from None
    return place


def cursor_after(created_at: datetime, id: str) -> str:
    return base64.urlsafe_b64encode(f"{created_at.isoformat()}|{id}".encode()).decode()


def number_of(request: Request) -> int:
    """The cursor of a page of what is numbered; 0 for the first."""
    given = request.query_params.get("cursor", "0")
    if not (given.isascii() and given.isdigit() and len(given) < NUMBER_DIGITS_MAX):
        raise _no_cursor()
    return int(given)


def _no_cursor() -> Refused:
    wrong = "This is no cursor of a page before: leave it out for the first page."
    return Refused(400, error("value", wrong, "cursor"))
