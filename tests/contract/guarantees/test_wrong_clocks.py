"""Wrong clocks on every tables engine: what a process a day ahead leaves behind blocks for one declared
period, and a process a day behind takes nothing from a live one.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Rate, Stores
from holdfast.core.errors import CircuitOpen, ExternalServiceFailed, InProgress, RateLimited, StoreFailed
from holdfast.guarantees import (
    BREAKERS,
    LEASES,
    RATE_LIMITS,
    Breaker,
    Circuit,
    Completion,
    Lease,
    LeaseItem,
    RateLimit,
)
from holdfast.guarantees.messaging.relay import RelayReport
from holdfast.runtime import create_queues
from tests.unit.guarantees.delayed_actions.delayed_letters import (
    ACT_S,
    HOLD_S,
    FakePostOffice,
    execute,
    find_due,
    hold,
    letters,
    queue,
)
from tests.unit.guarantees.idempotency.once_records import (
    LEASE_S,
    ManualClock,
    claim_event,
    counters,
    events,
    make_event,
    once,
)
from tests.unit.guarantees.messaging.order_outbox import (
    OUTBOX_OF_ORDERS,
    SYSTEM,
    build_change,
    watch_queues,
)

from .conftest import OpenStores, RunStory

DAY_S = 86_400.0
HOLDER_S = 30.0
leases = Lease(LeaseItem, prefix="LE", rate=Rate("sweep"), lease_s=HOLDER_S)


def with_clock(stores: Stores, clock: ManualClock) -> Stores:
    """Return the stores of another process, on the same tables with another clock."""
    return Stores(stores.tables, environment=stores.environment, clock=clock, engines=stores.engines)


def ahead_of(stores: Stores, clock: ManualClock) -> Stores:
    """Return the stores of a process whose clock is a day ahead."""
    return with_clock(stores, ManualClock(clock.now() + DAY_S))


# --- leases -------------------------------------------------------------------------------------------------


def test_lease_of_a_process_a_day_ahead_ends_one_lease_time_after_it_was_seen(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await leases.take(ahead_of(stores, clock), "sweeper")
        with pytest.raises(InProgress) as refused:
            await leases.take(stores, "sweeper")
        assert refused.value.retry_after_s == pytest.approx(HOLDER_S, abs=0.01)
        clock.advance(HOLDER_S)
        assert (await leases.take(stores, "sweeper")).token == 2

    run_story(story, LEASES)


def test_process_a_day_behind_does_not_take_a_lease_that_is_renewed(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = ManualClock(clock.now() - DAY_S)
        behind = with_clock(stores, late)
        held = await leases.take(stores, "sweeper")
        for _ in range(4):
            with pytest.raises(InProgress):
                await leases.take(behind, "sweeper")
            clock.advance(HOLDER_S / 2)
            late.advance(HOLDER_S / 2)
            await held.renew()
        with pytest.raises(InProgress):
            await leases.take(behind, "sweeper")
        late.advance(HOLDER_S)
        assert (await leases.take(behind, "sweeper")).token == 2

    run_story(story, LEASES)


def test_lease_lasts_as_long_as_its_holder_declared(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await leases.take(stores, "sweeper", lease_s=10 * HOLDER_S)
        for _ in range(10):
            with pytest.raises(InProgress):
                await leases.take(stores, "sweeper")
            clock.advance(HOLDER_S)
        assert (await leases.take(stores, "sweeper")).token == 2

    run_story(story, LEASES)


# --- idempotency --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act_s", [None, ACT_S], ids=["claim", "intent"])
def test_claim_of_a_process_a_day_ahead_ends_one_lease_time_after_it_was_seen(
    run_story: RunStory, act_s: float | None
) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await once.claim(ahead_of(stores, clock), make_event(), act_s=act_s)
        with pytest.raises(InProgress) as refused:
            await once.claim(stores, make_event())
        assert refused.value.retry_after_s == pytest.approx(LEASE_S, abs=0.01)
        clock.advance(LEASE_S)
        taken = await claim_event(stores)
        assert (taken.record.attempts, taken.was_attempted) == (2, act_s is not None)

    run_story(story, events)


def test_process_a_day_behind_does_not_take_a_claim_that_is_renewed(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = ManualClock(clock.now() - DAY_S)
        behind = with_clock(stores, late)
        claim = await claim_event(stores)
        for _ in range(4):
            with pytest.raises(InProgress):
                await once.claim(behind, make_event())
            clock.advance(LEASE_S / 2)
            late.advance(LEASE_S / 2)
            await claim.renew()
        assert (await claim.complete(result="done")).result == "done"
        done = await once.claim(behind, make_event())
        assert isinstance(done, Completion) and done.result == "done"

    run_story(story, events)


# --- delayed actions ----------------------------------------------------------------------------------------


def test_action_in_progress_at_a_process_a_day_ahead_is_found_and_executed(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office, ahead = FakePostOffice(), ahead_of(stores, clock)
        await hold(stores, for_s=0)
        office.fails = RuntimeError("killed")
        with pytest.raises(RuntimeError):
            await execute(ahead, office)
        office.fails = None
        assert await find_due(stores) == []
        with pytest.raises(InProgress):
            await execute(stores, office)
        clock.advance(LEASE_S)
        assert await find_due(stores) == ["l-1"]
        await execute(stores, office)
        assert len(office.ledger) == 1

    run_story(story, letters, counters)


def test_action_delayed_by_a_process_a_day_ahead_is_due_after_its_delay(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        await hold(ahead_of(stores, clock), for_s=HOLD_S)
        assert await find_due(stores) == []
        clock.advance(HOLD_S - LEASE_S)
        assert await find_due(stores) == []
        with pytest.raises(InProgress):
            await execute(stores, office)
        clock.advance(LEASE_S)
        assert await find_due(stores) == ["l-1"]
        await execute(stores, office)
        assert len(office.ledger) == 1

    run_story(story, letters, counters)


def test_process_a_day_behind_does_not_shorten_a_delay(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = ManualClock(clock.now() - DAY_S)
        behind, office = with_clock(stores, late), FakePostOffice()
        await hold(stores, for_s=HOLD_S)
        assert await find_due(behind) == []
        late.advance(HOLD_S - 1)
        clock.advance(HOLD_S - 1)
        assert await find_due(behind) == await find_due(stores) == []
        with pytest.raises(InProgress):
            await execute(behind, office)


def test_action_approved_by_a_process_a_day_ahead_is_due_at_once(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        held = await hold(stores, for_s=7 * DAY_S)
        await queue.approve(ahead_of(stores, clock), held, by="ada")
        assert await find_due(stores) == ["l-1"]
        await execute(stores, office)
        assert len(office.ledger) == 1

    run_story(story, letters, counters)


# --- circuit breaker ----------------------------------------------------------------------------------------


def make_breaker() -> Breaker[Circuit]:
    return Breaker(Circuit, prefix="CB", rate=Rate("call"), failures=2, recovery_s=20, closed_cache_s=0.0)


async def _fail() -> None:
    raise ExternalServiceFailed("502", may_be_done=False)


async def _succeed() -> str:
    return "done"


def test_circuit_opened_a_day_ahead_refuses_for_one_recovery_time(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        breaker, ahead = make_breaker(), ahead_of(stores, clock)
        for _ in range(2):
            with pytest.raises(ExternalServiceFailed):
                await breaker.call(ahead, "shop", _fail)
        with pytest.raises(CircuitOpen) as refused:
            await breaker.call(stores, "shop", _succeed)
        assert refused.value.retry_after_s == pytest.approx(20, abs=0.01)
        clock.advance(20)
        assert await breaker.call(stores, "shop", _succeed) == "done"

    run_story(story, BREAKERS)


def test_process_a_day_behind_does_not_probe_while_another_probes(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        breaker, behind = make_breaker(), with_clock(stores, ManualClock(clock.now() - DAY_S))
        for _ in range(2):
            with pytest.raises(ExternalServiceFailed):
                await breaker.call(stores, "shop", _fail)
        clock.advance(20)
        async with breaker.guard(stores, "shop"):
            with pytest.raises(CircuitOpen):
                await breaker.call(behind, "shop", _succeed)
        assert await breaker.call(behind, "shop", _succeed) == "done"

    run_story(story, BREAKERS)


def test_failure_counted_a_day_ahead_is_forgotten_after_one_window(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        breaker = Breaker(
            Circuit, prefix="CB", rate=Rate("call"), failures=3, window_s=60, closed_cache_s=0.0
        )
        with pytest.raises(ExternalServiceFailed):
            await breaker.call(ahead_of(stores, clock), "shop", _fail)
        for pause_s in (0, 61, 61, 61):
            clock.advance(pause_s)
            with pytest.raises(ExternalServiceFailed):
                await breaker.call(stores, "shop", _fail)
        assert await breaker.call(stores, "shop", _succeed) == "done"

    run_story(story, BREAKERS)


# --- rate limit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [0, 6])
def test_takes_counted_a_day_ahead_are_forgotten_after_one_window(run_story: RunStory, parts: int) -> None:
    limit = RateLimit("calls", prefix="RL", rate=Rate("call"), limit=2, window_s=60, parts=parts)

    async def story(stores: Stores, clock: ManualClock) -> None:
        await limit.take(ahead_of(stores, clock), "s-1", 2)
        with pytest.raises(RateLimited) as refused:
            await limit.take(stores, "s-1")
        wait_s = refused.value.retry_after_s or 0.0
        assert 0 < wait_s <= (70 if parts else 60)
        clock.advance(wait_s)
        assert await limit.take(stores, "s-1") == 1

    run_story(story, RATE_LIMITS)


def test_process_a_day_behind_is_limited_with_the_others(run_story: RunStory) -> None:
    limit = RateLimit("calls", prefix="RL", rate=Rate("call"), limit=2, window_s=60, parts=6)

    async def story(stores: Stores, clock: ManualClock) -> None:
        late = ManualClock(clock.now() - DAY_S)
        behind = with_clock(stores, late)
        for _ in range(5):
            await limit.take(stores, "s-1", 2)
            with pytest.raises(RateLimited):
                await limit.take(behind, "s-1")
            clock.advance(70)
            late.advance(70)

    run_story(story, RATE_LIMITS)


# --- outbox -------------------------------------------------------------------------------------------------


def open_order_stores(open_stores: OpenStores) -> tuple[Stores, ManualClock]:
    """Open stores with the tables and queues of the outbox's test system, and their clock."""
    under, clock = open_stores(*SYSTEM.tables), ManualClock()
    asyncio.run(create_queues(under, SYSTEM.queues))
    return with_clock(under, clock), clock


def test_turn_of_a_relay_a_day_ahead_ends_one_lease_time_after_it_was_seen(open_stores: OpenStores) -> None:
    stores, clock = open_order_stores(open_stores)

    async def story() -> None:
        await stores.transact(*build_change(stores, "o-1", 0))
        async for _ in OUTBOX_OF_ORDERS.open_storage(ahead_of(stores, clock)).claim(RelayReport()):
            break  # the relay is killed
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).busy == 1
        clock.advance(OUTBOX_OF_ORDERS.lease_s)
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).sent == 1

    asyncio.run(story())


def test_pause_after_a_failure_a_day_ahead_ends_after_the_longest_pause(open_stores: OpenStores) -> None:
    stores, clock = open_order_stores(open_stores)

    async def story() -> None:
        queues = watch_queues(stores)
        queues.fail(StoreFailed("down"))
        await stores.transact(*build_change(stores, "o-1", 0))
        assert (await OUTBOX_OF_ORDERS.send_unsent(ahead_of(stores, clock))).failed == 1
        queues.recover()
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).sent == 0
        clock.advance(OUTBOX_OF_ORDERS.max_retry_delay_s)
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).sent == 1

    asyncio.run(story())


def test_relay_a_day_behind_does_not_take_a_turn_that_is_held(open_stores: OpenStores) -> None:
    stores, clock = open_order_stores(open_stores)

    async def story() -> None:
        behind = with_clock(stores, ManualClock(clock.now() - DAY_S))
        await stores.transact(*build_change(stores, "o-1", 0))
        async for _ in OUTBOX_OF_ORDERS.open_storage(stores).claim(RelayReport()):
            assert (await OUTBOX_OF_ORDERS.send_unsent(behind)).busy == 1

    asyncio.run(story())
