"""Leases in one process: renewed while the holder lives, ended when they are lost, known by their patterns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import Component, Load, Rate, Stores, System, Volume, create_tables, open_memory_stores
from holdfast.core.errors import (
    AccessRefused,
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    InProgress,
    LeaseLost,
    RetryLater,
)
from holdfast.guarantees import LEASES, HeldLease, Lease
from holdfast.guarantees.resilience.lease import LeaseItem, keep_renewed
from holdfast.operations.tables import Operation, PutItem
from holdfast.reports.design.design_check import check_design
from tests.unit.guarantees.once_records import HandClock, LosingAnswers

SHORT_S = 0.15
leases = Lease("LE", rate=Rate("sweep"), lease_s=SHORT_S)
SYSTEM = System(
    "sweeping",
    "Sweeps",
    [LEASES],
    [*leases.patterns],
    [
        Component("sweeper", reads=leases.patterns.reads, writes=leases.patterns.writes),
        Component("onlooker", reads=leases.patterns.reads),
    ],
    Load(volumes={"sweep": Volume(per_month=1000)}),
)


def told(story: Callable[[Stores, HandClock], Coroutine[Any, Any, None]]) -> None:
    async def on_stores() -> None:
        clock = HandClock()
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await create_tables(stores, [LEASES])
            await story(stores, clock)

    asyncio.run(on_stores())


async def taken(stores: Stores, clock: HandClock) -> HeldLease:
    """From whoever has it; a renewal may come in between, and then it is tried again."""
    while True:
        clock.advance(SHORT_S)
        try:
            return await leases.take(stores, "sweeper")
        except InProgress:
            continue


def test_it_is_renewed_while_the_block_runs() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        renewals, enough = 0, asyncio.Event()

        def heard(usage: Any) -> None:
            nonlocal renewals
            renewals += usage.pattern == leases.patterns.keep.id
            clock.advance(SHORT_S / 3)
            if renewals == 5:
                enough.set()

        async with leases.hold(stores, "sweeper"):
            stores.observe(heard)
            await enough.wait()
            with pytest.raises(InProgress):
                await leases.take(stores, "sweeper")

    told(story)


def test_a_block_whose_lease_is_lost_is_cancelled() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        begun = asyncio.Event()

        async def swept() -> None:
            async with leases.hold(stores, "sweeper"):
                begun.set()
                await asyncio.Event().wait()

        work = asyncio.create_task(swept())
        await begun.wait()
        other = await taken(stores, clock)
        with pytest.raises(LeaseLost, match="token 1 was lost"):
            await work
        assert other.token == 2
        await other.renew()

    told(story)


def test_a_block_that_somebody_else_cancels_is_cancelled() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        begun = asyncio.Event()

        async def swept() -> None:
            async with leases.hold(stores, "sweeper"):
                begun.set()
                await asyncio.Event().wait()

        work = asyncio.create_task(swept())
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (await leases.take(stores, "sweeper")).token == 2

    told(story)


def test_a_renewal_that_fails_once_is_made_up_for() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        tries: list[int] = []
        enough = asyncio.Event()

        async def renew() -> None:
            tries.append(1)
            if len(tries) % 2:
                raise RetryLater("busy")
            if len(tries) == 6:
                enough.set()

        async with keep_renewed(renew, SHORT_S):
            await enough.wait()

    told(story)


def test_a_lease_whose_renewal_fails_for_its_whole_time_is_lost() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async def renew() -> None:
            raise RetryLater("busy")

        async def kept() -> None:
            async with keep_renewed(renew, SHORT_S):
                await asyncio.Event().wait()

        with pytest.raises(LeaseLost, match="busy"):
            await kept()

    told(story)


def test_a_holder_that_renews_in_the_last_moment_keeps_it() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        held = await leases.take(stores, "sweeper")

        class RenewedInBetween:
            """The holder's renewal comes after the taker has read, and before it writes."""

            async def run(self, operation: Operation[Any]) -> Any:
                if isinstance(operation, PutItem) and held.record.until < clock.now() + SHORT_S / 2:
                    await held.renew()
                return await stores.tables.run(operation)

        clock.advance(SHORT_S)
        with pytest.raises(InProgress):
            await leases.take(Stores(RenewedInBetween(), clock=clock), "sweeper")
        await held.renew()

    told(story)


@pytest.mark.parametrize("fate", ["done", "not done"])
def test_a_lease_whose_answer_was_lost_is_one_lease(fate: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        engine = LosingAnswers(stores.tables)
        engine.is_lost = lambda asked: fate if isinstance(asked, PutItem) and not engine.lost else None
        held = await leases.take(Stores(engine, clock=clock), "sweeper")
        assert (held.token, engine.lost) == (1, [fate])
        await held.renew()

    told(story)


async def _hangs() -> None:
    await asyncio.Event().wait()


async def _is_refused() -> None:
    raise AccessRefused("AccessDeniedException", "not allowed")


async def _breaks() -> None:
    raise OSError("the disk is gone")


@pytest.mark.parametrize("renew", [_hangs, _is_refused, _breaks])
def test_work_does_not_go_on_under_a_lease_that_nobody_renews_any_more(
    renew: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def story() -> None:
        with pytest.raises(LeaseLost, match="could not be renewed"):
            async with keep_renewed(renew, SHORT_S):
                await asyncio.Event().wait()

    asyncio.run(story())


def test_a_component_holds_a_lease_with_its_patterns_and_not_without() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async with leases.hold(stores.for_component("sweeper"), "sweeper"):
            pass
        with pytest.raises(ComponentRefused):
            await leases.take(stores.for_component("onlooker"), "sweeper")

    told(story)


def test_the_design_check_finds_no_error_in_a_system_with_leases() -> None:
    findings = asyncio.run(check_design(SYSTEM))
    assert [each for each in findings if each.severity == "error"] == []


def test_a_record_of_a_lease_is_never_removed_by_a_lifetime() -> None:
    assert LEASES.ttl is None
    with pytest.raises(ConditionFailed):
        asyncio.run(_created_twice())


async def _created_twice() -> None:
    async with open_memory_stores() as stores:
        await create_tables(stores, [LEASES])
        record = LeaseItem(name="x", holder="h", token=1, until=0)
        for _ in range(2):
            await stores.run(leases.patterns.take(record, None))


def test_a_lease_without_time_is_refused() -> None:
    with pytest.raises(DeclarationError, match="above 0"):
        Lease("LE", rate=Rate("sweep"), lease_s=0)
