"""Benchmark: webhooks acknowledged per second over HTTP, compared with an endpoint that only writes a row.

Ours is `holdfast run richpanel --component ingress`: it checks signature and shape, derives the key, sends to
a FIFO queue with deduplication and groups, and responds 200. The floor is a bare ASGI app under the same
uvicorn that writes the row by hand (`webhooks_floor.py`): with its own fsync for each request, and, without a
target, with fsyncs that concurrent requests share, as ours do. All run at the same time, each in its own
process. This process calls them in turn, with requests that it signs before each round.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.harness.http_client import build_post, measure_request_rate
from benchmarks.harness.measurement import Figure, compare
from benchmarks.harness.processes import HOLDFAST, run_server
from benchmarks.richpanel import webhook_route
from benchmarks.richpanel.webhook_bodies import SECRET, build_webhook
from holdfast.web import sign

CONNECTIONS = 32
REQUESTS = 4_000
INGRESS_COMMAND: Final = (*HOLDFAST, "run", "richpanel", "--component", "ingress", "--port", "0")
FLOOR_COMMAND: Final = (sys.executable, "-m", "benchmarks.richpanel.webhooks_floor")


def run(folder: Path) -> list[Figure]:
    """Start the ingress and both floors; return a figure against each, and that of the route alone."""
    numbers = itertools.count()
    settings = {
        "HOLDFAST_TABLES": "sqlite:tables.db",
        "HOLDFAST_QUEUES": "sqlite:queues.db",
        "HOLDFAST_ENVIRONMENT": "bench",
        "HOLDFAST_SECRET_RICHPANEL_WEBHOOK": SECRET,
    }
    with ExitStack() as ends:
        ours = ends.enter_context(run_server(*INGRESS_COMMAND, folder=folder, **settings))
        bare = {
            kind: ends.enter_context(
                run_server(*FLOOR_COMMAND, kind, str(folder / f"{kind}.db"), folder=folder)
            )
            for kind in ("own", "shared")
        }

        def against(kind: str, must_reach: float | None) -> Figure:
            return compare(
                f"webhooks, {kind} fsync",
                lambda: measure_request_rate(ours, list(_build_requests(numbers)), CONNECTIONS),
                lambda: measure_request_rate(bare[kind], list(_build_requests(numbers)), CONNECTIONS),
                must_reach,
            )

        return [against("own", 0.50), against("shared", None), webhook_route.run()]


def _build_requests(numbers: Iterator[int]) -> Iterator[bytes]:
    """Yield one round of signed requests, each with another message.

    They are signed now, because a signature is valid for minutes.
    """
    for number in itertools.islice(numbers, REQUESTS):
        body = msgspec.json.encode(build_webhook(number))
        yield build_post("/webhooks/richpanel", body, x_richpanel_signature=sign(SECRET, body, time.time()))
