"""Benchmark: requests accepted per second by PAGW over HTTP, compared with a bare handler.

The bare handler runs on the same server and fsyncs one object and one row. Ours is `holdfast run pagw
--component api` on real files: it checks token, rate limit and bundle, claims the key, encrypts and stores
the bundle, writes tracker, lookup rows, inbox, audit and outbox in one transaction, completes the key and
responds 202. The floors (`intake_floor.py`) store the body unchecked: one in as many threads as ours has
connections to PostgreSQL, and one, without a target, in the event loop. All run at the same time, each in its
own process over one PostgreSQL, and are measured in turn.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.harness.http_client import measure_request_rate
from benchmarks.harness.measurement import Figure, compare
from benchmarks.harness.processes import HOLDFAST, run_server
from benchmarks.pagw import gateway

CONNECTIONS = 16
REQUESTS = 400
MUST_REACH: Final = 0.40
ACCEPTED: Final = 202
API_COMMAND: Final = (*HOLDFAST, "run", "pagw", "--component", "api", "--port", "0")
FLOOR_COMMAND: Final = (sys.executable, "-m", "benchmarks.pagw.intake_floor")


def run(folder: Path) -> list[Figure]:
    """Start the gateway and both floors, and return a figure against each."""
    numbers, token = itertools.count(), gateway.issue_client_token(folder)
    with ExitStack() as ends:
        ours = ends.enter_context(
            run_server(*API_COMMAND, folder=folder, **gateway.build_environment(folder))
        )
        bare = {
            kind: ends.enter_context(
                run_server(
                    *FLOOR_COMMAND, kind, gateway.get_conninfo(folder), str(folder / kind), folder=folder
                )
            )
            for kind in ("threads", "loop")
        }

        def rate(url: str) -> float:
            requests = gateway.build_submissions(token, numbers, REQUESTS)
            return measure_request_rate(url, requests, CONNECTIONS, status=ACCEPTED)

        def against(kind: str, must_reach: float | None) -> Figure:
            return compare(
                f"requests accepted, {kind}", lambda: rate(ours), lambda: rate(bare[kind]), must_reach
            )

        return [against("threads", MUST_REACH), against("loop", None)]
