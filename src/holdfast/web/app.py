"""Build the app of one API: a system's routers with shared middleware, authentication and error handling.

A request passes the server, which checks its head (`core/http`), the middleware (correlation id, body), then
the token check, then its route; `problems.py` answers what fails on the way. The description is at
/openapi.json. There is no page for it: the framework's pages load scripts from elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel

from holdfast.core import limits
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import DeclarationError
from holdfast.web.direct_route import DirectRoute
from holdfast.web.middleware import BodyLimit, CorrelationId
from holdfast.web.openapi import describe_app
from holdfast.web.problems import install_errors
from holdfast.web.tokens import require_token

with explain_missing(__name__, "api"):
    from fastapi import APIRouter, Depends, FastAPI
    from fastapi.responses import PlainTextResponse

Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

MAX_BODY_BYTES: Final = limits.MIB
METRICS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    """The health of the service and of its stores."""

    status: Literal["ok"] = "ok"


def make_app(
    title: str,
    version: str,
    routers: Sequence[APIRouter],
    *,
    self_authenticated: Sequence[APIRouter] = (),
    lifespan: Lifespan | None = None,
    check: Callable[[], Awaitable[None]] | None = None,
    metrics: Callable[[], str] | None = None,
    token: str | None = None,
    max_body_bytes: int | None = None,
) -> FastAPI:
    """Build the app. `check` raises when the service is unhealthy; `metrics` returns Prometheus text.

    `token` guards the routes; without one, `serve` accepts this machine's own requests only. The routes of
    `self_authenticated` routers authenticate their callers themselves and need no token. An app with such
    routers only may be called from anywhere, so it shows its metrics only under a token.
    """
    is_open = bool(self_authenticated) and not routers
    app = FastAPI(title=title, version=version, lifespan=lifespan, docs_url=None, redoc_url=None)
    guards = [] if token is None else [Depends(require_token(token))]
    for router in routers:
        _refuse_direct_routes(router)
        app.include_router(router, dependencies=guards)
    for router in self_authenticated:
        app.include_router(router)
    if metrics is not None and not (is_open and token is None):
        app.include_router(_build_metrics_router(metrics), dependencies=guards)
    app.include_router(_build_health_router(check))
    describe_app(app, [*routers, *self_authenticated])
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes or MAX_BODY_BYTES)
    install_errors(app)
    app.add_middleware(CorrelationId)
    return app


def _refuse_direct_routes(router: APIRouter) -> None:
    """Raise `DeclarationError` for a direct route, which would not check the token."""
    for route in router.routes:
        if isinstance(route, DirectRoute):
            raise DeclarationError(
                f"{route.path} is a DirectRoute, which authenticates its callers itself: put it into a "
                "component with has_own_authentication=True."
            )


def _build_health_router(check: Callable[[], Awaitable[None]] | None) -> APIRouter:
    """Build GET /health, which answers 200 unless `check` raises."""
    router = APIRouter(tags=["operation"])

    @router.get("/health", name="health", summary="Check the health of the service")
    async def health() -> Health:
        if check is not None:
            await check()
        return Health()

    return router


def _build_metrics_router(metrics: Callable[[], str]) -> APIRouter:
    """Build GET /metrics, which returns the text of `metrics`."""
    router = APIRouter(tags=["operation"])

    # Not a coroutine, so that it runs in a thread: collecting may take a while.
    @router.get(
        "/metrics",
        name="metrics_text",
        summary="Metrics in Prometheus text format",
        response_class=PlainTextResponse,
    )
    def metrics_text() -> PlainTextResponse:
        return PlainTextResponse(metrics(), media_type=METRICS_TEXT)

    return router
