"""Errors of an API: one mapping of errors to status, text and headers, and the format of the responses.

A Holdfast error gets its status by the group it is in; its message is sent only if the client can act on it.
What concerns the operator (a file, a setting, a bug) is logged instead, once, under the `instance` that the
response carries.

    error → report (`build_report`: a problem detail and headers) → response (`ErrorFormat.render`)

The default format is that of problem details (RFC 9457), `application/problem+json`. A system with another
format sets it for its app (`set_error_format`) and does not map errors itself. `install_errors` adds all of
it to an app; `openapi.py` describes it.
"""

from __future__ import annotations

import logging
import math
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import responses
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field, ValidationError
from pydantic.json_schema import models_json_schema

from holdfast.core import errors
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError, error_label, format_message
from holdfast.core.rng import make_uuid
from holdfast.web.operation_routes import is_local_caller

with explain_missing(__name__, "api"):
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, HTTPConnection, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "PROBLEM_FORMAT",
    "ErrorFormat",
    "ErrorReport",
    "Fault",
    "Problem",
    "build_error_response",
    "build_report",
    "describe_problem",
    "get_error_format",
    "get_route_path",
    "install_errors",
    "set_error_format",
]

PROBLEM_JSON: Final = "application/problem+json"
"""The content type of an error (RFC 9457)."""
TYPE_PREFIX: Final = "urn:holdfast:error:"
# The status says all there is to say (RFC 9457, section 4.2.1).
STATUS_TYPE: Final = "about:blank"
INVALID_PARAMETERS: Final = TYPE_PREFIX + "InvalidParameters"
INVALID_BODY: Final = TYPE_PREFIX + "InvalidBody"
# The default where an error does not say how long to wait.
RETRY_AFTER_S: Final = 1

# A request that the framework finds invalid.
INVALID_STATUS: Final = 422

log = logging.getLogger(__name__)


class Fault(BaseModel):
    """One part of a request that is invalid."""

    pointer: str = Field(
        description="The invalid part, as a JSON pointer such as /query/limit or /body/passengers/0."
    )
    detail: str


class Problem(BaseModel):
    """A problem detail as in RFC 9457."""

    type: str = Field(description="The kind of problem: a URN with the error's label, or about:blank.")
    title: str = Field(description="The kind of problem, in words.")
    status: int
    detail: str = Field(description="The reason for this occurrence, and what to do next.")
    instance: str = Field(description="The id of this occurrence. Quote it in a report: the log has it too.")
    errors: list[Fault] | None = Field(default=None, description="The invalid parts of the request.")


class ErrorReport(NamedTuple):
    """An error as the client sees it: a problem detail and the headers of the response."""

    error: Exception
    problem: Problem
    headers: Mapping[str, str]


@dataclass(frozen=True)
class ErrorFormat:
    """The format of an app's error responses.

    `render` returns the JSON body for a report. `schema_name` is that of the body in OpenAPI, and `schemas`
    are this schema and those that it refers to.
    """

    media_type: str
    render: Callable[[ErrorReport], object]
    schema_name: str
    schemas: Callable[[], Mapping[str, Any]]
    # Return the status of an error that this system maps differently, or None.
    get_status: Callable[[Exception], int | None] | None = None
    # The status of a request whose parameters are invalid.
    invalid_status: int = INVALID_STATUS
    # Whether an unexpected error is logged with its message. It may contain personal data.
    logs_messages: bool = True


def _list_problem_schemas() -> Mapping[str, Any]:
    _, found = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
    schemas: Mapping[str, Any] = found["$defs"]
    return schemas


PROBLEM_FORMAT: Final = ErrorFormat(
    PROBLEM_JSON,
    lambda report: report.problem.model_dump(exclude_none=True),
    schema_name="Problem",
    schemas=_list_problem_schemas,
)
"""The default format of errors: RFC 9457, `application/problem+json`."""


def describe_problem(description: str) -> dict[str, Any]:
    """Return an entry for a route's `responses=`: `{404: describe_problem("Flight not found.")}`."""
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}


def install_errors(app: FastAPI) -> None:
    """Answer every error of this app in its format."""
    for kind in (HoldfastError, ExceptionGroup, RequestValidationError, ValidationError, HTTPException):
        app.add_exception_handler(kind, _handle)
    app.add_exception_handler(ClientDisconnect, _handle)
    app.add_middleware(_CatchAll)


def set_error_format(app: FastAPI, format: ErrorFormat) -> None:
    """Set the format of the app's error responses; for `Http.configure_app`."""
    app.state.error_format = format


def get_error_format(app: Any) -> ErrorFormat:
    """Return the format of the app's error responses, by default problem details."""
    return getattr(getattr(app, "state", None), "error_format", PROBLEM_FORMAT)


def build_error_response(call: HTTPConnection, error: Exception) -> Response:
    """Return the response to an error in the app's format, and log the error if the client does not see why.

    `call` is a request or the handshake of a WebSocket.
    """
    if isinstance(error, HTTPException) and error.status_code < HTTPStatus.BAD_REQUEST:
        return Response(status_code=error.status_code, headers=dict(error.headers or {}))
    format = get_error_format(call.scope.get("app"))
    reports = [_build_report(call, each, format) for each in _list_errors(error)]
    for report in reports:
        _log_report(call, report, format)
    worst = max(reports, key=_get_status)
    return JSONResponse(
        format.render(worst), worst.problem.status, headers=dict(worst.headers), media_type=format.media_type
    )


def build_report(call: HTTPConnection, error: Exception) -> ErrorReport:
    """Return what the response to an error says, without logging it."""
    format = get_error_format(call.scope.get("app"))
    return max((_build_report(call, each, format) for each in _list_errors(error)), key=_get_status)


def get_route_path(call: HTTPConnection) -> str:
    """Return the path of the route, with the names of its parameters instead of their values.

    Without a route, return the path of the request.
    """
    path: str = getattr(call.scope.get("route"), "path", None) or call.scope["path"]
    return path


async def _handle(request: Request, error: Exception) -> Response:
    return build_error_response(request, error)


def _get_status(report: ErrorReport) -> int:
    return report.problem.status


def _list_errors(error: Exception) -> Sequence[Exception]:
    """Return the errors of concurrent operations if all of them are Holdfast's, else the error itself."""
    if isinstance(error, ExceptionGroup):
        leaves = list(_iterate_leaves(error))
        if all(isinstance(each, HoldfastError) for each in leaves):
            return leaves
    return [error]


def _iterate_leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the exceptions of a group and of the groups inside it."""
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _iterate_leaves(each)
        else:
            yield each


def _build_report(call: HTTPConnection, error: Exception, format: ErrorFormat) -> ErrorReport:
    """Return the report of an error by its class."""
    match error:
        case HoldfastError():
            return _report_error(call, error, format)
        case RequestValidationError():
            return _report_invalid_parameters(error, format)
        case ValidationError():
            return _report_invalid_body(error)
        case HTTPException():
            return _report_http_exception(call, error)
        case ClientDisconnect():
            return _report_status(error, 400, "The body is incomplete: the client closed the connection.")
    return _report_status(
        error, 500, "The service failed unexpectedly. Please report it with its `instance`."
    )


def _report_status(
    error: Exception, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> ErrorReport:
    """Return a report whose status says all there is to say."""
    title = responses.get(status, "Failure")
    return ErrorReport(error, _build_problem(STATUS_TYPE, title, status, detail), headers or {})


def _build_problem(
    type: str, title: str, status: int, detail: str, faults: list[Fault] | None = None
) -> Problem:
    """Return a problem detail under a new instance."""
    instance = make_uuid().urn
    return Problem(type=type, title=title, status=status, detail=detail, instance=instance, errors=faults)


def _log_report(call: HTTPConnection, report: ErrorReport, format: ErrorFormat) -> None:
    """Log an error whose message the client does not see."""
    match report.error:
        case HoldfastError():
            _log_hidden(call, report, report.error)
        case RequestValidationError() | HTTPException() | ClientDisconnect():
            pass
        case ValidationError():
            what = _describe_invalid_body(report.error)
            log.info("%s: %s", _describe_call(call, report), what)
        case _ if format.logs_messages:
            log.error("%s", _describe_call(call, report), exc_info=report.error)
        case _:
            places = "".join(traceback.format_tb(report.error.__traceback__))
            log.error("%s: %s\n%s", _describe_call(call, report), error_label(report.error), places)


def _describe_call(call: HTTPConnection, report: ErrorReport) -> str:
    """Return the instance of the problem, the method and the path of the route. Line breaks are escaped."""
    return f"{report.problem.instance} {call.scope.get('method', 'GET')} {get_route_path(call)!r}"


# --- Holdfast's errors --------------------------------------------------------------------------------------


class _Mapping(NamedTuple):
    """The status and text for a class of errors.

    `detail` is None if the error's own message is meant for the client; otherwise that message goes to the
    operator's log, unless there is nothing to do for the operator.
    """

    status: int
    detail: str | None = None
    is_logged: bool = True


_MISCONFIGURED: Final = _Mapping(
    500,
    "The service is misconfigured. Report the `instance` to its operator: the log has the reason.",
)
# The nearest class above an error decides.
_MAPPINGS: Final[Mapping[type[HoldfastError], _Mapping]] = {
    errors.HoldfastError: _MISCONFIGURED,
    errors.DeclarationError: _MISCONFIGURED,
    errors.RequestError: _Mapping(400),
    errors.CallerRefused: _Mapping(401),
    errors.CallerForbidden: _Mapping(403),
    errors.WaitTokenRefused: _Mapping(403),
    errors.NotFound: _Mapping(404),
    errors.SecretMissing: _Mapping(
        503, "This is not configured yet. Ask the operator, or retry after the time in Retry-After."
    ),
    errors.AlreadyExists: _Mapping(409),
    errors.IdempotencyMismatch: _Mapping(422),
    errors.IteratorExpired: _Mapping(410),
    errors.TrimmedData: _Mapping(410),
    # These are requests that the service made itself: its client can change nothing about them.
    errors.AccessRefused: _MISCONFIGURED,
    errors.ComponentRefused: _MISCONFIGURED,
    errors.CrossStoreTransaction: _MISCONFIGURED,
    errors.RequestRefused: _MISCONFIGURED,
    errors.ExternalServiceRefused: _Mapping(
        422,
        "An external service refused this permanently, so it was not done. Do not retry it unchanged.",
        False,
    ),
    errors.Conflict: _Mapping(409),
    errors.RetryLater: _Mapping(503, "The service cannot do this now. Retry after the time in Retry-After."),
    errors.Throttled: _Mapping(
        429, "The store has no capacity left for this request. Retry after the time in Retry-After."
    ),
    errors.RateLimited: _Mapping(
        429, "Too many requests. Retry after the time in Retry-After.", is_logged=False
    ),
    errors.InProgress: _Mapping(
        409,
        "The same request is in progress. Retry after the time in Retry-After to get its result.",
        is_logged=False,
    ),
    errors.OutcomeUnknown: _Mapping(
        504, "The outcome of the write is unknown: it may have succeeded. Read the data before you repeat it."
    ),
    errors.InternalError: _Mapping(
        500, "This is a bug in the service. Please report it with its `instance`; the log has the details."
    ),
}
_RETRY_STATUSES: Final = (429, 503)
_MODEL_CHECKS: Final = ("value_error", "assertion_error")


def _report_error(call: HTTPConnection, error: HoldfastError, format: ErrorFormat) -> ErrorReport:
    """Report a Holdfast error by the mapping of its nearest class."""
    kind, (status, hidden, _) = _find_mapping(error)
    label = error_label(kind if hidden else error)
    problem = _build_problem(
        TYPE_PREFIX + label,
        _to_words(label),
        (format.get_status and format.get_status(error)) or _get_precondition_status(call, error) or status,
        hidden or _message_with_notes(error),
    )
    return ErrorReport(error, problem, {**_build_challenge(error), **_build_retry_after(error, status)})


def _find_mapping(error: HoldfastError) -> tuple[type[HoldfastError], _Mapping]:
    """Return the nearest class of an error that has a mapping, and the mapping."""
    classes = (HoldfastError,) if error.is_for_operator else type(error).__mro__
    kind = next(each for each in classes if each in _MAPPINGS)
    return kind, _MAPPINGS[kind]


def _build_challenge(error: HoldfastError) -> Mapping[str, str]:
    """Return the WWW-Authenticate header for an error that has a challenge, else nothing."""
    challenge = getattr(error, "challenge", None)
    return {} if challenge is None else {"WWW-Authenticate": challenge}


def _build_retry_after(error: HoldfastError, status: int) -> Mapping[str, str]:
    """Return the Retry-After header in whole seconds, rounded up, for a status that allows a retry; else
    nothing.
    """
    if status not in _RETRY_STATUSES and not isinstance(error, errors.InProgress):
        return {}
    known_s = getattr(error, "retry_after_s", None)
    seconds = RETRY_AFTER_S if known_s is None else max(RETRY_AFTER_S, math.ceil(known_s))
    return {"Retry-After": str(seconds)}


def _get_precondition_status(call: HTTPConnection, error: HoldfastError) -> int | None:
    """Return 412 for a failed condition that the client stated in a header, else None."""
    stated = "if-match" in call.headers or "if-none-match" in call.headers
    return 412 if stated and isinstance(error, errors.ConditionFailed) else None


def _message_with_notes(error: HoldfastError) -> str:
    """Return the message and its notes; for a refused caller, with the code in front."""
    said = format_message(error)
    # The client's developer looks up the code.
    return f"{error.code}: {said}" if isinstance(error, errors.CallerRefused) else said


def _log_hidden(call: HTTPConnection, report: ErrorReport, error: HoldfastError) -> None:
    """Log a hidden message: of a temporary error as a warning, of a bug with its traceback."""
    _, (_, hidden, is_logged) = _find_mapping(error)
    if hidden and is_logged:
        level = logging.WARNING if isinstance(error, errors.RetryLater) else logging.ERROR
        trace = error if isinstance(error, errors.InternalError) else None
        what = f"{error_label(error)}: {_message_with_notes(error)}"
        log.log(level, "%s: %s", _describe_call(call, report), what, exc_info=trace)


def _to_words(label: str) -> str:
    """Return a label as words: `TokenRefused` is `Token refused`."""
    first, *rest = re.split(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", label)
    return " ".join([first, *(word if word.isupper() else word.lower() for word in rest)])


# --- invalid requests and unknown routes --------------------------------------------------------------------


def _report_invalid_parameters(error: RequestValidationError, format: ErrorFormat) -> ErrorReport:
    """Report a request that FastAPI found invalid, with one fault per invalid part."""
    faults = [
        Fault(pointer=_to_pointer(each), detail=each["msg"].removeprefix("Value error, "))
        for each in error.errors()
    ]
    count = "One part of the request is" if len(faults) == 1 else f"{len(faults)} parts of the request are"
    detail = f"{count} invalid: `errors` says which, and why."
    problem = _build_problem(INVALID_PARAMETERS, "Invalid parameters", format.invalid_status, detail, faults)
    return ErrorReport(error, problem, {})


def _report_invalid_body(error: ValidationError) -> ErrorReport:
    """Report an invalid body that a route parsed itself. Its values are never sent or logged: they may be
    personal.
    """
    faults = [
        Fault(pointer=_to_pointer(each), detail=_format_fault(each)) for each in _list_body_faults(error)
    ]
    detail = "The body is invalid: `errors` says where, and why."
    return ErrorReport(error, _build_problem(INVALID_BODY, "Invalid body", 400, detail, faults), {})


def _describe_invalid_body(error: ValidationError) -> str:
    """Return the kinds of faults, without values or field names: those in a body may be personal too."""
    found = Counter(each["type"] for each in _list_body_faults(error))
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.items())
    return f"the body is not a valid {error.title} ({kinds})"


def _list_body_faults(error: ValidationError) -> list[dict[str, Any]]:
    return [
        dict(each) for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _format_fault(fault: Mapping[str, Any]) -> str:
    """Return the reason, without the texts of a model's own checks: they may quote the value."""
    return "The value breaks a rule for this field." if fault["type"] in _MODEL_CHECKS else str(fault["msg"])


def _to_pointer(fault: Mapping[str, Any]) -> str:
    """Return the location of a fault as a JSON pointer."""
    place: Sequence[object] = fault["loc"]
    if fault["type"] == "json_invalid":
        # The rest is a position in a text that is not JSON.
        place = place[:1]
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


def _report_http_exception(call: HTTPConnection, error: HTTPException) -> ErrorReport:
    """Report an exception of the framework, such as an unknown path."""
    status, headers = error.status_code, error.headers or {}
    detail = str(error.detail)
    if detail == responses.get(status):
        detail = _describe_routing_error(call, status, headers) or detail
    return _report_status(error, status, detail, headers)


def _describe_routing_error(call: HTTPConnection, status: int, headers: Mapping[str, str]) -> str | None:
    """Return a sentence for an unknown path or method, or None for any other status."""
    path = call.scope["path"]
    if status == HTTPStatus.NOT_FOUND:
        hint = _describe_console(call) if path == "/" else ""
        return f"{path} not found. /openapi.json lists all paths.{hint}"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow", "another method")
        return f"{path} does not accept {call.scope['method']}: use {allowed}."
    return None


def _describe_console(call: HTTPConnection) -> str:
    """Return where a person who opens an API in a browser finds pages, for callers on this machine."""
    app = call.scope.get("app")
    url = getattr(app.state, "console_url", "") if app is not None else ""
    return (
        f" This is an API; its pages are in the console, at {url}." if url and is_local_caller(call) else ""
    )


# --- unexpected errors --------------------------------------------------------------------------------------


class _CatchAll:
    """The outermost of the host's middleware (a system may add its own around it): answers unexpected
    errors. The framework's own would log the failure twice.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an unexpected error with 500, unless a part of the response has been sent."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_and_remember(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_remember)
        except Exception as error:
            if has_begun:
                # A part of the response is sent. The server logs the error and closes the connection, so that
                # the client notices.
                raise
            await build_error_response(Request(scope), error)(scope, receive, send)
