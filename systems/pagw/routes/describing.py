"""The OpenAPI description of the routes. Their endpoints take the request alone, so what they read of it is said here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from pagw.callable_addresses import ADDRESS_CHARS_MAX
from pagw.model import FHIR_JSON, JSON
from pagw.routes.asking import CALLBACK_HEADER, IDEMPOTENCY_KEY, KEY_HEADER, LIMIT_DEFAULT, LIMIT_MAX
from pagw.statuses import Status

Parameter = dict[str, Any]

# On reads, a session may stand for a token.
READS: Final = ("Bearer", "Session", "SessionCookie")
ENDS: Final = ("Session", "SessionCookie")


class FhirJson(Response):
    media_type = FHIR_JSON


class AnyFile(Response):
    media_type = "application/octet-stream"


def parameter(name: str, place: str, description: str, *, required: bool = False, **schema: Any) -> Parameter:
    told = {"name": name, "in": place, "description": description, "required": required or place == "path"}
    return {**told, "schema": {"type": "string", **schema}}


PAGW_ID: Final = parameter(
    "pagw_id", "path", "The id of a request.", pattern=r"^PAGW-[0-9A-HJKMNP-TV-Z]{26}$"
)
ATTACHMENT: Final = parameter("name", "path", "The name of an attachment: attachment_001.pdf")
PAYER_ID: Final = parameter("payer_id", "path", "The id of a payer.")
SUBSCRIPTION_ID: Final = parameter("subscription_id", "path", "The id of a subscription.")
KEY: Final = parameter(
    KEY_HEADER,
    "header",
    "The client's name of this request: repeated, it gives the same answer and does nothing again. Nothing of the patient "
    "is in it.",
    required=True,
    pattern=f"^{IDEMPOTENCY_KEY.pattern}$",
)
KEY_IF_ANY: Final = {
    **KEY,
    "required": False,
    "description": "As for native requests; without it, the identifier of the Bundle.",
}
CALLBACK: Final = parameter(
    CALLBACK_HEADER,
    "header",
    "Where to be told when it is decided: an address without a query, and with nothing of the patient in it.",
    format="uri",
    maxLength=ADDRESS_CHARS_MAX,
)
STATUS: Final = parameter(
    "status", "query", "Only those that stand so.", enum=[each.value for each in Status]
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
SIGNATURE: Final = parameter(
    "x-payer-signature", "header", "t=…,v1=…: over time and body, by the payer's secret.", required=True
)


def described(
    operation_id: str,
    summary: str,
    *,
    parameters: Sequence[Parameter] = (),
    takes: str | None = None,
    gives: str | type[BaseModel] | None = None,
    status: int = 200,
    proofs: Sequence[str] = ("Bearer",),
    told: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """What a route is declared with. `takes` and `gives` name a FHIR resource; `gives` may be a model of ours, or nothing:
    a file. `proofs` are the ways in which a caller may say who it is.
    """
    extra: dict[str, Any] = {"parameters": list(parameters)}
    if takes is not None:
        content = {media: {"schema": resource(takes)} for media in (FHIR_JSON, JSON)}
        extra["requestBody"] = {"required": True, "content": content}
    if proofs:
        extra["security"] = [{each: []} for each in proofs]
    answer: dict[str, Any] = {"description": (told or {}).get(status, "Done.")}
    if isinstance(gives, str):
        answer["content"] = {FHIR_JSON: {"schema": resource(gives)}}
    elif gives is not None:
        answer["model"] = gives
    return {
        "operation_id": operation_id,
        "summary": summary,
        "status_code": status,
        "response_model": None,
        "response_class": _response_class(gives),
        "responses": {status: answer},
        "openapi_extra": extra,
    }


def _response_class(gives: str | type[BaseModel] | None) -> type[Response]:
    if isinstance(gives, str):
        return FhirJson
    return AnyFile if gives is None else JSONResponse


def resource(kind: str) -> dict[str, Any]:
    """A resource is described by FHIR and not anew."""
    told = {"resourceType": {"const": kind}}
    return {"type": "object", "title": kind, "properties": told, "required": ["resourceType"]}
