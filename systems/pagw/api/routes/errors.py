"""Error responses: every failure on every route becomes an OperationOutcome with the fitting status.

The library maps errors to their status, text and headers (`holdfast.web.problems`); this module adds the
gateway's own errors and FHIR's issue codes. A response never contains what a client sent or why a store
failed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect

from holdfast.core.errors import (
    CallerRefused,
    HoldfastError,
    IdempotencyMismatch,
    InProgress,
    TargetRefused,
    error_label,
)
from holdfast.web.problems import ErrorFormat, ErrorReport, set_error_format
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
# Replacements for the framework's texts, which would repeat the path: that may be anything.
TEXTS: Final = {
    404: "There is no resource at this path. See /openapi.json for the available paths.",
    405: "This path does not support this method. See the Allow header for the supported methods.",
    413: "The body is too large for this path. Send a smaller one.",
    500: "The gateway failed unexpectedly. Please report this error.",
}
# Texts for errors of the library and the stores, by status: what the client can do.
OWN_TEXTS: Final = {
    400: "The request is invalid: a value has an unsupported format or length.",
    404: "The resource does not exist.",
    409: "A concurrent change conflicts with this request. Read the resource again before you retry.",
    429: "The rate limit per minute is exceeded. Retry after the time in Retry-After.",
    503: "The gateway is temporarily unavailable. Retry after the time in Retry-After.",
}
# Errors whose own texts are for the client.
SHOWN: Final = (
    FhirRefused,
    AttachmentRefused,
    CallerRefused,
    TargetRefused,
    IdempotencyMismatch,
    InProgress,
)
BAD_REQUEST: Final = 400
UNPROCESSABLE: Final = 422
ERROR: Final = 500

log = logging.getLogger(__name__)


def configure_outcomes(app: FastAPI) -> None:
    """Make the app's failures OperationOutcomes, also in its OpenAPI description."""
    set_error_format(app, OUTCOMES)


def render_outcome(report: ErrorReport) -> Mapping[str, Any]:
    """Return the OperationOutcome of an error. Log the kind of an error whose text is replaced."""
    error, status = report.error, report.problem.status
    if isinstance(error, HoldfastError) and not isinstance(error, SHOWN) and status in (400, 409):
        log.warning("%s: %s", report.problem.instance, error_label(error))
    return build_outcome(build_issues(report))


def build_issues(report: ErrorReport) -> Sequence[Issue]:
    """Return the issues that report an error."""
    error, detail = report.error, report.problem.detail
    match error:
        case FhirRefused():
            return error.issues
        case AttachmentRefused():
            code: Any = error.code
            return [build_error(code, error.message, error.expression)]
        case RequestValidationError():
            return [_build_parameter_issue(each) for each in error.errors()]
        case CallerRefused():
            return [build_error(TOKEN_CODES.get(error.code, CODES[report.problem.status]), detail)]
        case TargetRefused():
            return [build_error("value", detail)]
        case IdempotencyMismatch():
            return [build_error("conflict", detail)]
        case InProgress():
            return [build_error("duplicate", detail)]
        case ClientDisconnect():
            return [build_error("structure", detail)]
    return [_build_status_issue(report)]


def get_own_status(error: Exception) -> int | None:
    """Return the status of an error that the gateway maps differently from the library, or None."""
    match error:
        case FhirRefused():
            return error.status
        case AttachmentRefused() | TargetRefused():
            return UNPROCESSABLE
    return None


def _build_parameter_issue(fault: Mapping[str, Any]) -> Issue:
    """Build the issue of a parameter that is missing or invalid, without its value."""
    place, name = fault["loc"][0], str(fault["loc"][-1])
    if fault["type"] == "missing":
        return build_error("required", f"The {place} parameter {name} is missing.")
    reason = fault["msg"].removeprefix("Value error, ")
    text = f"Invalid {name}: {reason[:1].lower()}{reason[1:].rstrip('.')}."
    return build_error("value", text, name if place == "query" else None)


def _build_status_issue(report: ErrorReport) -> Issue:
    """Build the issue of any other error by its status. A store's message names statements, tables and keys:
    it is replaced.
    """
    status = report.problem.status
    texts = OWN_TEXTS if isinstance(report.error, HoldfastError) else TEXTS
    severity: Any = "fatal" if status == ERROR else "error"
    return Issue(severity, CODES.get(status, "exception"), texts.get(status, report.problem.detail))


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
OUTCOMES: Final = ErrorFormat(
    FHIR_JSON,
    render_outcome,
    schema_name="OperationOutcome",
    schemas=lambda: {"OperationOutcome": OPERATION_OUTCOME},
    get_status=get_own_status,
    invalid_status=BAD_REQUEST,
    # A message may contain patient data.
    logs_messages=False,
)
