"""Health and metrics of the DynamoDB endpoint, over HTTP: open health, bounded checks, local metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import boto3
import httpx
from prometheus_client.parser import text_string_to_metric_families

from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.app import App
from holdfast.wire.http.server import start_server


class HangingTables:
    """Tables that never answer."""

    async def run(self, operation: Any) -> Any:
        await asyncio.Event().wait()


async def ask(
    app: App, path: str, *, client: str = "127.0.0.1", host: str = "localhost", method: str = "GET"
) -> httpx.Response:
    transport = httpx.ASGITransport(app, client=(client, 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as sender:
        return await sender.request(method, path)


def test_endpoint_shows_health_and_counts_operations_by_name() -> None:
    with start_server() as url:
        dynamodb = boto3.client("dynamodb", endpoint_url=url)
        dynamodb.list_tables()
        dynamodb.close()
        httpx.get(f"{url}/nowhere/ada")
        httpx.post(url, headers={"x-amz-target": "DynamoDB_20120810.Ada", "content-type": "x"}, content=b"{}")
        assert httpx.get(f"{url}/health/live").json() == {"status": "ok"}
        ready = httpx.get(f"{url}/health/ready")
        assert (ready.status_code, ready.json()["stores"]) == (200, [{"store": "tables", "status": "ok"}])
        assert httpx.get(f"{url}/health").json() == ready.json()
        answer = httpx.get(f"{url}/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {each.name: each for each in text_string_to_metric_families(answer.text)}
    counted = {
        (each.labels["method"], each.labels["route"], each.labels["status"]): each.value
        for each in families["holdfast_http_requests"].samples
    }
    assert counted == {
        ("POST", "ListTables", "200"): 1,
        ("GET", "unmatched", "404"): 1,
        ("POST", "unmatched", "404"): 1,
        ("GET", "/health/live", "200"): 1,
        ("GET", "/health/ready", "200"): 1,
        ("GET", "/health", "200"): 1,
    }
    assert "process_resident_memory_bytes" in families


async def test_hanging_store_is_not_ready_and_the_process_stays_live() -> None:
    app = App(HangingTables(), health_timeout_s=0.01)
    async with asyncio.timeout(30):
        ready, live = await ask(app, "/health/ready"), await ask(app, "/health/live")
        metrics = await ask(app, "/metrics")

    assert ready.status_code == 503
    assert ready.json()["stores"] == [
        {"store": "tables", "status": "unavailable", "reason": "no answer within 0.01 s"}
    ]
    assert (live.status_code, metrics.status_code) == (200, 200)


async def test_with_credentials_health_is_open_and_metrics_are_local() -> None:
    with open_tables(None) as tables:
        app = App(tables, credentials={"key": "secret"})
        remote = {"client": "10.0.0.7", "host": "tables.example"}
        statuses = [
            (await ask(app, path, **remote)).status_code
            for path in ("/health/live", "/health/ready", "/metrics")
        ]
        assert statuses == [200, 200, 403]
        assert (await ask(app, "/metrics")).status_code == 200
        assert (await ask(app, "/metrics", host="tables.example")).status_code == 403
        assert (await ask(app, "/metrics", method="DELETE")).status_code == 404
