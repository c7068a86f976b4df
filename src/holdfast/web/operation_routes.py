"""The routes that operate a process: /health/live, /health/ready and /metrics, on every port.

Health is open to all callers: it says no more than which store does not answer. Metrics contain counts,
durations and declared names, and no data of a person; they need the token of the API, and without one the
caller must be on this machine.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field

from holdfast.core.distribution import explain_missing
from holdfast.core.http.addresses import is_loopback
from holdfast.core.http.hosts import is_local_host
from holdfast.core.http.request_counts import NO_STATUS, UNMATCHED, RequestCounts
from holdfast.core.readiness import OK, Readiness

with explain_missing(__name__, "api"):
    from fastapi import APIRouter
    from fastapi.responses import JSONResponse, PlainTextResponse
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from holdfast.runtime.telemetry.metrics import MetricsSource

METRICS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
LIVE_PATH: Final = "/health/live"
READY_PATH: Final = "/health/ready"
# What probes of older configurations ask; the same as READY_PATH.
HEALTH_PATH: Final = "/health"
METRICS_PATH: Final = "/metrics"


class Live(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class StoreStatus(BaseModel):
    """Whether one store answers."""

    store: str = Field(description="tables, queues, objects, sql or cache.")
    status: Literal["ok", "unavailable"]
    reason: str | None = Field(
        default=None, description="Why it does not answer: the label of an error, or a time limit."
    )


class Ready(BaseModel):
    """Whether all stores that the process uses answer."""

    status: Literal["ok", "unavailable"]
    stores: list[StoreStatus]


def build_health_router(readiness: Readiness) -> APIRouter:
    """Build the routes of a FastAPI app's health."""
    router = APIRouter(tags=["operation"])

    @router.get(LIVE_PATH, name="live", summary="Check that the process answers")
    async def live() -> Live:
        return Live()

    # The response is built here: an unavailable store is not an error of the app's format.
    @router.get(HEALTH_PATH, name="health", include_in_schema=False)
    @router.get(
        READY_PATH,
        name="ready",
        summary="Check that the stores answer",
        response_model=Ready,
        response_model_exclude_none=True,
        responses={503: {"model": Ready, "description": "A store does not answer. `stores` says which."}},
    )
    async def ready() -> Response:
        return await answer_ready(readiness)

    return router


def build_metrics_router(metrics: MetricsSource, *, has_token: bool) -> APIRouter:
    """Build the route of a FastAPI app's metrics. Without a token, it answers only this machine."""
    router = APIRouter(tags=["operation"])

    @router.get(
        METRICS_PATH,
        name="metrics_text",
        summary="Metrics in Prometheus text format",
        response_class=PlainTextResponse,
    )
    async def metrics_text(request: Request) -> PlainTextResponse:
        if not has_token:
            require_local_caller(request)
        return await answer_metrics(metrics)

    return router


def add_operation_routes(app: Starlette, metrics: MetricsSource) -> None:
    """Add the routes to an app without stores, such as a sandbox, and count its requests."""

    async def live(_: Request) -> Response:
        return JSONResponse({"status": OK})

    async def metrics_text(request: Request) -> Response:
        require_local_caller(request)
        return await answer_metrics(metrics)

    async def ready(_: Request) -> Response:
        return await answer_ready(Readiness())

    # In front of the app's own, which may accept every path.
    app.router.routes[:0] = [
        Route(LIVE_PATH, live),
        Route(READY_PATH, ready),
        Route(HEALTH_PATH, ready),
        Route(METRICS_PATH, metrics_text),
    ]
    app.add_middleware(RequestCounter, counts=metrics.requests, app_routes=app.router.routes)


async def answer_ready(readiness: Readiness) -> JSONResponse:
    """Return 200 if all stores are ready, else 503; the body names each store and why it is not."""
    is_ready, body = await readiness.describe()
    return JSONResponse(body, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)


async def answer_metrics(metrics: MetricsSource) -> PlainTextResponse:
    """Return the text of the metrics."""
    return PlainTextResponse(await metrics.collect(), media_type=METRICS_TEXT)


def require_local_caller(call: HTTPConnection) -> None:
    """Raise 403 unless the caller is on this machine and names it so."""
    if not is_local_caller(call):
        raise HTTPException(
            HTTPStatus.FORBIDDEN,
            "Without a token, the metrics are shown only on this machine. Set api_token, and send it as "
            "`Authorization: Bearer TOKEN`.",
        )


def is_local_caller(call: HTTPConnection) -> bool:
    """Return whether the caller is on this machine and names it so: a proxy, or a page that took over a name,
    does not.
    """
    is_local = call.client is not None and is_loopback(call.client.host)
    return is_local and is_local_host(call.headers.get("host", "").encode("latin-1"))


class RequestCounter:
    """ASGI middleware that counts each request under its route's template, its method and its status."""

    def __init__(self, app: ASGIApp, counts: RequestCounts, app_routes: list[Any] | None = None) -> None:
        self._app, self._counts = app, counts
        # A plain Starlette route leaves only its endpoint in the scope.
        self._app_routes = app_routes or []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = NO_STATUS

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = self._counts.start()
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            self._counts.finish(started, scope["method"], self._find_route(scope), status)

    def _find_route(self, scope: Scope) -> str:
        """Return the template of the route that answered, such as /seats/{row}."""
        route = scope.get("route") or next(
            (each for each in self._app_routes if each.endpoint is scope.get("endpoint")), None
        )
        path: str | None = getattr(route, "path", None)
        return path or UNMATCHED
