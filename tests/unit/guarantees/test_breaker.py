"""The breaker: opens at the threshold, admits one probe, closes by its success alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Component, Rate, Stores, System, create_tables, open_memory_stores
from holdfast.core.errors import (
    AccessRefused,
    CircuitOpen,
    ComponentRefused,
    ExternalServiceFailed,
    StoreUnreachable,
    Throttled,
)
from holdfast.guarantees import BREAKERS, Breaker, Circuit
from holdfast.operations.tables import PutItem

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)
FAILURES, WINDOW_S, RECOVERY_S, PROBE_S = 3, 60.0, 30.0, 10.0


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.moment = NOON

    def now(self) -> float:
        return self.moment.timestamp()

    def wait(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def made(**terms: Any) -> Breaker:
    terms = {"failures": FAILURES, "window_s": WINDOW_S, "recovery_s": RECOVERY_S, "probe_s": PROBE_S} | terms
    return Breaker("CB", rate=Rate("call"), counted_errors=(ExternalServiceFailed,), **terms)


Story = Callable[[Stores, Hand], Awaitable[None]]


def told(story: Story) -> None:
    async def run() -> None:
        clock = Hand()
        async with open_memory_stores(clock=clock) as stores:
            await create_tables(stores, [BREAKERS])
            await story(stores, clock)

    asyncio.run(run())


async def works() -> str:
    return "done"


async def fails() -> str:
    raise ExternalServiceFailed("502", may_be_done=False)


async def attempt(breaker: Breaker, stores: Stores, function: Callable[[], Awaitable[str]] = works) -> str:
    """How a call ended: done, failed or open."""
    try:
        return await breaker.call(stores, "shop", function)
    except ExternalServiceFailed:
        return "failed"
    except CircuitOpen:
        return "open"


async def broken(breaker: Breaker, stores: Stores) -> None:
    for _ in range(FAILURES):
        assert await attempt(breaker, stores, fails) == "failed"


def test_a_circuit_opens_at_the_threshold_and_says_for_how_long() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        await broken(breaker, stores)
        clock.wait(10)
        with pytest.raises(CircuitOpen) as refused:
            await breaker.call(stores, "shop", works)
        assert refused.value.retry_after_s == RECOVERY_S - 10
        assert await breaker.call(stores, "help desk", works) == "done"

    told(story)


def test_failures_are_counted_together_over_all_breakers_on_one_store() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        for _ in range(FAILURES):
            assert await attempt(made(), stores, fails) == "failed"
        assert await attempt(made(), stores) == "open"

    told(story)


def test_failures_further_apart_than_the_window_do_not_open() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        for _ in range(10):
            assert await attempt(breaker, stores, fails) == "failed"
            clock.wait(WINDOW_S / (FAILURES - 1))

    told(story)


def test_after_the_recovery_time_a_success_closes_and_a_failure_opens_again() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        await broken(breaker, stores)
        clock.wait(RECOVERY_S)
        assert await attempt(breaker, stores, fails) == "failed"
        assert await attempt(breaker, stores) == "open"
        clock.wait(RECOVERY_S)
        assert await attempt(breaker, stores) == "done"
        assert await attempt(breaker, stores, fails) == "failed"  # one failure of a closed circuit
        assert await attempt(breaker, stores) == "done"

    told(story)


def test_half_open_admits_one_probe_of_eight_callers() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        await broken(made(), stores)
        clock.wait(RECOVERY_S)
        is_over, probes = asyncio.Event(), 0

        async def slow() -> str:
            nonlocal probes
            probes += 1
            assert probes == 1
            await is_over.wait()
            return "done"

        calls = [asyncio.create_task(attempt(made(), stores, slow)) for _ in range(8)]
        while sum(call.done() for call in calls) < 7:
            await asyncio.wait(
                [call for call in calls if not call.done()], return_when=asyncio.FIRST_COMPLETED
            )
        is_over.set()
        assert sorted([await call for call in calls]) == ["done", *["open"] * 7]
        assert await attempt(made(), stores) == "done"

    told(story)


def test_a_probe_that_died_leaves_its_place_when_its_lease_is_over() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        await broken(breaker, stores)
        clock.wait(RECOVERY_S)
        dead = breaker.guard(stores, "shop")
        await dead.__aenter__()
        clock.wait(PROBE_S - 1)
        with pytest.raises(CircuitOpen) as refused:
            await breaker.call(stores, "shop", works)
        assert refused.value.retry_after_s == 1
        clock.wait(1)
        assert await attempt(breaker, stores, fails) == "failed"
        # The first one wakes up, and its success says nothing any more.
        await dead.__aexit__(None, None, None)
        assert await attempt(breaker, stores) == "open"

    told(story)


def test_a_probe_that_is_cancelled_gives_its_place_back_at_once() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        await broken(breaker, stores)
        clock.wait(RECOVERY_S)
        began = asyncio.Event()

        async def endless() -> str:
            began.set()
            await asyncio.Event().wait()
            return "never"

        probe = asyncio.create_task(breaker.call(stores, "shop", endless))
        await began.wait()
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert await attempt(breaker, stores) == "done"

    told(story)


def test_an_error_that_does_not_count_neither_opens_nor_keeps_open() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        async def not_found() -> str:
            raise KeyError("no such order")

        breaker = made()
        for _ in range(FAILURES):
            with pytest.raises(KeyError):
                await breaker.call(stores, "shop", not_found)
        await broken(breaker, stores)
        clock.wait(RECOVERY_S)
        with pytest.raises(KeyError):  # it answers: it has recovered
            await breaker.call(stores, "shop", not_found)
        assert await attempt(breaker, stores) == "done"

    told(story)


def test_no_lifetime_closes_an_open_circuit() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made(recovery_s=10 * 365 * 86400.0)
        await attempt(breaker, stores, fails)
        closed = await stores.run(Circuit.of("shop").get())
        assert closed is not None and closed.expires_at is not None
        await attempt(breaker, stores, fails)
        await attempt(breaker, stores, fails)
        opened = await stores.run(Circuit.of("shop").get())
        assert opened is not None and opened.expires_at is None
        clock.wait(9 * 365 * 86400)
        assert await attempt(breaker, stores) == "open"

    told(story)


def test_a_closed_circuit_at_the_end_of_its_life_counts_anew() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        await attempt(breaker, stores, fails)
        await attempt(breaker, stores, fails)
        clock.wait(2 * 86400)  # ended, and not removed: it is not read, and still written over
        assert await stores.run(Circuit.of("shop").get()) is None
        await attempt(breaker, stores, fails)
        assert await attempt(breaker, stores) == "done"

    told(story)


def test_a_call_on_a_closed_circuit_reads_once_in_a_while_and_writes_nothing() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made(closed_cache_s=1.0)
        with stores.meter_usage() as meter:
            for _ in range(10):
                await breaker.call(stores, "shop", works)
        assert [usage.operation for usage in meter.usages] == ["GetItem"]
        clock.wait(1)
        with stores.meter_usage() as meter:
            await breaker.call(stores, "shop", works)
        assert [usage.operation for usage in meter.usages] == ["GetItem"]

    told(story)


@pytest.mark.parametrize(
    "error",
    [
        StoreUnreachable("no route"),
        AccessRefused("AccessDenied", "no"),
        Throttled(),
        OSError("the disk is gone"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_a_call_gave_is_given_although_its_end_cannot_be_written(error: Exception) -> None:
    class Unreachable:
        """Tables that take no writes while they are cut off."""

        is_cut_off = False

        def __init__(self, behind: Any) -> None:
            self.behind = behind

        async def run(self, operation: Any) -> Any:
            if self.is_cut_off and isinstance(operation, PutItem):
                raise error
            return await self.behind.run(operation)

    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made()
        await broken(breaker, stores)
        clock.wait(RECOVERY_S)
        tables = Unreachable(stores.tables)
        cut_off = Stores(tables, clock=clock)

        async def works_and_is_cut_off() -> str:
            tables.is_cut_off = True
            return "done"

        assert await breaker.call(cut_off, "shop", works_and_is_cut_off) == "done"
        assert await attempt(breaker, stores) == "open"  # for as long as the probe's lease
        clock.wait(PROBE_S)
        assert await attempt(breaker, stores) == "done"

    told(story)


def test_each_opening_and_closing_is_logged_and_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []

    async def story(stores: Stores, clock: Hand) -> None:
        stores.measurements.subscribe(lambda each: counted.append(f"{each.name} {each.labels['breaker']}"))
        breaker = made()
        await broken(breaker, stores)
        clock.wait(RECOVERY_S)
        assert await attempt(breaker, stores, fails) == "failed"  # it stays open, and that is no news
        clock.wait(RECOVERY_S)
        assert await attempt(breaker, stores) == "done"
        await broken(breaker, stores)

    told(story)
    assert counted == ["breaker_opened shop", "breaker_closed shop", "breaker_opened shop"]
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.split(":")[0] for each in warnings] == [
        f"The circuit of shop is open after {FAILURES} failures",
        "The circuit of shop is closed again",
        f"The circuit of shop is open after {FAILURES} failures",
    ]


def test_a_component_needs_both_patterns_to_call() -> None:
    breaker = made()
    system = System(
        "calls",
        "Calls",
        tables=(BREAKERS,),
        patterns=breaker.patterns,
        components=(
            Component("caller", reads=breaker.reads, writes=breaker.writes),
            Component("watcher", reads=breaker.reads),
        ),
    )

    async def story() -> None:
        async with open_memory_stores(system, clock=Hand()) as stores:
            await create_tables(stores, system.tables)
            assert await attempt(breaker, stores.for_component("caller"), fails) == "failed"
            with pytest.raises(ComponentRefused):
                await attempt(breaker, stores.for_component("watcher"), fails)

    asyncio.run(story())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["works", "fails"]), st.integers(0, 40)), max_size=25))
def test_it_does_what_a_breaker_kept_in_one_variable_does(calls: list[tuple[str, int]]) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        breaker = made(closed_cache_s=0.0)
        recent: list[datetime] = []
        retry_at: datetime | None = None
        for kind, pause in calls:
            clock.wait(pause)
            now = clock.moment
            is_open = retry_at is not None and now < retry_at
            expected = "open" if is_open else "done" if kind == "works" else "failed"
            assert await attempt(breaker, stores, works if kind == "works" else fails) == expected
            if is_open:
                continue
            if kind == "works":
                recent, retry_at = ([] if retry_at else recent), None
            else:
                recent = [each for each in recent if each > now - timedelta(seconds=WINDOW_S)] + [now]
                if retry_at is not None or len(recent) >= FAILURES:
                    recent, retry_at = [], now + timedelta(seconds=RECOVERY_S)

    told(story)
