"""The rate limit: never more than the limit, whoever takes at the same time, and the time to wait is true."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Component, Rate, Stores, System, create_tables, open_memory_stores
from holdfast.core.errors import ComponentRefused, DeclarationError, InvalidRequest, RateLimited
from holdfast.guarantees import RATE_LIMITS, RateLimit
from holdfast.guarantees.resilience.rate_limit import AddResult, WindowCounts

NOON = 1770206400.0
WINDOW_S, PARTS = 60.0, 6


class Hand:
    """A clock moved by hand."""

    def __init__(self, moment: float = NOON) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment


def made(limit: int = 3, **terms: Any) -> RateLimit:
    return RateLimit("calls", "RL", limit=limit, window_s=WINDOW_S, rate=Rate("call"), **terms)


Story = Callable[[Stores, Hand], Awaitable[None]]


def told(story: Story) -> None:
    async def run() -> None:
        clock = Hand()
        async with open_memory_stores(clock=clock) as stores:
            await create_tables(stores, [RATE_LIMITS])
            await story(stores, clock)

    asyncio.run(run())


async def is_taken(limit: RateLimit, stores: Stores, cost: int = 1) -> bool:
    try:
        await limit.take(stores, "s-1", cost)
    except RateLimited:
        return False
    return True


@pytest.mark.proves("RP-43")
def test_a_full_window_refuses_and_says_how_long_to_wait() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit = made()
        clock.moment += 10
        assert [await limit.take(stores, "s-1") for _ in range(3)] == [2, 1, 0]
        with pytest.raises(RateLimited) as refused:
            await limit.take(stores, "s-1")
        assert refused.value.retry_after_s == 50
        assert await limit.take(stores, "s-2") == 2
        clock.moment += 49.9
        assert not await is_taken(limit, stores)
        clock.moment += 0.1
        assert await limit.take(stores, "s-1") == 2

    told(story)


@pytest.mark.proves("RP-43")
@pytest.mark.parametrize("parts", [0, PARTS])
def test_of_many_that_take_at_once_exactly_as_many_as_allowed_get_it(parts: int) -> None:
    async def story(stores: Stores, _: Hand) -> None:
        limits = [made(10, parts=parts) for _ in range(8)]
        taken = await asyncio.gather(*(is_taken(each, stores) for each in limits for _ in range(5)))
        assert taken.count(True) == 10

    told(story)


def test_a_cost_that_does_not_fit_takes_nothing() -> None:
    async def story(stores: Stores, _: Hand) -> None:
        limit = made(10)
        assert await limit.take(stores, "s-1", 8) == 2
        assert not await is_taken(limit, stores, 3)
        assert await limit.take(stores, "s-1", 2) == 0

    told(story)


calls = st.lists(st.tuples(st.floats(0, 40), st.integers(1, 3)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(calls, st.integers(3, 5), st.sampled_from([1, 2, PARTS]))
def test_no_stretch_as_long_as_a_sliding_window_holds_more_than_the_limit(
    calls: list[tuple[float, int]], allowed: int, parts: int
) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit = made(allowed, parts=parts)
        taken: list[tuple[float, int]] = []
        for pause, cost in calls:
            clock.moment += pause
            if await is_taken(limit, stores, cost):
                taken.append((clock.moment, cost))
        for since, _ in taken:
            assert sum(cost for moment, cost in taken if since <= moment < since + WINDOW_S) <= allowed

    told(story)


@settings(max_examples=60, deadline=None)
@given(calls, st.integers(3, 5))
def test_a_sliding_window_holds_back_no_longer_than_a_part_more_than_it_must(
    calls: list[tuple[float, int]], allowed: int
) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit = made(allowed, parts=PARTS)
        taken: list[tuple[float, int]] = []
        for pause, cost in calls:
            clock.moment += pause
            if await is_taken(limit, stores, cost):
                taken.append((clock.moment, cost))
            else:
                since = clock.moment - WINDOW_S * (1 + 1 / PARTS)
                assert sum(n for moment, n in taken if moment > since) + cost > allowed

    told(story)


@settings(max_examples=60, deadline=None)
@given(calls, st.sampled_from([0, 1, PARTS]))
def test_who_waits_as_long_as_told_gets_it_and_a_moment_earlier_does_not(
    calls: list[tuple[float, int]], parts: int
) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit = made(3, parts=parts)
        for pause, cost in calls:
            clock.moment += pause
            try:
                await limit.take(stores, "s-1", cost)
                continue
            except RateLimited as refused:
                wait_s = refused.retry_after_s or 0.0
            clock.moment += wait_s - 0.001
            assert not await is_taken(limit, stores, cost)
            clock.moment += 0.002
            assert await is_taken(limit, stores, cost)

    told(story)


@settings(max_examples=60, deadline=None)
@given(calls, st.integers(3, 5))
def test_no_fixed_window_holds_more_than_the_limit(calls: list[tuple[float, int]], allowed: int) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit = made(allowed)
        held: dict[int, int] = {}
        for pause, cost in calls:
            clock.moment += pause
            window = int(clock.moment // WINDOW_S)
            has_room = held.get(window, 0) + cost <= allowed
            assert await is_taken(limit, stores, cost) is has_room
            held[window] = held.get(window, 0) + cost * has_room

    told(story)


def test_a_process_whose_clock_is_behind_is_counted_with_the_others() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit, late = made(3, parts=PARTS), Stores(stores.tables, clock=Hand(NOON - 15))
        assert await limit.take(stores, "s-1", 2) == 1
        assert await limit.take(late, "s-1") == 0
        assert not await is_taken(limit, late)
        assert not await is_taken(limit, stores)

    told(story)


def test_counts_end_with_their_windows_and_stay_small() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        limit = made(1000, parts=PARTS)
        for _ in range(100):
            await limit.take(stores, "s-1")
            clock.moment += 7
        found = await stores.run(WindowCounts.of("calls#s-1").get())
        assert found is not None and len(found.counts) <= 2 * PARTS + 2
        clock.moment += 4 * WINDOW_S
        assert await stores.run(WindowCounts.of("calls#s-1").get()) is None
        assert await limit.take(stores, "s-1") == 999  # over what is not removed yet

    told(story)


def test_other_counters_can_stand_behind_the_limit() -> None:
    class OneVariable:
        """The port, served by a dictionary: as a cache will."""

        def __init__(self) -> None:
            self.counts: dict[tuple[str, int], int] = {}

        async def add(
            self, stores: Stores, key: str, cost: int, *, window: int, oldest: int, most: int, ends_at: object
        ) -> AddResult:
            own = {each: n for (name, each), n in self.counts.items() if name == key and each >= oldest}
            if sum(own.values()) + cost > most:
                return AddResult(False, own)
            own[window] = self.counts[key, window] = own.get(window, 0) + cost
            return AddResult(True, own)

    async def story(stores: Stores, clock: Hand) -> None:
        limit = made(2, counters=OneVariable())
        with stores.meter_usage() as meter:
            assert [await is_taken(limit, stores) for _ in range(3)] == [True, True, False]
        assert meter.usages == []

    told(story)


def test_a_component_takes_only_with_both_patterns() -> None:
    limit = made()
    system = System(
        "calls",
        "Calls",
        tables=(RATE_LIMITS,),
        patterns=limit.patterns,
        components=(
            Component("caller", reads=limit.reads, writes=limit.writes),
            Component("watcher", reads=limit.reads),
        ),
    )

    async def story() -> None:
        async with open_memory_stores(system, clock=Hand()) as stores:
            await create_tables(stores, system.tables)
            assert await limit.take(stores.for_component("caller"), "s-1") == 2
            with pytest.raises(ComponentRefused):
                await limit.take(stores.for_component("watcher"), "s-1")

    asyncio.run(story())


@pytest.mark.parametrize("cost", [0, -1, 4])
def test_a_cost_that_can_never_be_taken_is_refused(cost: int) -> None:
    async def story(stores: Stores, _: Hand) -> None:
        with pytest.raises(InvalidRequest, match="Invalid cost"):
            await made(3).take(stores, "s-1", cost)

    told(story)


@pytest.mark.parametrize("terms", [{"limit": 0}, {"parts": -1}])
def test_a_limit_that_lets_nothing_through_is_refused(terms: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match="Expected a limit of at least 1"):
        made(**terms)


def test_a_name_that_could_be_taken_for_another_limits_is_refused() -> None:
    with pytest.raises(DeclarationError, match="Invalid limit name"):
        RateLimit("calls#s", "RL", limit=1, window_s=1, rate=Rate("call"))
