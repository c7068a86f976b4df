"""`RateLimit` on in-memory tables: fixed and sliding windows never exceed the limit; retry times are true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Component, Rate, Stores, System, open_memory_stores
from holdfast.core.errors import ComponentRefused, DeclarationError, InvalidRequest, RateLimited
from holdfast.guarantees import RATE_LIMITS, RateLimit
from holdfast.guarantees.resilience.rate_limit import WindowCounts
from holdfast.runtime import create_tables

NOON = 1770206400.0
WINDOW_S, PARTS = 60.0, 6


class ManualClock:
    """Clock that moves only when the test sets it."""

    def __init__(self, moment: float = NOON) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment


def make_limit(limit: int = 3, **terms: Any) -> RateLimit:
    """Return a limit per minute. `terms` are further arguments of `RateLimit`."""
    return RateLimit("calls", prefix="RL", limit=limit, window_s=WINDOW_S, rate=Rate("call"), **terms)


@asynccontextmanager
async def open_limits(clock: ManualClock) -> AsyncIterator[Stores]:
    """Open in-memory stores with the table of the guarantee."""
    async with open_memory_stores(clock=clock) as stores:
        await create_tables(stores, [RATE_LIMITS])
        yield stores


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_limits(clock) as stores:
        yield stores


async def try_take(limit: RateLimit, stores: Stores, cost: int = 1) -> bool:
    """Take the cost for the subject `s-1`; return False if the limit refuses it."""
    try:
        await limit.take(stores, "s-1", cost)
    except RateLimited:
        return False
    return True


@pytest.mark.proves("RP-43")
async def test_full_window_rejects_and_reports_how_long_to_wait(stores: Stores, clock: ManualClock) -> None:
    limit = make_limit()
    clock.moment += 10
    assert [await limit.take(stores, "s-1") for _ in range(3)] == [2, 1, 0]
    with pytest.raises(RateLimited) as refused:
        await limit.take(stores, "s-1")
    assert refused.value.retry_after_s == 50
    assert await limit.take(stores, "s-2") == 2
    clock.moment += 49.9
    assert not await try_take(limit, stores)
    clock.moment += 0.1
    assert await limit.take(stores, "s-1") == 2


@pytest.mark.proves("RP-43")
@pytest.mark.parametrize("parts", [0, PARTS])
async def test_concurrent_callers_get_exactly_the_limit(parts: int, stores: Stores) -> None:
    limits = [make_limit(10, parts=parts) for _ in range(8)]
    taken = await asyncio.gather(*(try_take(each, stores) for each in limits for _ in range(5)))
    assert taken.count(True) == 10


async def test_rejected_cost_takes_nothing(stores: Stores) -> None:
    limit = make_limit(10)
    assert await limit.take(stores, "s-1", 8) == 2
    assert not await try_take(limit, stores, 3)
    assert await limit.take(stores, "s-1", 2) == 0


calls = st.lists(st.tuples(st.floats(0, 40), st.integers(1, 3)), min_size=1, max_size=30)


@given(calls, st.integers(3, 5), st.sampled_from([1, 2, PARTS]))
async def test_no_period_as_long_as_a_sliding_window_exceeds_the_limit(
    calls: list[tuple[float, int]], allowed: int, parts: int
) -> None:
    clock = ManualClock()
    async with open_limits(clock) as stores:
        limit = make_limit(allowed, parts=parts)
        taken: list[tuple[float, int]] = []
        for pause, cost in calls:
            clock.moment += pause
            if await try_take(limit, stores, cost):
                taken.append((clock.moment, cost))
        for since, _ in taken:
            assert sum(cost for moment, cost in taken if since <= moment < since + WINDOW_S) <= allowed


@given(calls, st.integers(3, 5))
async def test_sliding_window_delays_at_most_one_part_longer_than_necessary(
    calls: list[tuple[float, int]], allowed: int
) -> None:
    clock = ManualClock()
    async with open_limits(clock) as stores:
        limit = make_limit(allowed, parts=PARTS)
        taken: list[tuple[float, int]] = []
        for pause, cost in calls:
            clock.moment += pause
            if await try_take(limit, stores, cost):
                taken.append((clock.moment, cost))
            else:
                since = clock.moment - WINDOW_S * (1 + 1 / PARTS)
                assert sum(n for moment, n in taken if moment > since) + cost > allowed


@given(calls, st.sampled_from([0, 1, PARTS]))
async def test_admits_a_caller_at_its_retry_time_and_not_earlier(
    calls: list[tuple[float, int]], parts: int
) -> None:
    clock = ManualClock()
    async with open_limits(clock) as stores:
        limit = make_limit(3, parts=parts)
        for pause, cost in calls:
            clock.moment += pause
            try:
                await limit.take(stores, "s-1", cost)
                continue
            except RateLimited as refused:
                wait_s = refused.retry_after_s or 0.0
            clock.moment += wait_s - 0.001
            assert not await try_take(limit, stores, cost)
            clock.moment += 0.002
            assert await try_take(limit, stores, cost)


@given(calls, st.integers(3, 5))
async def test_no_fixed_window_exceeds_the_limit(calls: list[tuple[float, int]], allowed: int) -> None:
    clock = ManualClock()
    async with open_limits(clock) as stores:
        limit = make_limit(allowed)
        held: dict[int, int] = {}
        for pause, cost in calls:
            clock.moment += pause
            window = int(clock.moment // WINDOW_S)
            has_room = held.get(window, 0) + cost <= allowed
            assert await try_take(limit, stores, cost) is has_room
            held[window] = held.get(window, 0) + cost * has_room


async def test_counts_a_process_whose_clock_is_behind_with_the_others(stores: Stores) -> None:
    limit, late = make_limit(3, parts=PARTS), Stores(stores.tables, clock=ManualClock(NOON - 15))
    assert await limit.take(stores, "s-1", 2) == 1
    assert await limit.take(late, "s-1") == 0
    assert not await try_take(limit, late)
    assert not await try_take(limit, stores)


async def test_counters_expire_with_their_windows_and_stay_small(stores: Stores, clock: ManualClock) -> None:
    limit = make_limit(1000, parts=PARTS)
    for _ in range(100):
        await limit.take(stores, "s-1")
        clock.moment += 7
    found = await stores.run(WindowCounts.of("calls#s-1").get())
    assert found is not None and len(found.counts) <= 2 * PARTS + 2
    clock.moment += 4 * WINDOW_S
    assert await stores.run(WindowCounts.of("calls#s-1").get()) is None
    assert await limit.take(stores, "s-1") == 999  # overwrites expired counters that are not removed yet


async def test_component_needs_both_patterns_to_take() -> None:
    limit = make_limit()
    system = System(
        "calls",
        "Calls",
        tables=(RATE_LIMITS,),
        patterns=limit.patterns,
        components=(
            Component("caller", uses=(limit.reads, limit.writes)),
            Component("watcher", uses=(limit.reads,)),
        ),
    )

    async with open_memory_stores(system, clock=ManualClock()) as stores:
        await create_tables(stores, system.tables)
        assert await limit.take(stores.for_component("caller"), "s-1") == 2
        with pytest.raises(ComponentRefused):
            await limit.take(stores.for_component("watcher"), "s-1")


@pytest.mark.parametrize("cost", [0, -1, 4])
async def test_rejects_a_cost_below_1_or_above_the_limit(cost: int, stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="Invalid cost"):
        await make_limit(3).take(stores, "s-1", cost)


@pytest.mark.parametrize("terms", [{"limit": 0}, {"parts": -1}])
def test_rejects_a_limit_of_0_and_negative_parts(terms: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match="Expected a limit of at least 1"):
        make_limit(**terms)


def test_rejects_a_name_that_could_be_confused_with_another_limit() -> None:
    with pytest.raises(DeclarationError, match="Invalid limit name"):
        RateLimit("calls#s", prefix="RL", limit=1, window_s=1, rate=Rate("call"))
