"""What only `Outbox` in tables has: turns of aggregates, numbering, the cost of a sweep."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import Conflict, InvalidRequest, StoreUnreachable
from tests.unit.guarantees.messaging.order_outbox import OUTBOX_OF_ORDERS as OUTBOX
from tests.unit.guarantees.messaging.order_outbox import OrderChanged
from tests.unit.guarantees.messaging.test_outboxes import Shop, open_in_tables


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with open_in_tables() as shop:
        yield shop


async def test_relay_of_one_aggregate_sends_all_its_items_and_no_others(shop: Shop) -> None:
    await shop.change("o-1", *range(30))
    await shop.change("o-2", 0)
    assert (await OUTBOX.send_unsent(shop.stores, "o-1")).sent == 30
    assert await shop.list_unsent() == [("o-2", 1, "pending", 0)]


async def test_report_counts_busy_and_blocked_aggregates(shop: Shop) -> None:
    shop.queues.fail(InvalidRequest("too large"), "o-1")
    await shop.change("o-1", 0, 1)
    await shop.send()
    await shop.change("o-2", 0)
    await shop.claim_and_die()
    report = await shop.send()
    assert (report.claimed, report.blocked, report.busy) == (0, 1, 1)


async def test_sweep_writes_nothing_for_aggregates_that_back_off_or_are_blocked(shop: Shop) -> None:
    for order, error in (("o-1", InvalidRequest("too large")), ("o-2", StoreUnreachable("down"))):
        shop.queues.fail(error)
        await shop.change(order, 0, 1)
        await OUTBOX.send_unsent(shop.stores, order)
    with shop.stores.meter_usage() as meter:
        report = await shop.send()
    assert (report.sent, report.blocked) == (0, 1)
    assert {usage.operation for usage in meter.usages} == {"Query"}


async def test_outbox_numbers_an_aggregate_without_a_version(shop: Shop) -> None:
    def message(number: int) -> OrderChanged:
        return OrderChanged(order_id="o-1", version=number)

    stores = shop.stores
    first = await OUTBOX.enqueue_numbered(stores, "o-1", message(1), message(2))
    late = await OUTBOX.enqueue_numbered(stores, "o-1", message(9))
    await stores.transact(*first)
    with pytest.raises(Conflict):  # built from the previous number: its message would be out of order
        await stores.transact(*late)
    await stores.transact(*await OUTBOX.enqueue_numbered(stores, "o-1", message(3)))
    await shop.send()
    assert [version for _, version in await shop.receive_versions()] == [1, 2, 3]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(["change a", "change b", "relay", "die", "fail", "recover", "wait"]), max_size=25
    )
)
async def test_sends_every_change_in_order_under_any_interleaving(steps: list[str]) -> None:
    async with open_in_tables() as shop:
        made = {"a": 0, "b": 0}
        for step in steps:
            if step.startswith("change"):
                await shop.change(step[-1], made[step[-1]])
                made[step[-1]] += 1
            elif step == "relay":
                await shop.send()
            elif step == "die":
                await shop.claim_and_die(after_sending=not shop.queues.is_failing)
            elif step == "fail":
                shop.queues.fail(StoreUnreachable("down"))
            elif step == "recover":
                shop.queues.recover()
            else:
                shop.clock.moment += OUTBOX.lease_s
        shop.queues.recover()
        shop.clock.moment += OUTBOX.lease_s
        await OUTBOX.redrive(shop.stores)
        await shop.send()
        found = await shop.receive_versions()
        for order, last in made.items():
            assert [version for name, version in found if name == order] == list(range(1, last + 1))
