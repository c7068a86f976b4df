"""Parsing of HTTP requests: bounded bodies, headers and query parameters. Also builds FHIR responses."""

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

from pagw.api.routes.errors import Refused
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.fhir.parser import check_media_type
from pagw.domain.statuses import Status
from pagw.model.entities import FHIR_JSON, JSON

KEY_HEADER: Final = "x-idempotency-key"
CALLBACK_HEADER: Final = "x-callback-url"
IDEMPOTENCY_KEY: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
LIMIT_DEFAULT: Final = 50
MAX_LIMIT: Final = 200
MAX_CURSOR_CHARS: Final = 200
MAX_NUMBER_DIGITS: Final = 18
# The time for a whole body, so that slow senders do not hold a connection longer.
MAX_BODY_S: Final = 30.0
# Media types of which JSON is an acceptable response.
ACCEPTED_TYPES: Final = frozenset({FHIR_JSON, JSON, "application/*", "*/*", "text/json"})
FORMATS: Final = frozenset({"json", "text/json", FHIR_JSON, JSON})


class PagePosition(NamedTuple):
    """The position of a page: the time and id of the last item before it."""

    before: datetime
    before_id: str


def build_fhir_response(resource: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a resource as a FHIR JSON response."""
    body = json.dumps(resource, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(body, status, headers, media_type=FHIR_JSON)


def check_accept(request: Request) -> None:
    """Raise `Refused` (406) if the caller accepts no JSON. FHIR's `_format` takes precedence over the
    header.
    """
    format = request.query_params.get("_format")
    if format is not None:
        is_taken = format.partition(";")[0].strip().lower() in FORMATS
    else:
        accepted = [each.strip().lower() for each in request.headers.get("accept", "*/*").split(",")]
        is_taken = any(_is_accepted(each) for each in accepted if each) or not any(accepted)
    if not is_taken:
        raise Refused(406, build_error("not-supported", f"Invalid Accept: expected {FHIR_JSON} or {JSON}."))


def _is_accepted(accepted: str) -> bool:
    """Return whether one media range of an Accept header allows JSON."""
    media, *parameters = [part.strip() for part in accepted.split(";")]
    is_refused = any(re.fullmatch(r"q\s*=\s*0(\.0*)?", each) for each in parameters)
    return media in ACCEPTED_TYPES and not is_refused


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """Return a JSON body of at most `max_bytes`. Refuse another media type or an encoding (415), a larger
    body (413) and a slow one (408).
    """
    check_media_type(request.headers.get("content-type"))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(
            415, build_error("not-supported", "The body has a Content-Encoding. Send it without one.")
        )
    return await read_bounded_body(request, max_bytes)


async def read_bounded_body(request: Request, max_bytes: int) -> bytes:
    """Return a body of at most `max_bytes`. Refuse a larger one (413), by its Content-Length before reading,
    and one that takes longer than `MAX_BODY_S` (408).
    """
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise _build_size_error(max_bytes)
    try:
        async with asyncio.timeout(MAX_BODY_S):
            return await _read_body(request, max_bytes)
    except TimeoutError:
        wrong = f"The body was incomplete after {MAX_BODY_S:g} seconds. Send it faster."
        raise Refused(408, build_error("timeout", wrong), connection="close") from None


async def _read_body(request: Request, max_bytes: int) -> bytes:
    """Read the body. Raise `FhirRefused` (413) as soon as it exceeds `max_bytes`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _build_size_error(max_bytes)
    return bytes(body)


def _build_size_error(max_bytes: int) -> FhirRefused:
    """Build the 413 for a body that is too large."""
    return FhirRefused([build_error("too-long", f"The body is larger than {max_bytes} bytes.")], 413)


def parse_idempotency_key(request: Request, *, is_required: bool) -> str | None:
    """Return the idempotency key header, or None if it is absent and not required. Raise `Refused` (400)."""
    given = request.headers.get(KEY_HEADER)
    if given is None:
        if is_required:
            wrong = (
                "The header X-Idempotency-Key is missing. Send a unique key per request, and the same to "
                "repeat it."
            )
            raise Refused(400, build_error("required", wrong))
        return None
    if not IDEMPOTENCY_KEY.fullmatch(given):
        wrong = "Invalid X-Idempotency-Key: expected 1 to 128 letters, digits and - _ . :"
        raise Refused(400, build_error("value", wrong))
    return given


# --- pages --------------------------------------------------------------------------------------------------


def parse_limit(request: Request) -> int:
    """Return the query parameter `limit`, by default `LIMIT_DEFAULT`. Raise `Refused` (400) unless it is 1 to
    `MAX_LIMIT`.
    """
    given = request.query_params.get("limit", str(LIMIT_DEFAULT))
    if not (given.isascii() and given.isdigit() and len(given) < 10 and 1 <= int(given) <= MAX_LIMIT):
        raise Refused(
            400, build_error("value", f"Invalid limit: expected an integer from 1 to {MAX_LIMIT}.", "limit")
        )
    return int(given)


def parse_status(request: Request) -> Status | None:
    """Return the query parameter `status`, or None if absent. Raise `Refused` (400) for an unknown one."""
    given = request.query_params.get("status")
    if given is None:
        return None
    try:
        return Status(given)
    except ValueError:
        raise Refused(
            400, build_error("value", f"Invalid status: expected one of {', '.join(Status)}.", "status")
        ) from None


def parse_cursor(request: Request) -> PagePosition | None:
    """Return the position in the query parameter `cursor`, or None if absent. Raise `Refused` (400).

    The cursor names no tenant: callers see only their own requests.
    """
    given = request.query_params.get("cursor")
    if given is None:
        return None
    try:
        if len(given) > MAX_CURSOR_CHARS:
            raise ValueError
        at, id = base64.urlsafe_b64decode(given.encode("ascii")).decode("ascii").split("|")
        place = PagePosition(datetime.fromisoformat(at), id)
        if place.before.tzinfo is None or "\x00" in id:
            raise ValueError
        # The gateway never issued a cursor whose UTC date is out of range.
        place.before.astimezone(UTC)
    except (ValueError, OverflowError, binascii.Error, UnicodeError):
        raise _build_cursor_error() from None
    return place


def build_cursor(created_at: datetime, id: str) -> str:
    """Return the cursor of the page after this item."""
    return base64.urlsafe_b64encode(f"{created_at.isoformat()}|{id}".encode()).decode()


def parse_number_cursor(request: Request) -> int:
    """Return the number in the query parameter `cursor`; 0 for the first page. Raise `Refused` (400)."""
    given = request.query_params.get("cursor", "0")
    if not (given.isascii() and given.isdigit() and len(given) < MAX_NUMBER_DIGITS):
        raise _build_cursor_error()
    return int(given)


def _build_cursor_error() -> Refused:
    """Build the 400 for an invalid cursor."""
    wrong = "Invalid cursor: expected the cursor from the previous page. Leave it out for the first page."
    return Refused(400, build_error("value", wrong, "cursor"))
