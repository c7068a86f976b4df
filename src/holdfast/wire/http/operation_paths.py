"""The paths that operate the endpoint: /health/live, /health/ready and /metrics, as on every other port.

Health is open to all callers. The metrics have counts and operations' names only; a caller on this machine
gets them, also where the endpoint verifies signatures, which Prometheus cannot make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.http.addresses import is_loopback
from holdfast.core.http.hosts import is_local_host
from holdfast.core.http.request_counts import RequestCounts
from holdfast.core.readiness import DEFAULT_TIMEOUT_S, OK, Readiness
from holdfast.operations.tables import ListTables
from holdfast.stores.tables.port import Tables

if TYPE_CHECKING:
    from holdfast.runtime.telemetry.metrics import MetricsSource

JSON: Final = b"application/json"
METRICS_TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"
METRICS_PATH: Final = "/metrics"
LIVE_PATH: Final = "/health/live"
READY_PATHS: Final = ("/health/ready", "/health")
PATHS: Final = frozenset({METRICS_PATH, LIVE_PATH, *READY_PATHS})
_FORBIDDEN: Final = msgspec.json.encode(
    {"message": "The metrics are shown only on this machine: request them at 127.0.0.1."}
)


class OperationAnswer(NamedTuple):
    """The status, body and content type of an answer."""

    status: int
    body: bytes
    content_type: bytes = JSON


class OperationPaths:
    """The answers of one endpoint. `requests` are those that its app counts."""

    def __init__(self, tables: Tables, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        async def probe() -> None:
            await tables.run(ListTables(limit=1))

        self.requests = RequestCounts()
        self._readiness = Readiness({"tables": probe}, timeout_s=timeout_s)
        self._metrics: MetricsSource | None = None

    async def answer(self, path: str, client: Any, host: bytes) -> OperationAnswer:
        """Answer a GET of one of the `PATHS`. `client` is the caller's address as ASGI gives it."""
        if path == LIVE_PATH:
            return OperationAnswer(200, msgspec.json.encode({"status": OK}))
        if path in READY_PATHS:
            is_ready, body = await self._readiness.describe()
            return OperationAnswer(200 if is_ready else 503, msgspec.json.encode(body))
        if client is None or not is_loopback(client[0]) or not is_local_host(host):
            return OperationAnswer(403, _FORBIDDEN)
        return OperationAnswer(200, (await self._open_metrics().collect()).encode(), METRICS_TEXT)

    def _open_metrics(self) -> MetricsSource:
        """Return the metrics, loaded at their first request: an endpoint starts without them."""
        if self._metrics is None:
            from holdfast.runtime.telemetry.metrics import open_process_metrics

            self._metrics = open_process_metrics(self.requests)
        return self._metrics
