"""Who calls, and whether it may: in front of every route that serves an employee.

a correlation id → who calls (a token) → the role → the route; what any of them raises is a problem (RFC 9457)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from holdfast import Stores
from holdfast.correlation import correlated
from holdfast.web import problem_of, problem_of_status
from holdfast.web.tokens import bearer_token
from tripcortex.live.identity import Employee, Identities
from tripcortex.live.trips import Trips
from tripcortex.settings import TripCortexSettings

CORRELATION_HEADER: Final = "x-correlation-id"
UNEXPECTED: Final = "The service failed in a way that it does not know. Please report it, with this instance."

Endpoint = Callable[[Request, Employee], Awaitable[Response]]
PlainEndpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


class Gate:
    """One per process and component."""

    def __init__(self, stores: Stores, settings: TripCortexSettings) -> None:
        self.stores, self.settings = stores, settings
        self.identities = Identities(settings, stores.clock)
        self.trips = Trips(
            stores,
            request_chars_max=settings.request_chars_max,
            requests_a_minute=settings.requests_a_minute,
        )

    def serves(self, *, admins: bool = False) -> Callable[[Endpoint], PlainEndpoint]:
        """Makes an endpoint of what takes a request and who calls."""

        def guarded(endpoint: Endpoint) -> PlainEndpoint:
            async def answered(request: Request) -> Response:
                async def route() -> Response:
                    employee = await self.identities.employee(bearer_token(request))
                    if admins:
                        employee.need_admin()
                    return await endpoint(request, employee)

                return await told(request, route)

            return named(answered, endpoint)

        return guarded


async def told(request: Request, route: Callable[[], Awaitable[Response]]) -> Response:
    """What the route answers, or its refusal; under a correlation id that the answer names."""
    with correlated() as id:
        try:
            answer = await route()
        except Exception as error:
            answer = await refusal_of(request, error)
    answer.headers[CORRELATION_HEADER] = id
    # What is one employee's is for who asked, and no cache between.
    answer.headers.setdefault("cache-control", "no-store")
    return answer


async def refusal_of(request: Request, error: Exception) -> Response:
    try:
        return await problem_of(request, error)
    except Exception as unknown:
        answer = problem_of_status(500, UNEXPECTED)
        instance = json.loads(bytes(answer.body))["instance"]
        # Where it happened, and not what was said there: that may have been somebody's.
        log.error("%s %s: %s", instance, type(unknown).__name__, _places(unknown))
        return answer


async def problem_in(call: HTTPConnection, error: Exception) -> Mapping[str, Any]:
    """The problem object alone, for what is no request."""
    answer = await refusal_of(as_request(call), error)
    problem: Mapping[str, Any] = json.loads(bytes(answer.body))
    return problem


def as_request(call: HTTPConnection) -> Request:
    """A handshake, as the request that it is."""
    return Request({**call.scope, "type": "http", "method": "GET"})


def named(answered: PlainEndpoint, endpoint: Callable[..., Awaitable[Response]]) -> PlainEndpoint:
    """Not by `functools.wraps`: its signature must stay that of an endpoint, with the request alone."""
    answered.__name__, answered.__doc__ = endpoint.__name__, endpoint.__doc__
    answered.__qualname__ = endpoint.__qualname__
    return answered


def _places(error: BaseException) -> str:
    frame, found = error.__traceback__, []
    while frame is not None:
        found.append(f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}")
        frame = frame.tb_next
    return " > ".join(found[-4:])
