"""Health and metrics of an app without stores, such as a sandbox: in front of its own routes."""

from __future__ import annotations

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.runtime.telemetry.metrics import open_process_metrics
from holdfast.web.operation_routes import add_operation_routes
from tests.unit.web.app_client import FixedMetrics


async def answer(request: Request) -> Response:
    return JSONResponse(request.path_params)


async def send(app: Starlette, path: str, client: str = "127.0.0.1") -> httpx.Response:
    transport = httpx.ASGITransport(app, client=(client, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as sender:
        return await sender.get(path)


def build_sandbox(metrics: FixedMetrics | None = None) -> tuple[Starlette, FixedMetrics]:
    """Build an app whose last route accepts every path."""
    app = Starlette(routes=[Route("/tickets/{id}", answer), Route("/{rest:path}", answer)])
    add_operation_routes(app, metrics := metrics or FixedMetrics("text"))
    return app, metrics


async def test_sandbox_has_health_and_metrics_before_its_own_routes() -> None:
    app, _ = build_sandbox()

    assert (await send(app, "/health/live")).json() == {"status": "ok"}
    for path in ("/health/ready", "/health"):
        assert (await send(app, path)).json() == {"status": "ok", "stores": []}
    assert (await send(app, "/metrics")).text == "text"
    assert (await send(app, "/metrics", client="10.0.0.7")).status_code == 403
    assert (await send(app, "/other/path")).json() == {"rest": "other/path"}


async def test_sandbox_counts_requests_by_route_template() -> None:
    app, metrics = build_sandbox()
    for path in ("/tickets/ada", "/tickets/bob", "/other/path"):
        await send(app, path)

    assert metrics.requests.count_requests() == {
        ("GET", "/tickets/{id}", "200"): 2,
        ("GET", "/{rest:path}", "200"): 1,
    }


async def test_text_of_a_sandbox_has_its_requests_and_its_process() -> None:
    app = Starlette(routes=[Route("/tickets/{id}", answer)])
    add_operation_routes(app, open_process_metrics())
    await send(app, "/tickets/ada")
    text = (await send(app, "/metrics")).text

    assert 'holdfast_http_requests_total{method="GET",route="/tickets/{id}",status="200"} 1.0' in text
    assert "process_cpu_seconds_total" in text
    assert "ada" not in text
