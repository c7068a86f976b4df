"""Error pages: what went wrong, in words, and the next step.

A request of htmx gets the same message as a fragment, which the page shows at its top.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from holdfast.console.access import ActionRefused, SignInRequired, find_session
from holdfast.console.audit_trail import audit
from holdfast.console.context import get_console
from holdfast.console.live import EVENT_STREAM, SIGNED_OUT_EVENT
from holdfast.console.rendering import is_fragment, render
from holdfast.core.correlation import get_correlation_id
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import (
    AccessRefused,
    CallerForbidden,
    ComponentRefused,
    ConditionFailed,
    HoldfastError,
    InvalidRequest,
    NotFound,
    RateLimited,
    RetryLater,
    format_message,
)
from holdfast.core.http.hosts import SAFE_METHODS

with explain_missing(__name__, "console"):
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

ASSETS_PATH: Final = "/assets/"

STATUSES: Final[tuple[tuple[type[HoldfastError], HTTPStatus], ...]] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (ConditionFailed, HTTPStatus.CONFLICT),
    (RateLimited, HTTPStatus.TOO_MANY_REQUESTS),
    (RetryLater, HTTPStatus.SERVICE_UNAVAILABLE),
    (CallerForbidden, HTTPStatus.FORBIDDEN),
    (AccessRefused, HTTPStatus.BAD_GATEWAY),
    (ComponentRefused, HTTPStatus.INTERNAL_SERVER_ERROR),
    (InvalidRequest, HTTPStatus.BAD_REQUEST),
)
TITLES: Final = {
    400: "This is not valid",
    403: "Not permitted",
    404: "Not found",
    409: "Somebody was faster",
    429: "Too many attempts",
    500: "Something failed",
    502: "A store refused the console",
    503: "A store does not answer",
}


def install_error_pages(app: FastAPI) -> None:
    """Answer every error with a page; unexpected ones need `FailurePages` too."""
    app.add_exception_handler(SignInRequired, _answer_sign_in)
    app.add_exception_handler(ActionRefused, _answer_refused)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HoldfastError, _answer_holdfast_error)


class FailurePages:
    """ASGI middleware that answers unexpected errors with a page. It is inside of the one that adds headers;
    the framework's own would be outside of it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Shared with the page, which notes the user there: the error page shows the same navigation.
        scope.setdefault("state", {})
        has_begun = False

        async def send_and_remember(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_remember)
        except Exception as error:
            if has_begun:
                raise  # the server closes the connection, so that the browser notices
            await _answer_failure(Request(scope), error)(scope, receive, send)


async def _answer_sign_in(request: Request, error: Any) -> Response:
    if EVENT_STREAM in request.headers.get("accept", ""):
        # A page that connects again after its session has ended follows no redirect.
        return Response(SIGNED_OUT_EVENT, media_type=EVENT_STREAM)
    if is_fragment(request):
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"hx-redirect": error.url})
    return RedirectResponse(error.url, HTTPStatus.SEE_OTHER)


async def _answer_refused(request: Request, error: Any) -> Response:
    """Audit what a signed-in user tried, and answer with the reason."""
    route = request.scope.get("route")
    await audit(
        get_console(request),
        request.state.user,
        "refused",
        system=request.path_params.get("system", getattr(request.state, "system", None)),
        target=f"{request.method} {getattr(route, 'path', '')}",
        reason=error.reason,
    )
    return _render_error(request, error.status_code, error.detail)


async def _answer_http_error(request: Request, error: Any) -> Response:
    """Answer an unknown path or method: strangers learn no more than that they must sign in."""
    if getattr(request.state, "user", None) is None and not request.url.path.startswith(ASSETS_PATH):
        with suppress(HoldfastError):
            if await find_session(request, get_console(request)) is None:
                is_safe = request.method in SAFE_METHODS
                return await _answer_sign_in(request, SignInRequired(request.url.path if is_safe else "/"))
    detail = error.detail if error.detail != HTTPStatus(error.status_code).phrase else ""
    return _render_error(request, error.status_code, detail, headers=error.headers)


async def _answer_invalid(request: Request, error: Any) -> Response:
    wrong = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
    return _render_error(request, HTTPStatus.BAD_REQUEST, f"Invalid values: {wrong}.")


async def _answer_holdfast_error(request: Request, error: Any) -> Response:
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), None)
    if status is None:
        log.error("A page failed: %s", error, exc_info=error)
    return _render_error(request, status or HTTPStatus.INTERNAL_SERVER_ERROR, format_message(error))


def _answer_failure(request: Request, error: Exception) -> Response:
    log.error("A page failed.", exc_info=error)
    return _render_error(
        request,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The console failed to build this page, and nothing was changed after the failure. The log of the "
        f"console has the reason under the correlation id {get_correlation_id()}.",
    )


def _render_error(request: Request, status: int, message: str, *, headers: Any = None) -> Response:
    title = TITLES.get(status, HTTPStatus(status).phrase)
    template = "error_fragment.html" if is_fragment(request) else "error.html"
    answer = render(request, template, status_code=status, title=title, message=message, code=int(status))
    for name, value in (headers or {}).items():
        answer.headers[name] = value
    return answer
