"""One API: the routers of a system, with everything around them that is the same for all.

A request goes through the doors (its name, its size), then the token, then its route; what fails on the way
is answered by `problems.py`. The description is at /openapi.json. There is no page to look at it with: those
of the framework load their scripts from elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel

from holdfast import limits
from holdfast.web.direct import DirectRoutes, direct_routes
from holdfast.web.doors import BodyBound, OwnNameOnly
from holdfast.web.openapi import describe_problems
from holdfast.web.problems import install_problems
from holdfast.web.tokens import require_token

Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[Any]]

BODY_BYTES_MAX: Final = limits.MIB
METRICS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class Health(BaseModel):
    """That the service answers, and that what it stands on does."""

    status: Literal["ok"] = "ok"


def make_app(
    title: str,
    version: str,
    routers: Sequence[APIRouter],
    *,
    signed: Sequence[APIRouter] = (),
    lifespan: Lifespan | None = None,
    check: Callable[[], Awaitable[None]] | None = None,
    metrics: Callable[[], str] | None = None,
    token: str | None = None,
    body_bytes_max: int | None = None,
) -> FastAPI:
    """`check` raises when the service is ill; `metrics` returns Prometheus' text; `token` guards the routes.

    Callers of `signed` routers prove with every call who they are, and are asked for no token; their endpoints take the
    request alone and give a response (`direct.py`). An app of these alone may be called from anywhere, and so shows its
    metrics under a token only.
    """
    is_open = bool(signed) and not routers
    app = FastAPI(title=title, version=version, lifespan=lifespan, docs_url=None, redoc_url=None)
    guards = [] if token is None else [Depends(require_token(token))]
    for router in routers:
        app.include_router(router, dependencies=guards)
    for router in signed:
        app.include_router(router)
    if metrics is not None and not (is_open and token is None):
        app.include_router(_metrics_router(metrics), dependencies=guards)
    app.include_router(_health_router(check))
    describe_problems(app)
    # The last one added stands outermost.
    if signed:
        app.add_middleware(DirectRoutes, routes=direct_routes(signed))
    app.add_middleware(BodyBound, bytes_max=body_bytes_max or BODY_BYTES_MAX)
    if token is None and not is_open:
        app.add_middleware(OwnNameOnly)
    install_problems(app)
    return app


def _health_router(check: Callable[[], Awaitable[None]] | None) -> APIRouter:
    router = APIRouter(tags=["operation"])

    @router.get("/health", name="health", summary="Whether the service is well")
    async def health() -> Health:
        if check is not None:
            await check()
        return Health()

    return router


def _metrics_router(metrics: Callable[[], str]) -> APIRouter:
    router = APIRouter(tags=["operation"])

    # Not a coroutine, so that it runs in a thread: gathering may take its time.
    @router.get(
        "/metrics",
        name="metrics_text",
        summary="What was counted, for Prometheus",
        response_class=PlainTextResponse,
    )
    def metrics_text() -> PlainTextResponse:
        return PlainTextResponse(metrics(), media_type=METRICS_TEXT)

    return router
