"""Part of the corpus: leases of dead holders, open and half-open circuits, rate-limit windows in use."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from holdfast import Rate, Stores
from holdfast.core.errors import ExternalServiceFailed
from holdfast.guarantees import (
    BREAKERS,
    LEASES,
    RATE_LIMITS,
    Breaker,
    Circuit,
    Lease,
    LeaseItem,
    RateLimit,
)

from .process import Killed, make_dying_process

SWEEPS: Final = Lease(LeaseItem, prefix="LS", rate=Rate("sweep"), lease_s=30)
SHOPS: Final = Breaker(
    Circuit,
    prefix="SH",
    rate=Rate("call"),
    counted_errors=(ExternalServiceFailed,),
    failures=3,
    window_s=60,
    recovery_s=30,
    lease_s=20,
    closed_cache_s=0,
)
CALLS: Final = RateLimit("calls", prefix="CA", limit=5, window_s=60, rate=Rate("call"))
SLIDING_CALLS: Final = RateLimit(
    "sliding calls", prefix="SC", limit=6, window_s=60, parts=6, rate=Rate("call")
)

TABLES: Final = (LEASES, BREAKERS, RATE_LIMITS)
PATTERNS: Final = (*SWEEPS.patterns, *SHOPS.patterns, *CALLS.patterns, *SLIDING_CALLS.patterns)


async def succeed() -> str:
    return "an answer"


async def fail() -> str:
    raise ExternalServiceFailed("It is down.", may_be_done=False)


async def write(stores: Stores) -> dict[str, Any]:
    """Write leases, circuits and limits; return the held lease and how much is left of each limit."""
    for _ in range(3):
        await (await SWEEPS.take(stores, "given back")).release()
    held = await SWEEPS.take(stores, "held")
    await _fail(stores, "failed twice", 2)
    await _fail(stores, "open", 3)
    await _fail(stores, "half open", 3)
    await _probe_and_die(stores, "half open")
    left = {
        "calls": [await CALLS.take(stores, "tenant") for _ in range(3)][-1],
        "sliding calls": [await SLIDING_CALLS.take(stores, "tenant", 2) for _ in range(2)][-1],
    }
    return {"left": left, "holder": held.record.holder, "token": held.token}


async def _fail(stores: Stores, shop: str, times: int) -> None:
    """Make this many failing calls to the shop through the breaker."""
    for _ in range(times):
        with suppress(ExternalServiceFailed):
            await SHOPS.call(stores, shop, fail)


async def _probe_and_die(stores: Stores, shop: str) -> None:
    """Leave the probe of a caller that was killed during its call."""
    clock: Any = stores.clock
    clock.advance(31)
    dying, tables = make_dying_process(stores)

    async def call() -> str:
        tables.kill()
        raise Killed

    with suppress(Killed):
        await SHOPS.call(dying, shop, call)
    clock.advance(-31)
