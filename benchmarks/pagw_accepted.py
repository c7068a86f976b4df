"""Requests accepted by PAGW over HTTP, beside a bare handler on the same server that fsyncs one object and one row.

Ours is `holdfast run pagw --component api` on real files: token, rate limit, bundle read and checked, key claimed, bundle
encrypted and kept, tracker, findability, inbox, audit and outbox in one transaction, key completed, 202. The floor
(`pagw_bare.py`) keeps the body as it came, and looks at nothing. Both run at once, each in a process of its own, over one
PostgreSQL, and are asked in turn by this one.
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


def run(folder: Path) -> Figure:
    numbers, token = itertools.count(), gateway.client_token(folder)
    with ExitStack() as ends:
        ours = ends.enter_context(served(*API, folder=folder, **gateway.environ(folder)))
        bare = ends.enter_context(
            served(*BARE, gateway.conninfo(folder), str(folder / "bare"), folder=folder)
        )

        def rate(url: str) -> float:
            requests = gateway.submissions(token, numbers, REQUESTS)
            return rate_of(url, requests, CONNECTIONS, status=ACCEPTED)

        return compared("requests accepted", lambda: rate(ours), lambda: rate(bare), MUST_REACH)
