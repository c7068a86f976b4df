"""Benchmark: webhooks per second of processor time, compared with the same endpoint as an ordinary route.

The webhook of Richpanel is a `DirectRoute`, which FastAPI declares and does not run. The ratio says what that
saves of a whole webhook (signature, shape, key, queue in memory). Both apps are called in this process,
without a server: processor time says more than a rate on a machine with other work.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from benchmarks.harness.measurement import Figure, compare
from benchmarks.richpanel.webhook_bodies import SECRET, build_webhook
from holdfast import open_memory_stores, provision
from holdfast.web import make_app, sign
from holdfast.web.demo_env import patch_environ
from richpanel.api.routes import build_ingress_routes
from richpanel.system import SYSTEM

REQUESTS = 1_000
# Below it, the route would not be worth its exception.
MUST_REACH: Final = 1.05


def run() -> Figure:
    """Return the figure of the direct route against an ordinary one."""
    numbers = itertools.count()
    with patch_environ({"HOLDFAST_SECRET_RICHPANEL_WEBHOOK": SECRET}):
        stores = open_memory_stores(SYSTEM)
        try:
            asyncio.run(provision(stores, SYSTEM))
            direct = build_ingress_routes(stores.for_component("ingress"))
            return compare(
                "webhooks, direct route",
                _build_measurement(direct, numbers),
                _build_measurement(_build_ordinary_router(direct), numbers),
                MUST_REACH,
            )
        finally:
            asyncio.run(stores.close())


def _build_ordinary_router(direct: APIRouter) -> APIRouter:
    """Return a router with the same endpoints as ordinary routes."""
    router = APIRouter()
    for route in direct.routes:
        assert isinstance(route, APIRoute)
        router.add_api_route(
            route.path, route.endpoint, methods=list(route.methods or ()), response_model=route.response_model
        )
    return router


def _build_measurement(router: APIRouter, numbers: Iterator[int]) -> Callable[[], float]:
    """Return a function that sends a round of webhooks to the router and returns their rate."""
    app = make_app("Webhooks", "1", (), self_authenticated=[router])

    def measure() -> float:
        calls = [_build_call(number) for number in itertools.islice(numbers, REQUESTS)]
        return asyncio.run(_send_webhooks(app, calls))

    return measure


async def _send_webhooks(app: FastAPI, calls: list[tuple[dict[str, Any], bytes]]) -> float:
    """Send the webhooks one after the other; return how many a second of processor time takes."""
    started_at = time.process_time()
    for scope, body in calls:
        await _send(app, scope, body)
    return len(calls) / (time.process_time() - started_at)


async def _send(app: FastAPI, scope: dict[str, Any], body: bytes) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200

    await app(scope, receive, send)


def _build_call(number: int) -> tuple[dict[str, Any], bytes]:
    """Return the ASGI scope and the body of a signed webhook."""
    body = msgspec.json.encode(build_webhook(number))
    signature = sign(SECRET, body, time.time())
    headers = {"host": "localhost", "content-length": str(len(body)), "x-richpanel-signature": signature}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/webhooks/richpanel",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    return scope, body
