"""Stores that are stopped, with their sockets open: health and metrics answer in time and name the store.

PostgreSQL, Redis and the DynamoDB endpoint are real processes, stopped by SIGSTOP. SQS and S3 are a listener
that never answers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

import httpx
import pytest

from holdfast import Bucket, Stores, Table
from holdfast.core.readiness import Readiness
from holdfast.operations.tables import CreateTable
from holdfast.runtime.engines import Engines
from holdfast.runtime.store_probes import UsedStores, build_store_probes
from holdfast.runtime.telemetry.metrics import Metrics
from holdfast.stores.cache.redis import open_redis
from holdfast.stores.objects.s3 import open_s3
from holdfast.stores.queues.sqs import open_sqs
from holdfast.stores.retries import Backoff
from holdfast.stores.sql.postgres import EmbeddedServer, open_embedded_postgres
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.web import make_app, serve_in_thread
from tests.contract.redis_server import run_redis
from tests.contract.sql.paused_server import paused
from tests.postgres import new_folder
from tests.processes import Process, preload
from tests.unit.runtime.post_office import SYSTEM, letters

preload("holdfast.wire.http.server", "holdfast.stores.tables.embedded")

# The limit under test; and the time after which a test gives up, far beyond it.
LIMIT_S = 0.2
PATIENCE_S = 30.0

Stop = Callable[[], AbstractContextManager[None]]
"""A context in which the store is stopped."""

seats = Table("Seats", partition="seat")
archive = Bucket("archive")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop the process for the time of the context."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def serve(stores: Stores, used: UsedStores) -> Iterator[httpx.Client]:
    """Serve an app over the stores and yield a client of it, which gives up after `PATIENCE_S`."""
    readiness = Readiness(build_store_probes(stores, used), timeout_s=LIMIT_S)
    app = make_app("Stopped", "1", [], readiness=readiness, metrics=Metrics(stores, timeout_s=LIMIT_S))
    with serve_in_thread(app) as url, httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        yield client


def open_stores(store: str, stack: ExitStack) -> tuple[Stores, UsedStores, Stop]:
    """Start a server of this store, and return stores that use it, and how to stop it."""
    match store:
        case "sql":
            server = EmbeddedServer(stack.enter_context(new_folder()), configuration={"fsync": "off"})
            server.use()
            stack.callback(server.release)
            engine: Any = stack.enter_context(closing(open_embedded_postgres(server.folder)))
            return _build_stores(store, engine, stack), UsedStores(has_sql=True), lambda: paused(server)
        case "cache":
            redis = stack.enter_context(run_redis())
            engine = stack.enter_context(closing(open_redis(redis.address, pause_s=0)))
            return _build_stores(store, engine, stack), UsedStores(has_cache=True), lambda: stopped(redis.pid)
    process = stack.enter_context(Process("tests.processes", "serve", "--memory", "--port", "0"))
    address = process.read_first_line().split()[4]
    tables = stack.enter_context(closing(open_dynamodb(endpoint=address)))
    asyncio.run(tables.run(CreateTable(seats.definition("Seats"))))
    return Stores(tables), UsedStores(tables=[seats]), lambda: stopped(process.pid)


def _build_stores(store: str, engine: Any, stack: ExitStack) -> Stores:
    """Return stores with this engine and tables in memory."""
    return Stores(stack.enter_context(open_tables(None)), engines=Engines({store: lambda: engine}))


@pytest.mark.parametrize("store", ["sql", "cache", "tables"])
def test_stopped_store_is_named_in_time_and_ready_again_when_it_continues(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.readiness.MAX_AGE_S", 0.0)
    with ExitStack() as stack:
        stores, used, stop = open_stores(store, stack)
        client = stack.enter_context(serve(stores, used))
        # Connecting may take longer than the limit.
        _wait_until_ready(client)
        with stop():
            answers = [client.get("/health/ready") for _ in range(3)]
            assert client.get("/health/live").json() == {"status": "ok"}
            assert client.get("/metrics").status_code == 200
        _wait_until_ready(client)

    for answer in answers:
        assert answer.status_code == 503
        assert [each["store"] for each in answer.json()["stores"]] == [store]
    assert answers[0].json()["stores"][0]["reason"] == f"no answer within {LIMIT_S:g} s"


def _wait_until_ready(client: httpx.Client) -> None:
    """Wait until the app is ready. A stopped store answers some time after it continues."""
    gives_up_at = time.monotonic() + PATIENCE_S
    while client.get("/health/ready").status_code != 200:
        assert time.monotonic() < gives_up_at
        time.sleep(0.01)


@contextmanager
def listen_silently() -> Iterator[str]:
    """Yield the address of a listener that accepts connections and never answers.

    Its end resets the connections, so that no client waits any longer.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        yield f"127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize("store", ["queues", "objects"])
def test_service_that_never_answers_is_named_in_time(store: str) -> None:
    with ExitStack() as stack:
        tables = stack.enter_context(open_tables(None))
        engines: dict[str, Any] = {}
        stores = Stores(tables, system=SYSTEM, engines=Engines({store: lambda: engines[store]}))
        client = stack.enter_context(serve(stores, UsedStores(queues=[letters], buckets=[archive])))
        with listen_silently() as address:
            backoff = Backoff(max_attempts=1)
            engines["queues"] = open_sqs(f"sqs+http://{address}", backoff=backoff)
            engines["objects"] = open_s3(f"s3+http://{address}")
            answer, metrics = client.get("/health/ready"), client.get("/metrics")
        for engine in engines.values():
            engine.close()

    reasons = {each["store"]: each.get("reason") for each in answer.json()["stores"]}
    assert answer.status_code == 503
    assert reasons[store] == f"no answer within {LIMIT_S:g} s"
    assert metrics.status_code == 200
    assert "process_cpu_seconds_total" in metrics.text
    assert 'holdfast_figures_up{source="queue letters"} 0.0' in metrics.text
    assert "holdfast_queue_messages{" not in metrics.text
