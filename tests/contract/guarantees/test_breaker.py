"""The circuit breaker on every tables engine: conditional writes admit one probe among concurrent callers."""

from __future__ import annotations

import asyncio

from holdfast import Rate, Stores
from holdfast.core.errors import CircuitOpen, ExternalServiceFailed
from holdfast.guarantees import BREAKERS, Breaker, Circuit

from .conftest import OpenStores

FAILURES = 3


class ManualClock:
    """Clock that moves only when the test sets it, starting at a time when no engine treats an item as
    expired.
    """

    moment = 4926222000.0

    def now(self) -> float:
        return self.moment


def test_failures_of_all_callers_open_the_circuit_and_one_caller_probes(
    open_stores: OpenStores,
) -> None:
    under, clock = open_stores(BREAKERS), ManualClock()
    stores = Stores(under.tables, environment=under.environment, clock=clock)

    def breaker() -> Breaker[Circuit]:
        return Breaker(
            Circuit,
            prefix="CB",
            rate=Rate("call"),
            counted_errors=(ExternalServiceFailed,),
            failures=FAILURES,
            closed_cache_s=0.0,
        )

    async def fails() -> None:
        raise ExternalServiceFailed("502", may_be_done=False)

    probes: list[asyncio.Event] = []

    async def outcome(may_end: asyncio.Event | None = None) -> str:
        async def works() -> None:
            if may_end is not None:
                probes.append(may_end)
                assert len(probes) == 1
                await may_end.wait()

        try:
            await breaker().call(stores, "shop", works)
        except CircuitOpen:
            return "open"
        return "done"

    async def story() -> None:
        failing = (breaker().call(stores, "shop", fails) for _ in range(FAILURES))
        ended = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(each) for each in ended] == [ExternalServiceFailed] * FAILURES
        assert await outcome() == "open"
        clock.moment += 30
        may_end = asyncio.Event()
        calls = [asyncio.create_task(outcome(may_end)) for _ in range(8)]
        waiting = set(calls)
        while len(waiting) > 1:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        may_end.set()
        assert sorted([await call for call in calls]) == ["done", *["open"] * 7]
        assert await outcome() == "done"

    asyncio.run(story())
