"""Requests accepted by PAGW over HTTP, beside a bare handler on the same server that fsyncs one object and one row.

Ours is `holdfast run pagw --component api` on real files: token, rate limit, bundle read and checked, key claimed, bundle
encrypted and kept, tracker, findability, inbox, audit and outbox in one transaction, key completed, 202. The floors
(`pagw_bare.py`) keep the body as it came, and look at nothing: in as many threads as ours has connections to PostgreSQL, and,
told beside it, one after the other. All run at once, each in a process of its own, over one PostgreSQL, and are asked in turn.
"""

from __future__ import annotations

import itertools
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks import pagw_gateway as gateway
from benchmarks.keep_alive import rate_of
from benchmarks.measure import Figure, compared
from benchmarks.processes import HOLDFAST, served

CONNECTIONS = 16
REQUESTS = 400
MUST_REACH: Final = 0.40
ACCEPTED: Final = 202
API: Final = (*HOLDFAST, "run", "pagw", "--component", "api", "--port", "0")
BARE: Final = (sys.executable, "-m", "benchmarks.pagw_bare")


def run(folder: Path) -> list[Figure]:
    numbers, token = itertools.count(), gateway.client_token(folder)
    with ExitStack() as ends:
        ours = ends.enter_context(served(*API, folder=folder, **gateway.environ(folder)))
        bare = {
            kind: ends.enter_context(
                served(*BARE, kind, gateway.conninfo(folder), str(folder / kind), folder=folder)
            )
            for kind in ("threads", "loop")
        }

        def rate(url: str) -> float:
            requests = gateway.submissions(token, numbers, REQUESTS)
            return rate_of(url, requests, CONNECTIONS, status=ACCEPTED)

        def against(kind: str, must_reach: float | None) -> Figure:
            return compared(
                f"requests accepted, {kind}", lambda: rate(ours), lambda: rate(bare[kind]), must_reach
            )

        return [against("threads", MUST_REACH), against("loop", None)]
