"""Leases on every tables engine: one holder at a time, and a token that only grows."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Rate, Stores
from holdfast.core.errors import InProgress, LeaseLost, TransactionCancelled
from holdfast.guarantees import LEASES, HeldLease, Lease, LeaseItem
from tests.unit.guarantees.idempotency.once_records import ManualClock, count, counters, read_counter

from .conftest import RunStory

LEASE_S = 30.0
WORKERS = 8
leases = Lease(LeaseItem, prefix="LE", rate=Rate("sweep"), lease_s=LEASE_S)


def test_one_of_many_concurrent_callers_acquires_the_lease(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        answers = await asyncio.gather(
            *(leases.take(stores, "sweeper") for _ in range(WORKERS)), return_exceptions=True
        )
        assert sum(isinstance(each, HeldLease) for each in answers) == 1
        assert sum(isinstance(each, InProgress) for each in answers) == WORKERS - 1

    run_story(story, LEASES)


def test_the_token_only_grows(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        first = await leases.take(stores, "sweeper")
        clock.advance(LEASE_S)
        second = await leases.take(stores, "sweeper")
        await second.release()
        third = await leases.take(stores, "sweeper")
        assert [first.token, second.token, third.token] == [1, 2, 3]
        assert (await leases.take(stores, "other")).token == 1

    run_story(story, LEASES)


def test_holder_that_slept_through_its_loss_writes_nothing(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = await leases.take(stores, "sweeper")
        await stores.transact(late.check(), count("swept"))
        clock.advance(LEASE_S)
        taker = await leases.take(stores, "sweeper")
        with pytest.raises(TransactionCancelled):
            await stores.transact(late.check(), count("swept"))
        for act in (late.renew(), late.release()):
            with pytest.raises(LeaseLost):
                await act
        await stores.transact(taker.check(), count("swept"))
        assert await read_counter(stores, "swept") == 2

    run_story(story, LEASES, counters)


def test_renewed_lease_is_not_expired(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        held = await leases.take(stores, "sweeper")
        clock.advance(LEASE_S - 1)
        await held.renew()
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress) as refused:
            await leases.take(stores, "sweeper")
        assert refused.value.retry_after_s == pytest.approx(1, abs=0.01)

    run_story(story, LEASES)


def test_releases_the_lease_at_the_end_of_the_block(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        async with leases.hold(stores, "sweeper") as held:
            assert held.token == 1
            with pytest.raises(InProgress):
                await leases.take(stores, "sweeper")
        assert (await leases.take(stores, "sweeper")).token == 2

    run_story(story, LEASES)
