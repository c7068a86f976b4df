"""`WindowLimit` on an in-memory cache: fixed and sliding windows, tenants, true retry times, outages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Component, Rate, Stores, System, open_memory_stores
from holdfast.core.errors import CacheUnavailable, DeclarationError, InvalidRequest, RateLimited
from holdfast.guarantees import WindowLimit
from holdfast.model.cache import WindowCounter
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis
from tests.unit.guarantees.idempotency.once_records import ManualClock

from .conftest import NOON

PER_MINUTE = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)


def make_limit(limit: int = 3, **terms: Any) -> WindowLimit:
    """Return a limit per minute and tenant. `terms` are further arguments of `WindowLimit`."""
    return WindowLimit(
        PER_MINUTE, prefix="RL", limit=limit, rate=Rate("request"), example={"tenant": "t-1"}, **terms
    )


async def count_passing_takes(limit: WindowLimit, stores: Stores, times: int, tenant: str = "t-1") -> int:
    """Take `times` times and return how many takes pass."""
    passed = 0
    for _ in range(times):
        try:
            await limit.take(stores, tenant=tenant)
            passed += 1
        except RateLimited:
            pass
    return passed


@pytest.mark.proves("PG-38")
@pytest.mark.proves("PG-X23")
async def test_full_window_rejects_and_reports_when_the_next_begins(
    stores: Stores, clock: ManualClock
) -> None:
    limit = make_limit()
    clock.moment += 15
    assert [await limit.take(stores, tenant="t-1") for _ in range(3)] == [2, 1, 0]
    with pytest.raises(RateLimited) as refused:
        await limit.take(stores, tenant="t-1")
    assert refused.value.retry_after_s == 45
    assert refused.value.http_status == 429
    clock.moment += 45
    assert await limit.take(stores, tenant="t-1") == 2


@pytest.mark.proves("PG-38")
@pytest.mark.parametrize("tenant", ["t-2", "t-1:29503440", "t-1%3A"])
async def test_counts_each_tenant_apart(tenant: str, stores: Stores) -> None:
    limit = make_limit()
    assert await count_passing_takes(limit, stores, 5) == 3
    assert await count_passing_takes(limit, stores, 5, tenant) == 3


@pytest.mark.proves("PG-X23")
async def test_fixed_window_admits_twice_the_limit_at_a_border_and_sliding_does_not(
    stores: Stores, clock: ManualClock
) -> None:
    fixed, sliding = make_limit(100), make_limit(100, sliding=True)
    passed = {"fixed": 0, "sliding": 0}
    for moment in (NOON + 59.9, NOON + 60.1):
        clock.moment = moment
        passed["fixed"] += await count_passing_takes(fixed, stores, 150, "t-fixed")
        passed["sliding"] += await count_passing_takes(sliding, stores, 150, "t-sliding")
    assert passed == {"fixed": 200, "sliding": 100}


async def test_sliding_window_frees_capacity_gradually(stores: Stores, clock: ManualClock) -> None:
    limit = make_limit(100, sliding=True)
    assert await count_passing_takes(limit, stores, 150) == 100
    found = []
    for _ in range(4):
        clock.moment += 30
        found.append(await count_passing_takes(limit, stores, 150))
    # Half a minute into the next window half of the limit is free; a minute later the other half is free.
    assert found == [0, 0, 50, 50]


@given(
    gone_s=st.floats(0, 59.99),
    pauses=st.lists(st.floats(0, 50), min_size=1, max_size=6),
    cost=st.integers(1, 4),
    sliding=st.booleans(),
)
async def test_admits_a_caller_after_its_retry_time_and_not_before(
    gone_s: float, pauses: list[float], cost: int, sliding: bool
) -> None:
    clock = ManualClock(NOON)
    limit = make_limit(7, sliding=sliding)
    async with open_memory_stores(clock=clock) as stores:
        clock.moment += gone_s
        for pause in pauses:
            await count_passing_takes(limit, stores, 5)
            clock.moment += pause
        try:
            await limit.take(stores, cost=cost, tenant="t-1")
        except RateLimited as refused:
            wait_s = refused.retry_after_s or 0.0
            assert wait_s > 0
            if wait_s > 0.01:
                clock.moment += wait_s - 0.01
                with pytest.raises(RateLimited):
                    await limit.take(stores, cost=cost, tenant="t-1")
                clock.moment += 0.01
            else:
                clock.moment += wait_s
            await limit.take(stores, cost=cost, tenant="t-1")


async def test_rejected_take_is_not_counted(stores: Stores, clock: ManualClock) -> None:
    limit = make_limit(10, sliding=True)
    assert await count_passing_takes(limit, stores, 1000) == 10
    clock.moment += 90
    assert await count_passing_takes(limit, stores, 10) == 5


@pytest.mark.proves("PG-X23")
async def test_tenant_can_have_its_own_limit(stores: Stores) -> None:
    """A call can override the limit; a cost of 0 or above the limit is refused."""
    limit = make_limit(3)
    assert await limit.take(stores, limit=50, cost=40, tenant="t-large") == 10
    with pytest.raises(InvalidRequest, match="expected 1 to 3"):
        await limit.take(stores, cost=4, tenant="t-1")
    with pytest.raises(InvalidRequest, match="cost 0"):
        await limit.take(stores, cost=0, tenant="t-1")


@pytest.mark.proves("PG-42")
@pytest.mark.parametrize("sliding", [False, True])
async def test_outage_of_the_cache_admits_all_or_nothing_as_declared(
    sliding: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the cache, `fails="open"` admits all, `fails="closed"` raises; both log one warning."""
    engines = Engines({"cache": lambda: open_redis("redis://127.0.0.1:1")})
    async with Stores(open_memory_stores().tables, engines=engines) as stores:
        assert await count_passing_takes(make_limit(3, sliding=sliding), stores, 10) == 10
        with pytest.raises(CacheUnavailable):
            await make_limit(3, sliding=sliding, fails="closed").take(stores, tenant="t-1")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "lets all through" in lines[0] and "lets nothing through" in lines[1]


async def test_a_component_declares_what_the_limit_needs() -> None:
    limit = make_limit(sliding=True)
    assert make_limit().reads == ()
    system = System(
        "api",
        "An API",
        patterns=limit.patterns,
        components=[Component("api", uses=(limit.reads, limit.writes))],
    )

    async with open_memory_stores(system) as stores:
        assert await limit.take(stores.for_component("api"), tenant="t-1") == 2
        for each in limit.patterns:
            assert each.build_example().resource == "ratelimit:{tenant}:{window}"
            await stores.run(each.build_example())


@pytest.mark.parametrize("terms", [{"limit": 0}, {"limit": 1, "fails": "half"}])
def test_rejects_an_invalid_limit(terms: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        make_limit(**terms)
