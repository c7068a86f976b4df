"""OpenAPI descriptions of the routes: shared parameters, `describe` for one route, security schemes.

Endpoints take the request alone, so FastAPI cannot derive their parameters: they are declared here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from tripcortex.api.routes.request_params import LIMIT_DEFAULT, MAX_LIMIT
from tripcortex.api.websocket.node_gateway import SIGNATURE_HEADER

Parameter = dict[str, Any]

CSV: Final = "text/csv"
ULID: Final = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
SCHEMES: Final[dict[str, Any]] = {
    "Bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": (
            "A session token from the employees' token issuer, in Clerk's format. Admins have the "
            "role org:admin."
        ),
    }
}


class Csv(Response):
    """The response class of a route that answers CSV, for its media type in OpenAPI."""

    media_type = CSV


class NoContent(Response):
    """A response without content, or without described content."""


def build_parameter(
    name: str, place: str, description: str, *, required: bool = False, **schema: Any
) -> Parameter:
    """Return an OpenAPI parameter; `place` is path, query or header, `schema` extends the type string.

    Path parameters are always required.
    """
    parameter = {
        "name": name,
        "in": place,
        "description": description,
        "required": required or place == "path",
    }
    return {**parameter, "schema": {"type": "string", **schema}}


BOOKING_ID: Final = build_parameter("booking_id", "path", "The id of a booking, a ULID.", pattern=ULID)
POLICY_ID: Final = build_parameter("policy_id", "path", "The id of an edition of a policy.", format="uuid")
EDITION_ID: Final = build_parameter(
    "policy_id", "path", "The id of a policy document, or of any of its editions.", format="uuid"
)
CONNECTION_ID: Final = build_parameter("connection_id", "path", "The id of an open connection.")
SIGNATURE: Final = build_parameter(
    SIGNATURE_HEADER,
    "header",
    "t=TIMESTAMP,v1=SIGNATURE, computed from timestamp, connection id and body.",
    required=True,
)
CURSOR: Final = build_parameter("cursor", "query", "The cursor of the previous page; omit it for the first.")
LIMIT: Final = build_parameter(
    "limit",
    "query",
    "The maximum number of items in a page.",
    type="integer",
    minimum=1,
    maximum=MAX_LIMIT,
    default=LIMIT_DEFAULT,
)
SINCE: Final = build_parameter(
    "since", "query", "Start of the range, inclusive; default: 30 days before `until`.", format="date-time"
)
UNTIL: Final = build_parameter(
    "until", "query", "End of the range, inclusive; default: now.", format="date-time"
)
EMPLOYEE: Final = build_parameter(
    "employeeId", "query", "The employee whose entries to return; only for admins. Default: the caller."
)
FILE_NAME: Final = build_parameter(
    "fileName", "query", "The name of the file. Needed if the body is the file itself."
)


def describe(
    operation_id: str,
    summary: str,
    *,
    parameters: Sequence[Parameter] = (),
    request_body: type[BaseModel] | Mapping[str, Any] | None = None,
    response: type[BaseModel] | str | None = None,
    status: int = 200,
    schemes: Sequence[str] = ("Bearer",),
    descriptions: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments of a FastAPI route decorator that describe the route in OpenAPI.

    `request_body` is a model or OpenAPI content; `response` is a model or a media type; `descriptions` are by
    status.
    """
    extra: dict[str, Any] = {"parameters": list(parameters)}
    if request_body is not None:
        extra["requestBody"] = {"required": True, "content": _build_content(request_body)}
    if schemes:
        extra["security"] = [{each: []} for each in schemes]
    words = {status: "Success.", **(descriptions or {})}
    answers: dict[int | str, dict[str, Any]] = {each: {"description": word} for each, word in words.items()}
    if isinstance(response, str):
        answers[status]["content"] = {response: {"schema": {"type": "string"}}}
    elif response is not None:
        answers[status]["model"] = response
    return {
        "operation_id": operation_id,
        "summary": summary,
        "status_code": status,
        "response_model": None,
        "response_class": _get_response_class(response),
        "responses": answers,
        "openapi_extra": extra,
    }


def add_security_schemes(app: FastAPI) -> None:
    """Make `app.openapi()` include the security schemes; for `System.configure_app`."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        found = make()
        found.setdefault("components", {})["securitySchemes"] = SCHEMES
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def _get_response_class(response: type[BaseModel] | str | None) -> type[Response]:
    """Return the response class for OpenAPI: CSV for a media type, none for no response, else JSON."""
    if isinstance(response, str):
        return Csv
    return NoContent if response is None else JSONResponse


def _build_content(request_body: type[BaseModel] | Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenAPI content: a mapping as given, a model as inline JSON Schema."""
    if isinstance(request_body, Mapping):
        return dict(request_body)
    # Inline: a reference would need the components of an app that does not exist yet.
    return {"application/json": {"schema": request_body.model_json_schema(by_alias=True)}}
