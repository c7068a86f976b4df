"""The OpenAPI description of the routes, written by hand because the endpoints take only the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from pagw.api.routes.parameters import CALLBACK_HEADER, IDEMPOTENCY_KEY, KEY_HEADER, LIMIT_DEFAULT, MAX_LIMIT
from pagw.domain.statuses import Status
from pagw.domain.webhook_addresses import MAX_ADDRESS_CHARS
from pagw.model.entities import FHIR_JSON, JSON

Parameter = dict[str, Any]

# On reads, a session may replace a token.
READ_SCHEMES: Final = ("Bearer", "Session", "SessionCookie")
SESSION_SCHEMES: Final = ("Session", "SessionCookie")


class FhirJson(Response):
    """A response with a FHIR resource."""

    media_type = FHIR_JSON


class AnyFile(Response):
    """A response with a file."""

    media_type = "application/octet-stream"


def build_parameter(
    name: str, place: str, description: str, *, required: bool = False, **schema: Any
) -> Parameter:
    """Build the description of a parameter. `place` is path, query or header; `schema` are JSON Schema
    keywords, by default of a string.
    """
    base = {"name": name, "in": place, "description": description, "required": required or place == "path"}
    return {**base, "schema": {"type": "string", **schema}}


PAGW_ID: Final = build_parameter(
    "pagw_id", "path", "The id of a request.", pattern=r"^PAGW-[0-9A-HJKMNP-TV-Z]{26}$"
)
ATTACHMENT: Final = build_parameter(
    "name", "path", "The name of an attachment, for example attachment_001.pdf."
)
PAYER_ID: Final = build_parameter("payer_id", "path", "The id of a payer.")
SUBSCRIPTION_ID: Final = build_parameter("subscription_id", "path", "The id of a subscription.")
KEY: Final = build_parameter(
    KEY_HEADER,
    "header",
    "The client's unique key for this request. Repeating a request under the same key returns the same "
    "response without processing it again. The key must not contain patient data.",
    required=True,
    pattern=f"^{IDEMPOTENCY_KEY.pattern}$",
)
OPTIONAL_KEY: Final = {
    **KEY,
    "required": False,
    "description": "The client's unique key for this request. The default is the identifier of the Bundle.",
}
CALLBACK: Final = build_parameter(
    CALLBACK_HEADER,
    "header",
    "The URL to notify when the request ends. It must not have a query or contain patient data.",
    format="uri",
    maxLength=MAX_ADDRESS_CHARS,
)
STATUS: Final = build_parameter(
    "status", "query", "Return only requests with this status.", enum=[each.value for each in Status]
)
CURSOR: Final = build_parameter(
    "cursor", "query", "The cursor from the previous page. Leave it out for the first page."
)
LIMIT: Final = build_parameter(
    "limit",
    "query",
    "The maximum number of items in a page.",
    type="integer",
    minimum=1,
    maximum=MAX_LIMIT,
    default=LIMIT_DEFAULT,
)
SIGNATURE: Final = build_parameter(
    "x-payer-signature",
    "header",
    "t=TIMESTAMP,v1=SIGNATURE: HMAC-SHA256 of TIMESTAMP.BODY, in hex, with the payer's callback secret.",
    required=True,
)


def describe_route(
    operation_id: str,
    summary: str,
    *,
    parameters: Sequence[Parameter] = (),
    takes: str | None = None,
    gives: str | type[BaseModel] | None = None,
    status: int = 200,
    schemes: Sequence[str] = ("Bearer",),
    descriptions: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments that declare a route.

    `takes` and `gives` name a FHIR resource type; `gives` may also be a view, or None for a file. `schemes`
    are the security schemes that the route accepts.
    """
    extra: dict[str, Any] = {"parameters": list(parameters)}
    if takes is not None:
        content = {media: {"schema": build_resource_schema(takes)} for media in (FHIR_JSON, JSON)}
        extra["requestBody"] = {"required": True, "content": content}
    if schemes:
        extra["security"] = [{each: []} for each in schemes]
    answer: dict[str, Any] = {"description": (descriptions or {}).get(status, "Success.")}
    if isinstance(gives, str):
        answer["content"] = {FHIR_JSON: {"schema": build_resource_schema(gives)}}
    elif gives is not None:
        answer["model"] = gives
    return {
        "operation_id": operation_id,
        "summary": summary,
        "status_code": status,
        "response_model": None,
        "response_class": _get_response_class(gives),
        "responses": {status: answer},
        "openapi_extra": extra,
    }


def _get_response_class(gives: str | type[BaseModel] | None) -> type[Response]:
    """Return the response class for `gives` of `describe_route`: FHIR JSON, JSON, or a file for None."""
    if isinstance(gives, str):
        return FhirJson
    return AnyFile if gives is None else JSONResponse


def build_resource_schema(kind: str) -> dict[str, Any]:
    """Build the schema of a FHIR resource: its type only, because FHIR defines the rest."""
    properties = {"resourceType": {"const": kind}}
    return {"type": "object", "title": kind, "properties": properties, "required": ["resourceType"]}
