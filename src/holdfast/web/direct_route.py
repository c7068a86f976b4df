"""A route for the busiest calls, such as signed webhooks: FastAPI declares it, and does not run it.

    router = APIRouter(route_class=DirectRoute)

    @router.post("/webhooks/payments", response_model=Accepted)
    async def take(request: Request) -> Response: …

Its endpoint takes the request and returns a response. There are no parameters to resolve and no model to
validate, so the framework would be a fifth of the cost of a call (docs/internals/benchmarks.md). Everything
else is as on any route: middleware, errors, the description in OpenAPI.
"""

from __future__ import annotations

import inspect
from typing import Any

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import DeclarationError

with explain_missing(__name__, "api"):
    from fastapi.routing import APIRoute
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send


class DirectRoute(APIRoute):
    """A route that calls its endpoint with the request, without the framework's layers.

    Raise `DeclarationError` unless the endpoint is a coroutine function that takes the request alone, without
    dependencies. It authenticates its caller itself: its component has `has_own_authentication=True`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        takes_request_alone = (
            inspect.iscoroutinefunction(self.endpoint)
            and [self.dependant.request_param_name] == list(inspect.signature(self.endpoint).parameters)
            and not self.dependant.dependencies
        )
        if not takes_request_alone:
            raise DeclarationError(
                f"{self.path} is a DirectRoute, whose endpoint is a coroutine function with one argument, "
                "`request: Request`, and without dependencies: read the input from the request, or declare "
                "an ordinary route."
            )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint and send its response."""
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        answer = await self.endpoint(Request(scope, receive))
        if not isinstance(answer, Response):
            raise DeclarationError(
                f"{self.endpoint.__qualname__} is the endpoint of a DirectRoute and returned a "
                f"{type(answer).__name__}: return a response, such as JSONResponse({{…}})."
            )
        await answer(scope, receive, send)
