"""How the gateway refuses: whatever goes wrong on whatever route, one OperationOutcome with the status that fits.

An error that a route raises becomes a `Refusal` (`refusal_of`). What is refused around the routes, by the framework and the
host, is a problem (RFC 9457) and is told anew on its way out (`OutcomesAlone`); the OpenAPI description says so
(`outcome_manners`). Neither what a client sent nor why a store failed is ever told.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import (
    CallerRefused,
    HoldfastError,
    IdempotencyMismatch,
    InProgress,
    TargetRefused,
    error_label,
)
from holdfast.web import PROBLEM_JSON, problem_of
from holdfast.web.tokens import refusal_headers
from pagw.attachments import AttachmentRefused
from pagw.fhir.outcomes import Code, FhirRefused, Issue, error, outcome
from pagw.model import FHIR_JSON

CODES: Final[Mapping[int, Code]] = {
    400: "invalid",
    401: "login",
    403: "forbidden",
    404: "not-found",
    405: "not-supported",
    406: "not-supported",
    408: "timeout",
    409: "conflict",
    413: "too-long",
    415: "not-supported",
    422: "business-rule",
    429: "throttled",
    503: "transient",
    504: "timeout",
}
TOKEN_CODES: Final[Mapping[str, Code]] = {"TokenExpired": "expired", "SessionEnded": "expired"}
# Of these a problem's own words would repeat the address, which may have been anything.
TEXTS: Final = {
    404: "There is nothing at this address. /openapi.json lists what there is.",
    405: "This address does not take this method: the header Allow says which it takes.",
    413: "The body is larger than this address takes. Send less at once.",
}
# Of errors of ours and of stores, by their status: what the client can do about it.
OWN_TEXTS: Final = {
    400: "The gateway cannot take this as it was sent: a value has another form or length than it takes.",
    404: "There is nothing of this name.",
    409: "Something else was done with this at the same moment: read it again, then decide.",
    429: "These are more calls than are taken in a minute: come again after the time in Retry-After.",
    503: "The gateway cannot do this just now: come again after the time in Retry-After.",
}
UNEXPECTED: Final = "The gateway failed in a way that it does not know. Please report it."
ABOUT_STATUS: Final = "about:blank"
ERROR: Final = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    status: int
    issues: Sequence[Issue]
    headers: Mapping[str, str] = field(default_factory=dict)
    # For the audit: our own word for why, and whether it is written there at all.
    reason: str | None = None
    is_audited: bool = True

    def response(self) -> Response:
        return Response(
            json.dumps(outcome(self.issues)), self.status, dict(self.headers), media_type=FHIR_JSON
        )


class Refused(Exception):
    """What a route itself refuses, where no error of ours says it."""

    def __init__(self, status: int, issue: Issue, *, is_audited: bool = True, **headers: str) -> None:
        super().__init__(issue.diagnostics)
        self.refusal = Refusal(status, [issue], headers, is_audited=is_audited)


async def refusal_of(request: Request, failure: Exception) -> Refusal:
    match failure:
        case Refused():
            return failure.refusal
        case FhirRefused():
            return Refusal(failure.status, failure.issues)
        case AttachmentRefused():
            return Refusal(422, [_of_attachment(failure)])
        case CallerRefused():
            code = TOKEN_CODES.get(failure.code, CODES[failure.http_status])
            issue = error(code, f"{failure.code}: {failure.message}")
            return Refusal(failure.http_status, [issue], refusal_headers(failure), failure.code)
        case TargetRefused():
            return Refusal(422, [error("value", failure.message)])
        case IdempotencyMismatch():
            return Refusal(422, [error("conflict", failure.message)])
        case InProgress():
            told = await _told_problem(request, failure, "duplicate")
            # One for each copy of a request would be a flood.
            return replace(told, is_audited=False)
        case ClientDisconnect():
            return Refusal(400, [error("structure", "The body ended before it was whole.")])
    try:
        told = await _told_problem(request, failure)
        return _in_our_words(request, failure, told) if isinstance(failure, HoldfastError) else told
    except Exception as unknown:
        return _unexpected(request, unknown)


def _of_attachment(failure: AttachmentRefused) -> Issue:
    code: Any = failure.code
    return error(code, failure.message, failure.expression)


async def _told_problem(request: Request, failure: Exception, code: Code | None = None) -> Refusal:
    """As the house tells its errors: its words, its headers, its log for the operator."""
    answer = await problem_of(request, failure)
    kept = {name: value for name, value in answer.headers.items() if name in ("retry-after", "allow")}
    return Refusal(answer.status_code, [_issue(json.loads(bytes(answer.body)), code)], kept)


def _in_our_words(request: Request, failure: HoldfastError, told: Refusal) -> Refusal:
    """An error of a store names its statements, tables and keys: a client is told none of it, the log its kind."""
    if told.status in (400, 409):
        log.warning("%s %s: %s", request.method, route_of(request), error_label(failure))
    words = OWN_TEXTS.get(told.status)
    return told if words is None else replace(told, issues=[replace(told.issues[0], diagnostics=words)])


def route_of(request: Request) -> str:
    """The address without what was named in it, which may have been anything: /pas/requests/{pagw_id}/bundle."""
    names = {str(value): f"{{{name}}}" for name, value in request.path_params.items()}
    return "/".join(names.get(part, part) for part in request.scope["path"].split("/"))


def _unexpected(request: Request, failure: Exception) -> Refusal:
    """The log has where it happened and not what was said there: that may have been a patient's."""
    places = "".join(traceback.format_tb(failure.__traceback__))
    log.error("%s %s: %s\n%s", request.method, route_of(request), error_label(failure), places)
    return Refusal(ERROR, [Issue("fatal", "exception", UNEXPECTED)])


def _issue(problem: Mapping[str, Any], code: Code | None = None) -> Issue:
    status = int(problem.get("status", ERROR))
    is_plain = problem.get("type") == ABOUT_STATUS
    told = TEXTS.get(status) if is_plain else None
    return Issue(
        "fatal" if status == ERROR else "error",
        code or CODES.get(status, "exception"),
        told or str(problem.get("detail", UNEXPECTED)),
    )


# --- what is refused around the routes ----------------------------------------------------------------------


def outcome_manners(app: FastAPI) -> None:
    """The app's failures are OperationOutcomes from here on, and its description says so."""
    app.add_middleware(OutcomesAlone)
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _describe(make())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


class OutcomesAlone:
    """Outermost: a problem on its way out becomes an OperationOutcome."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: Message | None = None
        body = bytearray()

        async def told(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_problem(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await _anew(held, bytes(body))(scope, receive, send)

        await self._app(scope, receive, told)


def _is_problem(start: Message) -> bool:
    return (b"content-type", PROBLEM_JSON.encode()) in start["headers"]


def _anew(start: Message, body: bytes) -> Response:
    framing = (b"content-type", b"content-length")
    headers = {name.decode(): value.decode() for name, value in start["headers"] if name not in framing}
    return Refusal(start["status"], [_issue(json.loads(body))], headers).response()


def _describe(description: dict[str, Any]) -> None:
    """Every problem of the description is an OperationOutcome in truth."""
    schemas = description["components"]["schemas"]
    for name in ("Problem", "Fault"):
        schemas.pop(name, None)
    schemas["OperationOutcome"] = OPERATION_OUTCOME
    description["components"]["securitySchemes"] = SECURITY_SCHEMES
    told = {FHIR_JSON: {"schema": {"$ref": "#/components/schemas/OperationOutcome"}}}
    for path in description["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                if PROBLEM_JSON in response.get("content", {}):
                    response["content"] = told


SECURITY_SCHEMES: Final[dict[str, Any]] = {
    "Bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the client's issuer. It names the tenant, and the scopes: system/Claim.read, .write, "
        "system/Subscription.read, .write.",
    },
    "Session": {"type": "http", "scheme": "session", "description": "A session, on reads alone."},
    "SessionCookie": {"type": "apiKey", "in": "cookie", "name": "pagw_session"},
}
OPERATION_OUTCOME: Final[dict[str, Any]] = {
    "type": "object",
    "title": "OperationOutcome",
    "description": "Why it was refused, as FHIR has it. It repeats nothing of what was sent.",
    "required": ["resourceType", "issue"],
    "properties": {
        "resourceType": {"const": "OperationOutcome"},
        "issue": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["severity", "code", "diagnostics"],
                "properties": {
                    "severity": {"enum": ["fatal", "error", "warning", "information"]},
                    "code": {"type": "string"},
                    "diagnostics": {"type": "string"},
                    "expression": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}
