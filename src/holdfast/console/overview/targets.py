"""Targets: the processes whose health and metrics the console reads over HTTP.

Each is read within a time limit. One that does not answer, refuses, or answers something else has a failure
in words, and no figures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from holdfast.config.settings import Settings
from holdfast.console.overview.metrics_text import parse_metrics
from holdfast.console.overview.samples import ProcessState
from holdfast.core.distribution import explain_missing
from holdfast.reports.cost.request_cost import FREE_KINDS, READ_KINDS
from holdfast.runtime.telemetry.figures import FIGURES, Figure

with explain_missing(__name__, "console"):
    import httpx2

MAX_BODY_BYTES: Final = 8 * 2**20
MAX_FAILURE_CHARACTERS: Final = 120
# A process answers within its own time limit for stores; the rest is for the way.
WAY_S: Final = 1.0

HTTP_REQUESTS: Final = "holdfast_http_requests_total"
OPERATIONS: Final = "holdfast_store_request_duration_seconds_count"
OPERATION_ERRORS: Final = "holdfast_store_request_errors_total"
READ_UNITS: Final = "ConsumedReadCapacityUnits_total"
WRITE_UNITS: Final = "ConsumedWriteCapacityUnits_total"
START_TIME: Final = "process_start_time_seconds"
COUNTERS: Final = frozenset({HTTP_REQUESTS, OPERATIONS, OPERATION_ERRORS, READ_UNITS, WRITE_UNITS})
WANTED: Final = COUNTERS | {START_TIME} | set(FIGURES)

# Requests that ask how the process is; the console makes most of them itself.
OPERATION_ROUTES: Final = frozenset({"/metrics", "/health", "/health/live", "/health/ready"})
SERVER_ERROR: Final = "5"
# Errors that are answers: a lost race, a missing item. A caller deals with them.
EXPECTED_ERRORS: Final = frozenset(
    {"ConditionFailed", "TransactionCancelled", "TransactionConflict", "Conflict", "NotFound"}
)

CounterKey = tuple[str, str]
"""What is counted (a field of `Rates`), and for units and messages the table or queue."""


@dataclass(frozen=True)
class TargetReading:
    """What a process answered: its state, its counters since it started, and figures of what it works on."""

    state: ProcessState
    read_at: float = 0.0
    counters: dict[CounterKey, float] = field(default_factory=dict)
    figures: Sequence[Figure] = ()


def open_target_client(settings: Settings) -> httpx2.AsyncClient:
    """Open the HTTP client of the targets, which sends them the API's token."""
    headers = {"authorization": f"Bearer {settings.api_token}"} if settings.api_token else {}
    # Processes of our own: no proxy of the environment is between.
    return httpx2.AsyncClient(headers=headers, trust_env=False, timeout=None)


async def read_target(client: httpx2.AsyncClient, url: str, timeout_s: float) -> TargetReading:
    """Read the health and the metrics of a process, within the time limit of its stores and a second."""
    try:
        async with asyncio.timeout(timeout_s + WAY_S):
            health, metrics = await asyncio.gather(
                _get(client, f"{url}/health/ready"), _get(client, f"{url}/metrics")
            )
        return _build_reading(url, health, metrics)
    except TimeoutError:
        failure = f"no answer within {timeout_s + WAY_S:g} s"
    except httpx2.ConnectError:
        failure = "no connection"
    except httpx2.InvalidURL:
        failure = "its address is not valid"
    except (httpx2.HTTPError, _BadAnswerError) as error:
        failure = str(error)[:MAX_FAILURE_CHARACTERS] or type(error).__name__
    return TargetReading(ProcessState(url, failure=failure))


class _BadAnswerError(Exception):
    """The answer of a process is not what a process of a system answers."""


async def _get(client: httpx2.AsyncClient, url: str) -> tuple[int, bytes]:
    """Return the status and the body, which is bounded."""
    body = bytearray()
    async with client.stream("GET", url) as response:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MAX_BODY_BYTES:
                raise _BadAnswerError(f"its answer is larger than {MAX_BODY_BYTES} bytes")
        return response.status_code, bytes(body)


def _build_reading(url: str, health: tuple[int, bytes], metrics: tuple[int, bytes]) -> TargetReading:
    """Return the reading of two answers. Raise `_BadAnswerError` unless they are those of a process."""
    if metrics[0] in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise _BadAnswerError(f"it refuses its metrics with {metrics[0]}: give the console its api_token")
    if metrics[0] != HTTPStatus.OK:
        raise _BadAnswerError(f"its metrics answer {metrics[0]}")
    counters: dict[CounterKey, float] = {}
    figures, started_at = [], 0.0
    for each in parse_metrics(metrics[1].decode(errors="replace"), WANTED):
        if each.name == START_TIME:
            started_at = each.value
        elif each.name in COUNTERS:
            for key in _classify(each.name, each.labels):
                counters[key] = counters.get(key, 0.0) + each.value
        else:
            figures.append(Figure(each.name, each.value, each.labels))
    state = ProcessState(url, not_ready=_read_not_ready(health), started_at=started_at)
    return TargetReading(state, asyncio.get_running_loop().time(), counters, figures)


def _classify(name: str, labels: Any) -> list[CounterKey]:
    """Return what a counter counts for."""
    if name == HTTP_REQUESTS:
        if labels.get("route") in OPERATION_ROUTES:
            return []
        failed = labels.get("status", "").startswith(SERVER_ERROR)
        return [("requests", ""), *([("failed_requests", "")] if failed else [])]
    if name == READ_UNITS:
        return [("read_units", labels.get("TableName", ""))]
    if name == WRITE_UNITS:
        return [("write_units", labels.get("TableName", ""))]
    if name == OPERATION_ERRORS:
        failed = labels.get("error") not in EXPECTED_ERRORS
        return [("operations", ""), *([("failed_operations", "")] if failed else [])]
    return [("operations", ""), *_classify_request(labels)]


def _classify_request(labels: Any) -> list[CounterKey]:
    """Return what a successful request to a queue or to objects is billed as."""
    if labels.get("store") == "queues":
        return [("queue_requests", labels.get("resource", ""))]
    if labels.get("store") == "objects" and labels.get("operation") not in FREE_KINDS:
        return [("object_reads" if labels.get("operation") in READ_KINDS else "object_writes", "")]
    return []


def _read_not_ready(health: tuple[int, bytes]) -> dict[str, str]:
    """Return the stores that a process finds not ready, each with the reason."""
    status, body = health
    if status == HTTPStatus.OK:
        return {}
    try:
        stores = json.loads(body)["stores"]
        return {
            str(each["store"]): str(each.get("reason", "not ready"))[:MAX_FAILURE_CHARACTERS]
            for each in stores
            if each["status"] != "ok"
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        raise _BadAnswerError(f"its health answers {status}") from None
