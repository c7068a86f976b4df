"""Error responses: every failure on every route becomes an OperationOutcome with the fitting status.

An exception of a route becomes a `Refusal` (`build_refusal`). Problems (RFC 9457) of the framework and the
server are converted on their way out (`OutcomeMiddleware`), and the OpenAPI description says so
(`configure_outcomes`). A response never contains what a client sent or why a store failed.
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

from holdfast.core.errors import (
    CallerRefused,
    HoldfastError,
    IdempotencyMismatch,
    InProgress,
    TargetRefused,
    error_label,
)
from holdfast.web import PROBLEM_JSON, build_problem_response
from holdfast.web.tokens import get_refusal_headers
from pagw.domain.attachments import AttachmentRefused
from pagw.domain.fhir.outcomes import Code, FhirRefused, Issue, build_error, build_outcome
from pagw.model.entities import FHIR_JSON

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
# Replacements for problem texts that would repeat the path, which may be anything.
TEXTS: Final = {
    404: "There is no resource at this path. See /openapi.json for the available paths.",
    405: "This path does not support this method. See the Allow header for the supported methods.",
    413: "The body is too large for this path. Send a smaller one.",
}
# Texts for errors of the library and the stores, by status: what the client can do.
OWN_TEXTS: Final = {
    400: "The request is invalid: a value has an unsupported format or length.",
    404: "The resource does not exist.",
    409: "A concurrent change conflicts with this request. Read the resource again before you retry.",
    429: "The rate limit per minute is exceeded. Retry after the time in Retry-After.",
    503: "The gateway is temporarily unavailable. Retry after the time in Retry-After.",
}
UNEXPECTED: Final = "The gateway failed unexpectedly. Please report this error."
ABOUT_STATUS: Final = "about:blank"
ERROR: Final = 500

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """A refused call: HTTP status, issues and headers."""

    status: int
    issues: Sequence[Issue]
    headers: Mapping[str, str] = field(default_factory=dict)
    # For the audit: the reason code, and whether the refusal is audited at all.
    reason: str | None = None
    is_audited: bool = True

    def to_response(self) -> Response:
        """Return the refusal as a response with an OperationOutcome."""
        return Response(
            json.dumps(build_outcome(self.issues)), self.status, dict(self.headers), media_type=FHIR_JSON
        )


class Refused(Exception):
    """A refusal by a route that no library error expresses."""

    def __init__(self, status: int, issue: Issue, *, is_audited: bool = True, **headers: str) -> None:
        super().__init__(issue.diagnostics)
        self.refusal = Refusal(status, [issue], headers, is_audited=is_audited)


async def build_refusal(request: Request, failure: Exception) -> Refusal:
    """Return the refusal for an exception of a route."""
    match failure:
        case Refused():
            return failure.refusal
        case FhirRefused():
            return Refusal(failure.status, failure.issues)
        case AttachmentRefused():
            return Refusal(422, [_build_attachment_issue(failure)])
        case CallerRefused():
            code = TOKEN_CODES.get(failure.code, CODES[failure.http_status])
            issue = build_error(code, f"{failure.code}: {failure.message}")
            return Refusal(failure.http_status, [issue], get_refusal_headers(failure), failure.code)
        case TargetRefused():
            return Refusal(422, [build_error("value", failure.message)])
        case IdempotencyMismatch():
            return Refusal(422, [build_error("conflict", failure.message)])
        case InProgress():
            refusal = await _convert_problem(request, failure, "duplicate")
            # Auditing every repeated copy of a request would flood the audit log.
            return replace(refusal, is_audited=False)
        case ClientDisconnect():
            return Refusal(
                400, [build_error("structure", "The body is incomplete: the client closed the connection.")]
            )
    try:
        refusal = await _convert_problem(request, failure)
        return _replace_text(request, failure, refusal) if isinstance(failure, HoldfastError) else refusal
    except Exception as unknown:
        return _build_unexpected(request, unknown)


def _build_attachment_issue(failure: AttachmentRefused) -> Issue:
    """Build the issue of a refused attachment, with its location."""
    code: Any = failure.code
    return build_error(code, failure.message, failure.expression)


async def _convert_problem(request: Request, failure: Exception, code: Code | None = None) -> Refusal:
    """Convert the problem (RFC 9457) that the library builds for an error into a refusal, with Retry-After
    and Allow. The library logs the error.
    """
    answer = await build_problem_response(request, failure)
    headers = {name: value for name, value in answer.headers.items() if name in ("retry-after", "allow")}
    return Refusal(answer.status_code, [_build_issue(json.loads(bytes(answer.body)), code)], headers)


def _replace_text(request: Request, failure: HoldfastError, refusal: Refusal) -> Refusal:
    """Replace a store's message, which names statements, tables and keys. Log the kind of error for 400 and
    409.
    """
    if refusal.status in (400, 409):
        log.warning("%s %s: %s", request.method, get_route(request), error_label(failure))
    words = OWN_TEXTS.get(refusal.status)
    return (
        refusal if words is None else replace(refusal, issues=[replace(refusal.issues[0], diagnostics=words)])
    )


def get_route(request: Request) -> str:
    """Return the path with its parameters' names instead of their values, which may be anything."""
    names = {str(value): f"{{{name}}}" for name, value in request.path_params.items()}
    return "/".join(names.get(part, part) for part in request.scope["path"].split("/"))


def _build_unexpected(request: Request, failure: Exception) -> Refusal:
    """Log the traceback without the message, which may contain patient data, and return a 500."""
    places = "".join(traceback.format_tb(failure.__traceback__))
    log.error("%s %s: %s\n%s", request.method, get_route(request), error_label(failure), places)
    return Refusal(ERROR, [Issue("fatal", "exception", UNEXPECTED)])


def _build_issue(problem: Mapping[str, Any], code: Code | None = None) -> Issue:
    """Build the issue of a problem (RFC 9457). `code` replaces the issue code of its status."""
    status = int(problem.get("status", ERROR))
    is_plain = problem.get("type") == ABOUT_STATUS
    text = TEXTS.get(status) if is_plain else None
    return Issue(
        "fatal" if status == ERROR else "error",
        code or CODES.get(status, "exception"),
        text or str(problem.get("detail", UNEXPECTED)),
    )


# --- errors outside the routes ------------------------------------------------------------------------------


def configure_outcomes(app: FastAPI) -> None:
    """Make the app's failures OperationOutcomes, and describe them so in its OpenAPI description."""
    app.add_middleware(OutcomeMiddleware)
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _describe_outcomes(make())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


class OutcomeMiddleware:
    """The outermost middleware: converts problems into OperationOutcomes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: Message | None = None
        body = bytearray()

        async def convert(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_problem(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await _rebuild_response(held, bytes(body))(scope, receive, send)

        await self._app(scope, receive, convert)


def _is_problem(start: Message) -> bool:
    """Return whether the start of a response announces a problem (RFC 9457)."""
    return (b"content-type", PROBLEM_JSON.encode()) in start["headers"]


def _rebuild_response(start: Message, body: bytes) -> Response:
    """Build the OperationOutcome of a problem's body, with the same status and headers."""
    framing = (b"content-type", b"content-length")
    headers = {name.decode(): value.decode() for name, value in start["headers"] if name not in framing}
    return Refusal(start["status"], [_build_issue(json.loads(body))], headers).to_response()


def _describe_outcomes(description: dict[str, Any]) -> None:
    """Replace problems with OperationOutcomes in an OpenAPI description, in place."""
    schemas = description["components"]["schemas"]
    for name in ("Problem", "Fault"):
        schemas.pop(name, None)
    schemas["OperationOutcome"] = OPERATION_OUTCOME
    description["components"]["securitySchemes"] = SECURITY_SCHEMES
    content = {FHIR_JSON: {"schema": {"$ref": "#/components/schemas/OperationOutcome"}}}
    for path in description["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                if PROBLEM_JSON in response.get("content", {}):
                    response["content"] = content


SECURITY_SCHEMES: Final[dict[str, Any]] = {
    "Bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A JWT from the client's token issuer, with the tenant and the scopes: "
        "system/Claim.read, system/Claim.write, system/Subscription.read, system/Subscription.write.",
    },
    "Session": {"type": "http", "scheme": "session", "description": "A session, for reads only."},
    "SessionCookie": {"type": "apiKey", "in": "cookie", "name": "pagw_session"},
}
OPERATION_OUTCOME: Final[dict[str, Any]] = {
    "type": "object",
    "title": "OperationOutcome",
    "description": "The reasons for a refusal, as a FHIR resource. It contains no values of the request.",
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
