"""The OpenAPI description of the routes. Their endpoints take the request alone, so what they read of it is said here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from tripcortex.live.node_gateway import SIGNATURE_HEADER
from tripcortex.routes.asking import LIMIT_DEFAULT, LIMIT_MAX

Parameter = dict[str, Any]

CSV: Final = "text/csv"
ULID: Final = r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
SCHEMES: Final[dict[str, Any]] = {
    "Bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A session token of the employees' issuer (Clerk's shape). Admins have the role org:admin.",
    }
}


class Csv(Response):
    media_type = CSV


class Nothing(Response):
    """No content, or none that is described."""


def parameter(name: str, place: str, description: str, *, required: bool = False, **schema: Any) -> Parameter:
    told = {"name": name, "in": place, "description": description, "required": required or place == "path"}
    return {**told, "schema": {"type": "string", **schema}}


BOOKING_ID: Final = parameter("booking_id", "path", "The id of a booking, a ULID.", pattern=ULID)
POLICY_ID: Final = parameter("policy_id", "path", "The id of an edition of a policy.", format="uuid")
EDITION_ID: Final = parameter(
    "policy_id", "path", "The id of a policy document, or of any of its editions.", format="uuid"
)
CONNECTION_ID: Final = parameter("connection_id", "path", "The id of an open connection.")
SIGNATURE: Final = parameter(
    SIGNATURE_HEADER, "header", "t=…,v1=…: over time, connection and body.", required=True
)
CURSOR: Final = parameter("cursor", "query", "That of the page before; none for the first.")
LIMIT: Final = parameter(
    "limit",
    "query",
    "The most in one page.",
    type="integer",
    minimum=1,
    maximum=LIMIT_MAX,
    default=LIMIT_DEFAULT,
)
SINCE: Final = parameter(
    "since", "query", "From this moment on; 30 days before `until` where it is left out.", format="date-time"
)
UNTIL: Final = parameter(
    "until", "query", "Up to and with this moment; now where it is left out.", format="date-time"
)
EMPLOYEE: Final = parameter("employeeId", "query", "Whose; for admins. One's own where it is left out.")
FILE_NAME: Final = parameter("fileName", "query", "What the file is called, where its bytes are the body.")


def described(
    operation_id: str,
    summary: str,
    *,
    parameters: Sequence[Parameter] = (),
    takes: type[BaseModel] | Mapping[str, Any] | None = None,
    gives: type[BaseModel] | str | None = None,
    status: int = 200,
    proofs: Sequence[str] = ("Bearer",),
    told: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """What a route is declared with. `takes` is a model, or the content as OpenAPI has it; `gives` a model or a media type."""
    extra: dict[str, Any] = {"parameters": list(parameters)}
    if takes is not None:
        extra["requestBody"] = {"required": True, "content": _content(takes)}
    if proofs:
        extra["security"] = [{each: []} for each in proofs]
    words = {status: "Done.", **(told or {})}
    answers: dict[int | str, dict[str, Any]] = {each: {"description": word} for each, word in words.items()}
    if isinstance(gives, str):
        answers[status]["content"] = {gives: {"schema": {"type": "string"}}}
    elif gives is not None:
        answers[status]["model"] = gives
    return {
        "operation_id": operation_id,
        "summary": summary,
        "status_code": status,
        "response_model": None,
        "response_class": _response_class(gives),
        "responses": answers,
        "openapi_extra": extra,
    }


def described_schemes(app: FastAPI) -> None:
    """For `System.manners`: the description says how a caller proves itself."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        found = make()
        found.setdefault("components", {})["securitySchemes"] = SCHEMES
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def _response_class(gives: type[BaseModel] | str | None) -> type[Response]:
    if isinstance(gives, str):
        return Csv
    return Nothing if gives is None else JSONResponse


def _content(takes: type[BaseModel] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(takes, Mapping):
        return dict(takes)
    # By value: a reference would have to be put among the components of an app that is not made yet.
    return {"application/json": {"schema": takes.model_json_schema(by_alias=True)}}
