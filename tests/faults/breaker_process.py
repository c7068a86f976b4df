"""One of several callers of a party behind a breaker, on one file.

python -m tests.faults.breaker_process FOLDER

For each line on its standard input it calls once, and says "refused" or "calling". A call lasts until the next line:
"works" ends it well, "fails" does not; then it says "ended".
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
from holdfast.guarantees import Breaker
from holdfast.stores.tables.embedded import open_tables

CLOCK: Final = "clock"
FAILURES, RECOVERY_S, PROBE_S = 3, 30.0, 10.0

BREAKER = Breaker(
    "CB",
    rate=Rate("call"),
    counted_errors=(ExternalServiceFailed,),
    failures=FAILURES,
    recovery_s=RECOVERY_S,
    probe_s=PROBE_S,
    closed_cache_s=0.0,
)


async def main(folder: Path) -> None:
    clock = RunClock(folder / CLOCK)
    # The engine's too: by the machine's clock, what was written on the run's day is at the end of its life.
    with open_tables(folder / "tables.db", clock=clock) as tables:
        stores = Stores(tables, clock=clock)
        _say("ready")
        while await _heard():
            try:
                await BREAKER.call(stores, "shop", _called)
            except CircuitOpen:
                _say("refused")
                continue
            except ExternalServiceFailed:
                pass
            _say("ended")


async def _called() -> None:
    _say("calling")
    if await _heard() == "fails":
        raise ExternalServiceFailed("502", may_be_done=False)


async def _heard() -> str:
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
