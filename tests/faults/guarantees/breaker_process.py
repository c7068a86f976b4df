"""A process that calls an external service behind a shared circuit breaker, as its input says.

    python -m tests.faults.guarantees.breaker_process FOLDER

For each line on its standard input it makes one call, and prints "refused" or "calling". A call lasts until
the next line: "works" ends it well, "fails" with an error; then it prints "ended".
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from holdfast import Rate, Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import CircuitOpen, ExternalServiceFailed
from holdfast.guarantees import Breaker, Circuit
from holdfast.stores.tables.embedded import open_tables

CLOCK: Final = "clock"
FAILURES, RECOVERY_S, LEASE_S = 3, 30.0, 10.0

BREAKER = Breaker(
    Circuit,
    prefix="CB",
    rate=Rate("call"),
    counted_errors=(ExternalServiceFailed,),
    failures=FAILURES,
    recovery_s=RECOVERY_S,
    lease_s=LEASE_S,
    closed_cache_s=0.0,
)


async def main(folder: Path) -> None:
    """Make a call through the breaker for each line of input, until the input ends."""
    clock = RunClock(folder / CLOCK)
    # For the engine too: by the machine's clock, items of the run's day have expired.
    with open_tables(folder / "tables.db", clock=clock) as tables:
        stores = Stores(tables, clock=clock)
        _say("ready")
        while await _read_line():
            try:
                await BREAKER.call(stores, "shop", _call)
            except CircuitOpen:
                _say("refused")
                continue
            except ExternalServiceFailed:
                pass
            _say("ended")


async def _call() -> None:
    """Print "calling" and end as the next line of input says."""
    _say("calling")
    if await _read_line() == "fails":
        raise ExternalServiceFailed("502", may_be_done=False)


async def _read_line() -> str:
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())
