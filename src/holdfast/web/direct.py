"""Routes that machines call all the time, answered without the layers that a framework puts around a route.

Their endpoints take a request and give a response: there are no parameters to solve and no model to check, so the way
through the framework would be most of what a call costs. It still describes them; what they raise is the same problem
as anywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from re import Pattern
from typing import NamedTuple

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import DeclarationError, HoldfastError
from holdfast.web.problems import problem_of_error, problem_of_http


class _Route(NamedTuple):
    path: Pattern[str]
    methods: frozenset[str]
    endpoint: Callable[[Request], Awaitable[Response]]


class DirectRoutes:
    """Stands before the app: what is for one of these routes goes straight to its endpoint."""

    def __init__(self, app: ASGIApp, routes: Sequence[APIRoute]) -> None:
        self._app = app
        self._routes = tuple(_direct(route) for route in routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for route in self._routes:
                found = route.path.match(scope["path"])
                if found is not None and scope["method"] in route.methods:
                    scope["path_params"] = found.groupdict()
                    await _answered(route, scope, receive, send)
                    return
        await self._app(scope, receive, send)


async def _answered(route: _Route, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    try:
        answer = await route.endpoint(request)
    except HoldfastError as error:
        answer = await problem_of_error(request, error)
    except HTTPException as error:
        answer = await problem_of_http(request, error)
    await answer(scope, receive, send)


def _direct(route: APIRoute) -> _Route:
    if len(route.dependant.path_params + route.dependant.query_params + route.dependant.body_params):
        raise DeclarationError(
            f"{route.path} is a route of a signed component, whose endpoints take one argument, the request: read what it "
            "needs from that."
        )
    path, _, _ = compile_path(route.path)
    return _Route(path, frozenset(route.methods or ()), route.endpoint)
