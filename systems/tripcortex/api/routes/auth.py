"""The wrapper around every employee route: bearer token, admin role, correlation id, and problem responses.

correlation id → caller (token) → role → route; an error in any of them becomes a problem (RFC 9457)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.core.correlation import bind_correlation_id
from holdfast.web import build_problem_response, build_status_response
from holdfast.web.tokens import get_bearer_token
from tripcortex.api.identity import Authenticator, Employee
from tripcortex.api.trips import Trips
from tripcortex.settings import TripCortexSettings

CORRELATION_HEADER: Final = "x-correlation-id"
UNEXPECTED: Final = "The service failed unexpectedly. Please report it with its `instance`."

Endpoint = Callable[[Request, Employee], Awaitable[Response]]
PlainEndpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


class Gate:
    """Authentication of the routes, and the stores, settings and booking operations that they share.

    One per process and component.
    """

    def __init__(self, stores: Stores, settings: TripCortexSettings) -> None:
        self.stores, self.settings = stores, settings
        self.authenticator = Authenticator(settings, stores.clock)
        self.trips = Trips(
            stores,
            request_chars_max=settings.request_chars_max,
            requests_a_minute=settings.requests_a_minute,
        )

    def authenticated(self, *, admins: bool = False) -> Callable[[Endpoint], PlainEndpoint]:
        """Return a decorator that authenticates the bearer token and passes the employee to the endpoint.

        With `admins`, only admins get in. Errors are answered as problems (`respond`).
        """

        def guarded(endpoint: Endpoint) -> PlainEndpoint:
            async def answered(request: Request) -> Response:
                async def route() -> Response:
                    employee = await self.authenticator.authenticate(get_bearer_token(request))
                    if admins:
                        employee.require_admin()
                    return await endpoint(request, employee)

                return await respond(request, route)

            return copy_name(answered, endpoint)

        return guarded


async def respond(request: Request, route: Callable[[], Awaitable[Response]]) -> Response:
    """Call the route and return its response, or the problem response of the error it raised.

    Add a new correlation id as a header, and `cache-control: no-store` unless the route set it.
    """
    with bind_correlation_id() as id:
        try:
            answer = await route()
        except Exception as error:
            answer = await build_error_response(request, error)
    answer.headers[CORRELATION_HEADER] = id
    # Responses are private to the caller: no cache may keep them.
    answer.headers.setdefault("cache-control", "no-store")
    return answer


async def build_error_response(request: Request, error: Exception) -> Response:
    """Return the problem response of an error.

    For an unknown error log its location and return a 500 without its details.
    """
    try:
        return await build_problem_response(request, error)
    except Exception as unknown:
        answer = build_status_response(500, UNEXPECTED)
        instance = json.loads(bytes(answer.body))["instance"]
        # Log the location and not the message: it may contain personal data.
        log.error("%s %s: %s", instance, type(unknown).__name__, _format_frames(unknown))
        return answer


async def build_problem(call: HTTPConnection, error: Exception) -> Mapping[str, Any]:
    """Return the JSON object of an error's problem response, for a frame of the WebSocket."""
    answer = await build_error_response(to_request(call), error)
    problem: Mapping[str, Any] = json.loads(bytes(answer.body))
    return problem


def to_request(call: HTTPConnection) -> Request:
    """Return a WebSocket handshake as an HTTP GET request, as the problem responses need one."""
    return Request({**call.scope, "type": "http", "method": "GET"})


def copy_name(answered: PlainEndpoint, endpoint: Callable[..., Awaitable[Response]]) -> PlainEndpoint:
    """Give the wrapper `answered` the endpoint's name, qualified name and docstring; return it.

    Not by `functools.wraps`: the signature must stay that of an endpoint with the request alone.
    """
    answered.__name__, answered.__doc__ = endpoint.__name__, endpoint.__doc__
    answered.__qualname__ = endpoint.__qualname__
    return answered


def _format_frames(error: BaseException) -> str:
    """Return file and line of the last four frames of the error's traceback."""
    frame, found = error.__traceback__, []
    while frame is not None:
        found.append(f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}")
        frame = frame.tb_next
    return " > ".join(found[-4:])
