"""Errors of an API as problem details (RFC 9457), `application/problem+json`.

A Holdfast error gets its status by the group it is in; its message is sent only if the client can act on it.
What concerns the operator (a file, a setting, a bug) is logged instead, once, under the `instance` that the
response carries. `install_problems` adds all of it to an app; `openapi.py` describes it.
"""

from __future__ import annotations

import logging
import math
import re
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from http.client import responses
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from holdfast.core import errors
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError, error_label, format_message
from holdfast.web.tokens import get_refusal_headers

with explain_missing(__name__, "api"):
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROBLEM_JSON: Final = "application/problem+json"
"""The content type of an error (RFC 9457)."""
TYPE_PREFIX: Final = "urn:holdfast:error:"
# The status says all there is to say (RFC 9457, section 4.2.1).
STATUS_TYPE: Final = "about:blank"
INVALID_PARAMETERS: Final = TYPE_PREFIX + "InvalidParameters"
INVALID_BODY: Final = TYPE_PREFIX + "InvalidBody"
# The default where an error does not say how long to wait.
RETRY_AFTER_S: Final = 1

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


def describe_problem(description: str) -> dict[str, Any]:
    """Return an entry for a route's `responses=`: `{404: describe_problem("Flight not found.")}`."""
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}


def install_problems(app: FastAPI) -> None:
    """Answer every error of this app with a problem detail."""
    for kind, answer in _get_handlers().items():
        app.add_exception_handler(kind, answer)
    app.add_middleware(_CatchAll)


async def build_problem_response(request: Request, error: Exception) -> Response:
    """Return the response that `install_problems` would send, for routes outside the framework.

    Raise the error again if it is unexpected.
    """
    known = _get_handlers()
    kind = next((each for each in type(error).__mro__ if each in known), None)
    if kind is None:
        raise error
    return await known[kind](request, error)


def _get_handlers() -> Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    """Return the handler of each class of exceptions that becomes a problem detail."""
    return {
        HoldfastError: _handle_error,
        ExceptionGroup: _handle_group,
        RequestValidationError: _handle_invalid_parameters,
        ValidationError: _handle_invalid_body,
        HTTPException: _handle_http_exception,
    }


def build_status_response(
    status: int, detail: str, headers: Mapping[str, str] | None = None, *, instance: str | None = None
) -> Response:
    """Return a problem detail for a plain HTTP status."""
    title = responses.get(status, "Failure")
    problem = Problem(
        type=STATUS_TYPE, title=title, status=status, detail=detail, instance=instance or _new_instance()
    )
    return _build_response(problem, headers)


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


async def _handle_error(request: Request, error: Exception) -> Response:
    """Answer a Holdfast error by the mapping of its nearest class; log it if the client does not see its
    message.
    """
    assert isinstance(error, HoldfastError)
    classes = (HoldfastError,) if error.is_for_operator else type(error).__mro__
    kind = next(each for each in classes if each in _MAPPINGS)
    status, hidden, is_logged = _MAPPINGS[kind]
    label = error_label(kind if hidden else error)
    problem = Problem(
        type=TYPE_PREFIX + label,
        title=_to_words(label),
        status=_get_precondition_status(request, error) or status,
        detail=hidden or _message_with_notes(error),
        instance=_new_instance(),
    )
    if hidden and is_logged:
        _log_problem(request, error, problem)
    return _build_response(problem, {**get_refusal_headers(error), **_build_retry_after(error, status)})


def _build_retry_after(error: HoldfastError, status: int) -> Mapping[str, str]:
    """Return the Retry-After header in whole seconds, rounded up, for a status that allows a retry; else
    nothing.
    """
    if status not in _RETRY_STATUSES and not isinstance(error, errors.InProgress):
        return {}
    known_s = getattr(error, "retry_after_s", None)
    seconds = RETRY_AFTER_S if known_s is None else max(RETRY_AFTER_S, math.ceil(known_s))
    return {"Retry-After": str(seconds)}


def _get_precondition_status(request: Request, error: HoldfastError) -> int | None:
    """Return 412 for a failed condition that the client stated in a header, else None."""
    stated = "if-match" in request.headers or "if-none-match" in request.headers
    return 412 if stated and isinstance(error, errors.ConditionFailed) else None


def _message_with_notes(error: HoldfastError) -> str:
    """Return the message and its notes; for a refused caller, with the code in front."""
    said = format_message(error)
    # The client's developer looks up the code.
    return f"{error.code}: {said}" if isinstance(error, errors.CallerRefused) else said


def _log_problem(request: Request, error: HoldfastError, problem: Problem) -> None:
    """Log the error under the problem's instance: a temporary one as a warning, a bug with its traceback."""
    level = logging.WARNING if isinstance(error, errors.RetryLater) else logging.ERROR
    trace = error if isinstance(error, errors.InternalError) else None
    what = f"{error_label(error)}: {_message_with_notes(error)}"
    log.log(level, "%s %s %r: %s", problem.instance, request.method, request.url.path, what, exc_info=trace)


def _to_words(label: str) -> str:
    """Return a label as words: `TokenRefused` is `Token refused`."""
    first, *rest = re.split(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", label)
    return " ".join([first, *(word if word.isupper() else word.lower() for word in rest)])


async def _handle_group(request: Request, error: Exception) -> Response:
    """Answer errors of concurrent operations with that of the highest status, if all of them are Holdfast's;
    else raise the group.
    """
    assert isinstance(error, ExceptionGroup)
    ours = [each for each in _iterate_leaves(error) if isinstance(each, HoldfastError)]
    if len(ours) < len(list(_iterate_leaves(error))):
        raise error
    answers = [await _handle_error(request, each) for each in ours]
    return max(answers, key=lambda answer: answer.status_code)


def _iterate_leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the exceptions of a group and of the groups inside it."""
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _iterate_leaves(each)
        else:
            yield each


# --- invalid requests and unknown routes --------------------------------------------------------------------


async def _handle_invalid_parameters(request: Request, error: Exception) -> Response:
    """Answer a request that FastAPI found invalid with 422 and one fault per invalid part."""
    assert isinstance(error, RequestValidationError)
    faults = [
        Fault(pointer=_to_pointer(each), detail=each["msg"].removeprefix("Value error, "))
        for each in error.errors()
    ]
    count = "One part of the request is" if len(faults) == 1 else f"{len(faults)} parts of the request are"
    problem = Problem(
        type=INVALID_PARAMETERS,
        title="Invalid parameters",
        status=422,
        detail=f"{count} invalid: `errors` says which, and why.",
        instance=_new_instance(),
        errors=faults,
    )
    return _build_response(problem)


async def _handle_invalid_body(request: Request, error: Exception) -> Response:
    """Answer an invalid body that a route parsed itself with 400. Its values are never sent or logged: they
    may be personal.
    """
    assert isinstance(error, ValidationError)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problem = Problem(
        type=INVALID_BODY,
        title="Invalid body",
        status=400,
        detail="The body is invalid: `errors` says where, and why.",
        instance=_new_instance(),
        errors=[Fault(pointer=_to_pointer(dict(each)), detail=_format_fault(each)) for each in found],
    )
    # Neither values nor field names: those in a body may be personal too.
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(each["type"] for each in found).items())
    what = f"the body is not a valid {error.title} ({kinds})"
    log.info("%s %s %r: %s", problem.instance, request.method, request.url.path, what)
    return _build_response(problem)


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


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Answer the framework's exceptions, such as an unknown path, with a problem detail; a redirect as it
    is.
    """
    assert isinstance(error, HTTPException)
    status, headers = error.status_code, error.headers
    if status < HTTPStatus.BAD_REQUEST:
        return Response(status_code=status, headers=dict(headers or {}))
    detail = str(error.detail)
    if detail == responses.get(status):
        detail = _describe_routing_error(request, status, headers or {}) or detail
    return build_status_response(status, detail, headers)


def _describe_routing_error(request: Request, status: int, headers: Mapping[str, str]) -> str | None:
    """Return a sentence for an unknown path or method, or None for any other status."""
    path = request.url.path
    if status == HTTPStatus.NOT_FOUND:
        return f"{path} not found. /openapi.json lists all paths."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{path} does not accept {request.method}: use {headers.get('Allow', 'another method')}."
    return None


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

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if has_begun:
                # A part of the response is sent. The server logs the error and closes the connection, so that
                # the client notices.
                raise
            await _build_unexpected_response(Request(scope), error)(scope, receive, send)


def _build_unexpected_response(request: Request, error: Exception) -> Response:
    """Log the error with its traceback and return a 500 problem detail without its details."""
    instance = _new_instance()
    log.error("%s %s %r", instance, request.method, request.url.path, exc_info=error)
    detail = "The service failed unexpectedly. Please report it with its `instance`."
    return build_status_response(500, detail, instance=instance)


def _new_instance() -> str:
    """Return a new random URN."""
    return uuid.uuid4().urn


def _build_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    content = problem.model_dump(exclude_none=True)
    return JSONResponse(content, problem.status, headers=headers, media_type=PROBLEM_JSON)
