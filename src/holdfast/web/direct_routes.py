"""Routes that machines call all the time, answered without the layers that a framework puts around a route.

Their endpoints take a request and give a response: there are no parameters to solve and no model to check, so
the way through the framework would be most of what a call costs. It still describes them; what they raise is
the same problem as anywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from re import Pattern
from typing import Any, NamedTuple

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.convertors import Convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.errors import DeclarationError
from holdfast.web.problems import build_problem_response


class DirectRoute(NamedTuple):
    path: Pattern[str]
    convertors: Mapping[str, Convertor[Any]]
    methods: frozenset[str]
    endpoint: Callable[[Request], Awaitable[Response]]


def direct_routes(routers: Sequence[APIRouter]) -> tuple[DirectRoute, ...]:
    """What the routers have. Raises `DeclarationError` of what cannot be answered so."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return tuple(_direct(route) for route in routes)


class DirectRoutes:
    """Stands before the app: what is for one of these routes goes straight to its endpoint."""

    def __init__(self, app: ASGIApp, routes: Sequence[DirectRoute]) -> None:
        self._app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for route in self._routes:
                found = route.path.match(scope["path"])
                if found is not None and scope["method"] in route.methods:
                    values = found.groupdict().items()
                    scope["path_params"] = {
                        name: route.convertors[name].convert(each) for name, each in values
                    }
                    await _answered(route, scope, receive, send)
                    return
        # Another method of such a path too: the app knows which are allowed.
        await self._app(scope, receive, send)


async def _answered(route: DirectRoute, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    try:
        answer = await route.endpoint(request)
        if not isinstance(answer, Response):
            raise DeclarationError(
                f"{route.endpoint.__qualname__} is an endpoint of a signed component and gave a "
                f"{type(answer).__name__}: give a response, such as JSONResponse({{…}})."
            )
    except Exception as error:
        answer = await build_problem_response(request, error)
    await answer(scope, receive, send)


def _direct(route: APIRoute) -> DirectRoute:
    """Refuses what the framework would have to do something for: it would not be done."""
    takes_request_alone = (
        inspect.iscoroutinefunction(route.endpoint)
        and [route.dependant.request_param_name] == list(inspect.signature(route.endpoint).parameters)
        and not route.dependant.dependencies
    )
    if not takes_request_alone:
        raise DeclarationError(
            f"{route.path} is a route of a signed component, whose endpoints are coroutines with one "
            "argument, "
            "`request: Request`, and without dependencies: read what it needs from the request, and give a "
            "response."
        )
    path, _, convertors = compile_path(route.path)
    return DirectRoute(path, convertors, frozenset(route.methods or ()), route.endpoint)
