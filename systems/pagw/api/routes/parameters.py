"""Parameters of the routes: ids in the path, pages, FHIR bodies and accepted media types."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Header, Path
from pydantic import BaseModel, Field
from starlette.requests import Request

from holdfast.web import BytesBody, PageRequest, build_page_request
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.fhir.parser import check_media_type
from pagw.domain.webhook_addresses import MAX_ADDRESS_CHARS
from pagw.model.entities import FHIR_JSON, JSON

MAX_CURSOR_CHARS: Final = 200
MAX_NUMBER_DIGITS: Final = 18
# Media types of which JSON is an acceptable response.
ACCEPTED_TYPES: Final = frozenset({FHIR_JSON, JSON, "application/*", "*/*", "text/json"})
FORMATS: Final = frozenset({"json", "text/json", FHIR_JSON, JSON})

# An id of another form is one of no request (404), so the pattern is only described.
PagwId = Annotated[
    str,
    Path(
        description="The id of a request.",
        json_schema_extra={"pattern": "^PAGW-[0-9A-HJKMNP-TV-Z]{26}$"},
    ),
]
SubscriptionId = Annotated[str, Path(description="The id of a subscription.")]
RequestedPage = Annotated[PageRequest, Depends(build_page_request(50, 200))]
# The address is checked later (422), so its form is only described.
CallbackUrl = Annotated[
    Annotated[str, Field(json_schema_extra={"format": "uri", "maxLength": MAX_ADDRESS_CHARS})] | None,
    Header(
        alias="x-callback-url",
        description="The URL to notify when the request ends. It must not have a query or contain patient "
        "data.",
    ),
]


class FhirBody(BytesBody):
    """A dependency that returns a FHIR resource as bytes. `resource` describes it in OpenAPI."""

    def __init__(self, resource: type[BaseModel], max_bytes: int) -> None:
        super().__init__(max_bytes, media_types=(FHIR_JSON, JSON), model=resource)

    def check_media_type(self, header: str) -> None:
        """Raise `FhirRefused` (415) for another media type or another version of FHIR."""
        check_media_type(header)


def check_accept(request: Request) -> None:
    """Raise `FhirRefused` (406) if the caller accepts no JSON. FHIR's `_format` takes precedence over the
    header.
    """
    format = request.query_params.get("_format")
    if format is not None:
        is_taken = format.partition(";")[0].strip().lower() in FORMATS
    else:
        accepted = [each.strip().lower() for each in request.headers.get("accept", "*/*").split(",")]
        is_taken = any(_is_accepted(each) for each in accepted if each) or not any(accepted)
    if not is_taken:
        wrong = f"Invalid Accept: expected {FHIR_JSON} or {JSON}."
        raise FhirRefused([build_error("not-supported", wrong)], 406)


def _is_accepted(accepted: str) -> bool:
    """Return whether one media range of an Accept header allows JSON."""
    media, *parameters = [part.strip() for part in accepted.split(";")]
    is_refused = any(re.fullmatch(r"q\s*=\s*0(\.0*)?", each) for each in parameters)
    return media in ACCEPTED_TYPES and not is_refused


# --- cursors ------------------------------------------------------------------------------------------------


class PagePosition(NamedTuple):
    """The position of a page: the time and id of the last item before it."""

    before: datetime
    before_id: str


def parse_cursor(cursor: str | None) -> PagePosition | None:
    """Return the position that a cursor names, or None for the first page. Raise `FhirRefused` (400).

    The cursor names no tenant: callers see only their own requests.
    """
    if cursor is None:
        return None
    try:
        if len(cursor) > MAX_CURSOR_CHARS:
            raise ValueError
        at, id = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii").split("|")
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


def parse_number_cursor(cursor: str | None) -> int:
    """Return the number that a cursor names; 0 for the first page. Raise `FhirRefused` (400)."""
    given = cursor or "0"
    if not (given.isascii() and given.isdigit() and len(given) < MAX_NUMBER_DIGITS):
        raise _build_cursor_error()
    return int(given)


def _build_cursor_error() -> FhirRefused:
    """Build the 400 for an invalid cursor."""
    wrong = "Invalid cursor: expected the cursor from the previous page. Leave it out for the first page."
    return FhirRefused([build_error("value", wrong, "cursor")], 400)
