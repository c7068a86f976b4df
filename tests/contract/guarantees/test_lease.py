"""Leases over every engine: one holder at a time, and a token that only grows."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Rate, Stores
from holdfast.core.errors import InProgress, LeaseLost, TransactionCancelled
from holdfast.guarantees import LEASES, HeldLease, Lease
from tests.unit.guarantees.once_records import HandClock, count, counted, counters

from .conftest import Played

LEASE_S = 30.0
WORKERS = 8
leases = Lease("LE", rate=Rate("sweep"), lease_s=LEASE_S)


def test_of_many_who_take_it_at_the_same_time_one_has_it(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        answers = await asyncio.gather(
            *(leases.take(stores, "sweeper") for _ in range(WORKERS)), return_exceptions=True
        )
        assert sum(isinstance(each, HeldLease) for each in answers) == 1
        assert sum(isinstance(each, InProgress) for each in answers) == WORKERS - 1

    played(story, LEASES)


def test_the_token_only_grows(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        first = await leases.take(stores, "sweeper")
        clock.advance(LEASE_S)
        second = await leases.take(stores, "sweeper")
        await second.release()
        third = await leases.take(stores, "sweeper")
        assert [first.token, second.token, third.token] == [1, 2, 3]
        assert (await leases.take(stores, "other")).token == 1

    played(story, LEASES)


def test_a_holder_that_slept_through_its_loss_writes_nothing(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
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
        assert await counted(stores, "swept") == 2

    played(story, LEASES, counters)


def test_a_lease_that_was_renewed_is_not_over(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        held = await leases.take(stores, "sweeper")
        clock.advance(LEASE_S - 1)
        await held.renew()
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress) as refused:
            await leases.take(stores, "sweeper")
        assert refused.value.retry_after_s == pytest.approx(1, abs=0.01)

    played(story, LEASES)


def test_it_is_given_back_at_the_end_of_the_block(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async with leases.hold(stores, "sweeper") as held:
            assert held.token == 1
            with pytest.raises(InProgress):
                await leases.take(stores, "sweeper")
        assert (await leases.take(stores, "sweeper")).token == 2

    played(story, LEASES)
