"""Middleware that serves the routes of self-authenticating components without the framework's layers.

Machines call them all the time. Their endpoints take a request and return a response: there are no parameters
to resolve and no model to validate, so the framework would be most of the cost of a call. The framework still
describes them in OpenAPI, and an error becomes the same problem detail as on any other route.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from re import Pattern
from typing import Any, NamedTuple

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import DeclarationError
from holdfast.web.problems import build_problem_response

with explain_missing(__name__, "api"):
    from fastapi import APIRouter
    from fastapi.routing import APIRoute
    from starlette.convertors import Convertor
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import compile_path
    from starlette.types import ASGIApp, Receive, Scope, Send


class DirectRoute(NamedTuple):
    """A route that is answered directly: its path as a regular expression, its methods and its endpoint."""

    path: Pattern[str]
    convertors: Mapping[str, Convertor[Any]]
    methods: frozenset[str]
    endpoint: Callable[[Request], Awaitable[Response]]


def build_direct_routes(routers: Sequence[APIRouter]) -> tuple[DirectRoute, ...]:
    """Return the routes of the routers. Raise `DeclarationError` for an endpoint that needs the framework."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    return tuple(_to_direct_route(route) for route in routes)


class DirectRoutes:
    """Middleware that passes a request for one of these routes straight to its endpoint, any other to the
    app.
    """

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
                    await _answer(route, scope, receive, send)
                    return
        # Also for another method of such a path: the app knows which methods are allowed.
        await self._app(scope, receive, send)


async def _answer(route: DirectRoute, scope: Scope, receive: Receive, send: Send) -> None:
    """Call the endpoint and send its response, or a problem detail for its error."""
    request = Request(scope, receive)
    try:
        answer = await route.endpoint(request)
        if not isinstance(answer, Response):
            raise DeclarationError(
                f"{route.endpoint.__qualname__} is an endpoint of a self-authenticating component and "
                "returned a "
                f"{type(answer).__name__}: return a response, such as JSONResponse({{…}})."
            )
    except Exception as error:
        answer = await build_problem_response(request, error)
    await answer(scope, receive, send)


def _to_direct_route(route: APIRoute) -> DirectRoute:
    """Convert a route. Raise `DeclarationError` unless its endpoint is a coroutine function that takes only
    the request and has no dependencies.
    """
    takes_request_alone = (
        inspect.iscoroutinefunction(route.endpoint)
        and [route.dependant.request_param_name] == list(inspect.signature(route.endpoint).parameters)
        and not route.dependant.dependencies
    )
    if not takes_request_alone:
        raise DeclarationError(
            f"{route.path} is a route of a self-authenticating component, whose endpoints are coroutines "
            "with one argument, `request: Request`, and without dependencies: read its input from the "
            "request, and return a response."
        )
    path, _, convertors = compile_path(route.path)
    return DirectRoute(path, convertors, frozenset(route.methods or ()), route.endpoint)
