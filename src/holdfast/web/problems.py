"""How an API fails: every failure is a problem detail (RFC 9457), `application/problem+json`.

The last stage of a request that did not succeed. An error of ours gets its status by the group it is in; its
message is told only where the caller can act on it. What is for the operator (a file, a setting, a bug) is
logged instead, once, under the `instance` that the answer carries. `install_problems` puts all of it into an
app; `openapi.py` describes it there.
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

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast import errors
from holdfast.errors import HoldfastError, error_label
from holdfast.web.tokens import refusal_headers

PROBLEM_JSON: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:holdfast:error:"
# The status says all there is to say (RFC 9457, section 4.2.1).
TYPE_OF_STATUS: Final = "about:blank"
INVALID_PARAMETERS: Final = TYPE_PREFIX + "InvalidParameters"
INVALID_BODY: Final = TYPE_PREFIX + "InvalidBody"
# Where an error does not say after how long.
RETRY_AFTER_S: Final = 1

log = logging.getLogger(__name__)


class Fault(BaseModel):
    """One part of a request that is not as it must be."""

    pointer: str = Field(
        description="Where, as a JSON pointer: /query/limit, /path/flight, /body/passengers/0"
    )
    detail: str


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    type: str = Field(description="The kind of problem: the error's class, or about:blank.")
    title: str = Field(description="The kind of problem, in words.")
    status: int
    detail: str = Field(description="What happened this time, and what to do next.")
    instance: str = Field(description="This one occurrence; the log names it too.")
    errors: list[Fault] | None = Field(default=None, description="What is wrong with which part.")


def problem_response(description: str) -> dict[str, Any]:
    """For a route's `responses=`: `{404: problem_response("There is no such flight.")}`."""
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}


def install_problems(app: FastAPI) -> None:
    """From here on, whatever fails in this app is answered as a problem."""
    for kind, answer in _answers_by_kind().items():
        app.add_exception_handler(kind, answer)
    app.add_middleware(_LastResort)


async def problem_of(request: Request, error: Exception) -> Response:
    """What `install_problems` would answer, for routes that are not the framework's. Raises what nobody expected."""
    known = _answers_by_kind()
    kind = next((each for each in type(error).__mro__ if each in known), None)
    if kind is None:
        raise error
    return await known[kind](request, error)


def _answers_by_kind() -> Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    return {
        HoldfastError: _on_error,
        ExceptionGroup: _on_several,
        RequestValidationError: _on_invalid_parameters,
        ValidationError: _on_invalid_body,
        HTTPException: _on_http,
    }


def problem_of_status(
    status: int, detail: str, headers: Mapping[str, str] | None = None, *, instance: str | None = None
) -> Response:
    """A failure that HTTP itself has a name for."""
    title = responses.get(status, "Failure")
    problem = Problem(
        type=TYPE_OF_STATUS, title=title, status=status, detail=detail, instance=instance or _new_instance()
    )
    return _response(problem, headers)


# --- errors of ours -----------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """`detail` is None where the error's own message is meant for the caller; otherwise it is for the operator's log,
    unless there is nothing to do for one.
    """

    status: int
    detail: str | None = None
    is_logged: bool = True


_NOT_SET_UP: Final = _Answer(
    500,
    "The service is not set up as it must be. Its operator finds the reason in the log, under this instance.",
)
# The nearest class above an error decides.
_ANSWERS: Final[Mapping[type[HoldfastError], _Answer]] = {
    errors.HoldfastError: _NOT_SET_UP,
    errors.DeclarationError: _NOT_SET_UP,
    errors.RequestError: _Answer(400),
    errors.CallerRefused: _Answer(401),
    errors.CallerForbidden: _Answer(403),
    errors.AnswerRefused: _Answer(403),
    errors.NotFound: _Answer(404),
    errors.SecretMissing: _Answer(
        503, "The service is not set up to take this yet. Try again after the time in Retry-After."
    ),
    errors.AlreadyThere: _Answer(409),
    errors.IdempotencyMismatch: _Answer(422),
    errors.IteratorExpired: _Answer(410),
    errors.TrimmedData: _Answer(410),
    # These are requests that the service made itself: its caller can change nothing about them.
    errors.AccessRefused: _NOT_SET_UP,
    errors.ComponentRefused: _NOT_SET_UP,
    errors.StoresMixed: _NOT_SET_UP,
    errors.RequestRefused: _NOT_SET_UP,
    errors.PartyRefused: _Answer(
        422,
        "An outside party refused this for good, so it was not done. Asking again changes nothing.",
        False,
    ),
    errors.Conflict: _Answer(409),
    errors.RetryLater: _Answer(
        503, "The service cannot do this now. Try again after the time in Retry-After."
    ),
    errors.Throttled: _Answer(
        429, "More is asked of the store than it has capacity for. Try again after the time in Retry-After."
    ),
    errors.RateLimited: _Answer(
        429, "This was asked for too often. Try again after the time in Retry-After.", is_logged=False
    ),
    errors.InProgress: _Answer(
        409,
        "The very same is being done already. Try again after the time in Retry-After, to learn how it ended.",
        is_logged=False,
    ),
    errors.OutcomeUnknown: _Answer(
        504, "The write was sent and its answer was lost, so it may be done. Read before you repeat it."
    ),
    errors.Defect: _Answer(
        500, "This is a mistake of the service. Please report it, with this instance; the log has the rest."
    ),
}
_TOLD_TO_RETRY: Final = (429, 503)
_OF_OWN_CHECKS: Final = ("value_error", "assertion_error")


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    kind = next(each for each in type(error).__mro__ if each in _ANSWERS)
    status, hidden, is_logged = _ANSWERS[kind]
    label = error_label(kind if hidden else error)
    problem = Problem(
        type=TYPE_PREFIX + label,
        title=_in_words(label),
        status=_precondition_status(request, error) or status,
        detail=hidden or _message_with_notes(error),
        instance=_new_instance(),
    )
    if hidden and is_logged:
        _log_for_the_operator(request, error, problem)
    return _response(problem, {**refusal_headers(error), **_retry_after(error, status)})


def _retry_after(error: HoldfastError, status: int) -> Mapping[str, str]:
    """In whole seconds, rounded up: who comes too early has come in vain."""
    if status not in _TOLD_TO_RETRY and not isinstance(error, errors.InProgress):
        return {}
    known_s = getattr(error, "retry_after_s", None)
    seconds = RETRY_AFTER_S if known_s is None else max(RETRY_AFTER_S, math.ceil(known_s))
    return {"Retry-After": str(seconds)}


def _precondition_status(request: Request, error: HoldfastError) -> int | None:
    """412 where the caller put its condition into a header, as HTTP has it."""
    stated = "if-match" in request.headers or "if-none-match" in request.headers
    return 412 if stated and isinstance(error, errors.ConditionFailed) else None


def _message_with_notes(error: HoldfastError) -> str:
    said = " ".join([error.message, *getattr(error, "__notes__", ())])
    # Its code is what a sender's programmer looks up.
    return f"{error.code}: {said}" if isinstance(error, errors.CallerRefused) else said


def _log_for_the_operator(request: Request, error: HoldfastError, problem: Problem) -> None:
    level = logging.WARNING if isinstance(error, errors.RetryLater) else logging.ERROR
    trace = error if isinstance(error, errors.Defect) else None
    what = f"{error_label(error)}: {_message_with_notes(error)}"
    log.log(level, "%s %s %r: %s", problem.instance, request.method, request.url.path, what, exc_info=trace)


def _in_words(label: str) -> str:
    first, *rest = re.split(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", label)
    return " ".join([first, *(word if word.isupper() else word.lower() for word in rest)])


async def _on_several(request: Request, error: Exception) -> Response:
    """What was done side by side failed together: the gravest is told, if all of it is ours to tell."""
    assert isinstance(error, ExceptionGroup)
    ours = [each for each in _leaves(error) if isinstance(each, HoldfastError)]
    if len(ours) < len(list(_leaves(error))):
        raise error
    answers = [await _on_error(request, each) for each in ours]
    return max(answers, key=lambda answer: answer.status_code)


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


# --- requests that reach no route, or not in the shape it wants ---------------------------------------------


async def _on_invalid_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [Fault(pointer=_pointer(each), detail=each["msg"]) for each in error.errors()]
    count = "One part" if len(faults) == 1 else f"{len(faults)} parts"
    problem = Problem(
        type=INVALID_PARAMETERS,
        title="Invalid parameters",
        status=422,
        detail=f"{count} of the request cannot be used: `errors` says which, and why.",
        instance=_new_instance(),
        errors=faults,
    )
    return _response(problem)


async def _on_invalid_body(request: Request, error: Exception) -> Response:
    """A body that a route took apart itself. What was in it is told to nobody: it may be personal, or not the caller's."""
    assert isinstance(error, ValidationError)
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problem = Problem(
        type=INVALID_BODY,
        title="Invalid body",
        status=400,
        detail="The body is not what this takes: `errors` says where, and why.",
        instance=_new_instance(),
        errors=[Fault(pointer=_pointer(dict(each)), detail=_told_fault(each)) for each in found],
    )
    # Neither values nor places: names in a body may be the sender's own.
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(each["type"] for each in found).items())
    what = f"the body is no {error.title} ({kinds})"
    log.info("%s %s %r: %s", problem.instance, request.method, request.url.path, what)
    return _response(problem)


def _told_fault(fault: Mapping[str, Any]) -> str:
    """The texts of a model's own checks are left out: they may quote what they refuse."""
    return "It does not pass a check of its own." if fault["type"] in _OF_OWN_CHECKS else str(fault["msg"])


def _pointer(fault: Mapping[str, Any]) -> str:
    place: Sequence[object] = fault["loc"]
    if fault["type"] == "json_invalid":
        # What follows is a position in a text that is no JSON, and so has no places.
        place = place[:1]
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status, headers = error.status_code, error.headers
    if status < HTTPStatus.BAD_REQUEST:
        return Response(status_code=status, headers=dict(headers or {}))
    detail = str(error.detail)
    if detail == responses.get(status):
        detail = _of_the_router(request, status, headers or {}) or detail
    return problem_of_status(status, detail, headers)


def _of_the_router(request: Request, status: int, headers: Mapping[str, str]) -> str | None:
    path = request.url.path
    if status == HTTPStatus.NOT_FOUND:
        return f"There is nothing at {path}. /openapi.json lists what there is."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{path} does not take {request.method}, but {headers.get('Allow', 'another method')}."
    return None


# --- what nobody expected -----------------------------------------------------------------------------------


class _LastResort:
    """Outside of everything else. The framework's own way would log the failure a second time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
                # Half an answer is out. The server logs it and ends the connection, so that it cannot pass for whole.
                raise
            await _unexpected(Request(scope), error)(scope, receive, send)


def _unexpected(request: Request, error: Exception) -> Response:
    instance = _new_instance()
    log.error("%s %s %r", instance, request.method, request.url.path, exc_info=error)
    detail = "The service failed in a way it does not know. Please report it, with this instance."
    return problem_of_status(500, detail, instance=instance)


def _new_instance() -> str:
    return uuid.uuid4().urn


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    content = problem.model_dump(exclude_none=True)
    return JSONResponse(content, problem.status, headers=headers, media_type=PROBLEM_JSON)
