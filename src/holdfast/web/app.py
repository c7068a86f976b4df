"""Build the app of one API: a system's routers with shared middleware, authentication and error handling.

A request passes the server, which checks its head (`core/http`), the middleware (correlation id, body), then
the token check, then its route; `problems.py` answers what fails on the way. The description is at
/openapi.json. There is no page for it: the framework's pages load scripts from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from holdfast.core import limits
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import DeclarationError
from holdfast.core.readiness import Readiness
from holdfast.web.direct_route import DirectRoute
from holdfast.web.middleware import BodyLimit, CorrelationId
from holdfast.web.openapi import describe_app
from holdfast.web.operation_routes import RequestCounter, build_health_router, build_metrics_router
from holdfast.web.problems import install_errors
from holdfast.web.tokens import require_token

with explain_missing(__name__, "api"):
    from fastapi import APIRouter, Depends, FastAPI

if TYPE_CHECKING:
    from holdfast.runtime.telemetry.metrics import MetricsSource

Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

MAX_BODY_BYTES: Final = limits.MIB


def make_app(
    title: str,
    version: str,
    routers: Sequence[APIRouter],
    *,
    self_authenticated: Sequence[APIRouter] = (),
    lifespan: Lifespan | None = None,
    readiness: Readiness | None = None,
    metrics: MetricsSource | None = None,
    token: str | None = None,
    max_body_bytes: int | None = None,
) -> FastAPI:
    """Build the app. `readiness` probes its stores; `metrics` counts its requests and has its metrics.

    `token` guards the routes; without one, `serve` accepts this machine's own requests only. The routes of
    `self_authenticated` routers authenticate their callers themselves and need no token. An app with such
    routers only may be called from anywhere; its metrics need the token, or a caller on this machine.
    """
    app = FastAPI(title=title, version=version, lifespan=lifespan, docs_url=None, redoc_url=None)
    guards = [] if token is None else [Depends(require_token(token))]
    for router in routers:
        _refuse_direct_routes(router)
        app.include_router(router, dependencies=guards)
    for router in self_authenticated:
        app.include_router(router)
    if metrics is not None:
        app.include_router(build_metrics_router(metrics, has_token=token is not None), dependencies=guards)
    app.include_router(build_health_router(readiness or Readiness()))
    describe_app(app, [*routers, *self_authenticated])
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes or MAX_BODY_BYTES)
    install_errors(app)
    app.add_middleware(CorrelationId)
    if metrics is not None:
        app.add_middleware(RequestCounter, counts=metrics.requests)
    return app


def _refuse_direct_routes(router: APIRouter) -> None:
    """Raise `DeclarationError` for a direct route, which would not check the token."""
    for route in router.routes:
        if isinstance(route, DirectRoute):
            raise DeclarationError(
                f"{route.path} is a DirectRoute, which authenticates its callers itself: put it into a "
                "component with has_own_authentication=True."
            )
