"""`Lease` on in-memory tables: renewed while the block runs, block cancelled on loss, lost responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from holdfast import Attr, Component, Key, Load, Rate, Stores, System, Table, Volume, attr, open_memory_stores
from holdfast.core.errors import (
    AccessRefused,
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    InProgress,
    LeaseLost,
    RetryLater,
)
from holdfast.guarantees import LEASES, HeldLease, Lease, LeaseItem, LeaseRecord
from holdfast.guarantees.resilience.lease import keep_renewed
from holdfast.model.system import Design
from holdfast.operations.tables import Operation, PutItem
from holdfast.reports.design.design_check import check_design
from holdfast.runtime import create_tables
from tests.unit.guarantees.idempotency.once_records import LossyTables, ManualClock

SHORT_S = 0.15
leases = Lease(LeaseItem, prefix="LE", rate=Rate("sweep"), lease_s=SHORT_S)
SYSTEM = System(
    "sweeping",
    "Sweeps",
    tables=[LEASES],
    patterns=[*leases.patterns],
    components=[
        Component("sweeper", uses=(leases.reads, leases.writes)),
        Component("onlooker", uses=(leases.reads,)),
    ],
    design=Design(load=Load(volumes={"sweep": Volume(per_month=1000)})),
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    """Open in-memory stores with the leases' table."""
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await create_tables(stores, [LEASES])
        yield stores


async def take_over(stores: Stores, clock: ManualClock) -> HeldLease[LeaseItem]:
    """Take the lease over from its holder; retry when a renewal comes in between."""
    while True:
        clock.advance(SHORT_S)
        try:
            return await leases.take(stores, "sweeper")
        except InProgress:
            continue


async def test_renews_the_lease_while_the_block_runs(stores: Stores, clock: ManualClock) -> None:
    renewals, enough = 0, asyncio.Event()

    def hear(usage: Any) -> None:
        nonlocal renewals
        renewals += usage.pattern == leases.pattern_set.keep.id
        clock.advance(SHORT_S / 3)
        if renewals == 5:
            enough.set()

    async with leases.hold(stores, "sweeper"):
        stores.observe(hear)
        await enough.wait()
        with pytest.raises(InProgress):
            await leases.take(stores, "sweeper")


async def test_cancels_a_block_whose_lease_is_lost(stores: Stores, clock: ManualClock) -> None:
    begun = asyncio.Event()

    async def sweep() -> None:
        async with leases.hold(stores, "sweeper"):
            begun.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(sweep())
    await begun.wait()
    other = await take_over(stores, clock)
    with pytest.raises(LeaseLost, match="token 1 was lost"):
        await work
    assert other.token == 2
    await other.renew()


async def test_releases_the_lease_of_a_block_cancelled_from_outside(stores: Stores) -> None:
    begun = asyncio.Event()

    async def sweep() -> None:
        async with leases.hold(stores, "sweeper"):
            begun.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(sweep())
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (await leases.take(stores, "sweeper")).token == 2


async def test_lease_survives_if_every_other_renewal_fails() -> None:
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


async def test_lease_is_lost_when_renewals_fail_for_its_whole_duration() -> None:
    async def renew() -> None:
        raise RetryLater("busy")

    async def hold() -> None:
        async with keep_renewed(renew, SHORT_S):
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="busy"):
        await hold()


async def test_holder_that_renews_at_the_last_moment_keeps_the_lease(
    stores: Stores, clock: ManualClock
) -> None:
    held = await leases.take(stores, "sweeper")

    class RenewedInBetween:
        """Engine that renews the holder's lease after the taker's read and before its write."""

        async def run(self, operation: Operation[Any]) -> Any:
            if isinstance(operation, PutItem) and held.record.until < clock.now() + SHORT_S / 2:
                await held.renew()
            return await stores.tables.run(operation)

    clock.advance(SHORT_S)
    with pytest.raises(InProgress):
        await leases.take(Stores(RenewedInBetween(), clock=clock), "sweeper")
    await held.renew()


@pytest.mark.parametrize("fate", ["done", "not done"])
async def test_acquire_with_a_lost_response_yields_one_lease(
    fate: str, stores: Stores, clock: ManualClock
) -> None:
    engine = LossyTables(stores.tables)
    engine.is_lost = lambda asked: fate if isinstance(asked, PutItem) and not engine.lost else None
    held = await leases.take(Stores(engine, clock=clock), "sweeper")
    assert (held.token, engine.lost) == (1, [fate])
    await held.renew()


async def _hang() -> None:
    await asyncio.Event().wait()


async def _raise_refusal() -> None:
    raise AccessRefused("AccessDeniedException", "not allowed")


async def _raise_error() -> None:
    raise OSError("the disk is gone")


@pytest.mark.parametrize("renew", [_hang, _raise_refusal, _raise_error])
async def test_work_stops_when_its_lease_is_no_longer_renewed(
    renew: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """A renewal that hangs or fails permanently raises `LeaseLost`."""
    with pytest.raises(LeaseLost, match="could not be renewed"):
        async with keep_renewed(renew, SHORT_S):
            await asyncio.Event().wait()


async def test_component_holds_a_lease_only_with_its_patterns(stores: Stores) -> None:
    async with leases.hold(stores.for_component("sweeper"), "sweeper"):
        pass
    with pytest.raises(ComponentRefused):
        await leases.take(stores.for_component("onlooker"), "sweeper")


async def test_the_design_check_finds_no_error_in_a_system_with_leases() -> None:
    findings = await check_design(SYSTEM)
    assert [each for each in findings if each.severity == "error"] == []


async def test_leases_have_no_expiry_and_a_lease_is_created_only_once() -> None:
    assert LEASES.ttl is None
    with pytest.raises(ConditionFailed):
        await _create_twice()


async def _create_twice() -> None:
    """Create one lease twice; the second time fails."""
    async with open_memory_stores() as stores:
        await create_tables(stores, [LEASES])
        record = LeaseItem(name="x", holder="h", token=1, until=0)
        for _ in range(2):
            await stores.run(leases.pattern_set.take(record, None))


def test_rejects_a_lease_without_duration() -> None:
    with pytest.raises(DeclarationError, match="above 0"):
        Lease(LeaseItem, prefix="LE", rate=Rate("sweep"), lease_s=0)


surveys = Table("Surveys", "name")


class Survey(LeaseRecord, table=surveys):
    name: Attr[str] = attr()
    position: Attr[int] = attr(default=0)

    of = Key(name)


async def test_renewal_saves_further_attributes_for_the_next_holder(
    stores: Stores, clock: ManualClock
) -> None:
    await create_tables(stores, [surveys])
    mine = Lease(Survey, prefix="SU", rate=Rate("sweep"), lease_s=30)
    first = await mine.take(stores, "north")
    await first.renew(position=7)
    await first.release()

    second = await mine.take(stores, "north", lease_s=5)
    assert (second.record.position, second.token) == (7, 2)
    assert second.record.until == pytest.approx(clock.now() + 5, abs=0.001)
    with pytest.raises(LeaseLost):
        await first.renew(position=8)
    found = await stores.run(Survey.of("north").get())
    assert found is not None and found.position == 7
