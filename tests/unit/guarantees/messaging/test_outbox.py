"""`Outbox` on in-memory tables and queues: atomic with the change, in order per aggregate, at least once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Stores
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import ComponentRefused, InvalidRequest, StoreUnreachable, TransactionCancelled
from holdfast.core.limits import MAX_MESSAGE_BYTES
from holdfast.guarantees import OutboxStatus
from holdfast.guarantees.messaging.outbox.items import OutboxTurn
from holdfast.operations.queues import SendMessages
from tests.unit.guarantees.messaging.order_outbox import OUTBOX_OF_ORDERS as OUTBOX
from tests.unit.guarantees.messaging.order_outbox import (
    ManualClock,
    OrderChanged,
    build_change,
    changes,
    open_order_stores,
    receive_all,
    replace_queue_with_failing,
)

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)
HALF_MINUTE = timedelta(seconds=30)

Story = Callable[[Stores, ManualClock], Awaitable[None]]


def run_story(story: Story) -> None:
    """Run the story on the in-memory stores of the order system, with a manual clock."""

    async def run() -> None:
        clock = ManualClock()
        async with await open_order_stores(clock) as stores:
            await story(stores, clock)

    asyncio.run(run())


async def receive_versions(stores: Stores) -> list[tuple[str, int]]:
    """Receive and delete all messages; return order and version of each."""
    return [(each.message.order_id, each.message.version) for each in await receive_all(stores)]


def test_message_exists_exactly_if_the_change_does() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        await stores.transact(*build_change(stores, "o-1", 0))
        with pytest.raises(TransactionCancelled):
            await stores.transact(*build_change(stores, "o-1", 0))
        assert (await OUTBOX.relay(stores)).sent == 1
        assert await receive_versions(stores) == [("o-1", 1)]

    run_story(story)


def test_relay_sends_all_pending_items_in_the_order_of_their_changes() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        for seen in range(30):
            await stores.transact(*build_change(stores, "o-1", seen))
        assert (await OUTBOX.relay(stores, "o-1")).sent == 30
        assert await receive_versions(stores) == [("o-1", number) for number in range(1, 31)]
        assert await OUTBOX.list_unsent(stores) == []
        assert (await OUTBOX.relay(stores)).sent == 0

    run_story(story)


def test_sweep_sends_items_that_no_relay_was_called_for() -> None:
    """A relay without an aggregate sends the items of all aggregates."""

    async def story(stores: Stores, _: ManualClock) -> None:
        for number in range(40):
            await stores.transact(*build_change(stores, f"o-{number}", 0))
        assert (await OUTBOX.relay(stores)).sent == 40
        assert sorted(await receive_versions(stores)) == sorted((f"o-{number}", 1) for number in range(40))

    run_story(story)


def test_sends_an_item_in_the_group_of_its_aggregate_under_its_own_id() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        with bind_correlation_id("e-7"):
            await stores.transact(*build_change(stores, "o-1", 0))
        (waiting,) = await OUTBOX.list_unsent(stores)
        await OUTBOX.relay(stores)
        (message,) = await receive_all(stores)
        assert (message.group, message.incoming.deduplication) == ("o-1", waiting.id)
        assert message.correlation_id == "e-7"

    run_story(story)


def test_resends_after_a_crash_and_the_queue_drops_the_duplicate() -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await stores.transact(*build_change(stores, "o-1", 0))
        (item,) = await stores.run(OUTBOX.pattern_set.items("o-1"))
        await stores.run(OUTBOX.pattern_set.send(item))  # the relay dies here
        clock.moment += 60
        assert (await OUTBOX.relay(stores)).sent == 1
        assert await receive_versions(stores) == [("o-1", 1)]

    run_story(story)


def test_skips_an_aggregate_leased_by_another_relay_until_the_lease_expires() -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await stores.transact(*build_change(stores, "o-1", 0))
        await stores.transact(*build_change(stores, "o-2", 0))
        turn = OutboxTurn(outbox=OUTBOX.name, aggregate="o-1", owner="other", until=NOON + HALF_MINUTE)
        await stores.run(OutboxTurn.put(turn))
        report = await OUTBOX.relay(stores)
        assert (report.sent, report.busy) == (1, 1)
        clock.moment += 30
        assert (await OUTBOX.relay(stores)).sent == 1

    run_story(story)


def test_relay_that_lost_its_lease_during_a_send_stops_sending() -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        for seen in range(3):
            await stores.transact(*build_change(stores, "o-1", seen))
        slow = replace_queue_with_failing(stores)
        behind = slow.behind

        class TakenOver:
            """Queue engine whose first send outlasts the lease while another relay sends everything."""

            is_first = True

            async def run(self, operation: object) -> object:
                if self.is_first and isinstance(operation, SendMessages):
                    self.is_first = False
                    clock.moment += 31
                    assert (await OUTBOX.relay(stores)).sent == 3
                return await behind.run(operation)

        slow.behind = TakenOver()
        report = await OUTBOX.relay(stores, "o-1")
        assert report.sent == 1  # the item it was about to send, again
        slow.behind = behind
        assert await receive_versions(stores) == [("o-1", 1), ("o-1", 2), ("o-1", 3)]

    run_story(story)


def test_concurrent_relays_keep_the_order_of_each_aggregate() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        for seen in range(10):
            for number in range(5):
                await stores.transact(*build_change(stores, f"o-{number}", seen))
        await asyncio.gather(*(OUTBOX.relay(stores) for _ in range(4)))
        await OUTBOX.relay(stores)
        found = await receive_versions(stores)
        for number in range(5):
            own = [version for order, version in found if order == f"o-{number}"]
            assert own == list(range(1, 11))

    run_story(story)


def test_retries_a_failed_send_with_growing_backoff_and_then_gives_up() -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        queue = replace_queue_with_failing(stores)
        queue.error, queue.failing_groups = StoreUnreachable("no route to the queue"), {"o-1"}
        for order in ("o-1", "o-2"):
            await stores.transact(*build_change(stores, order, 0))
            await stores.transact(*build_change(stores, order, 1))

        first = await OUTBOX.relay(stores)
        assert (first.sent, first.failed, first.died) == (2, 1, 0)
        assert (await OUTBOX.relay(stores)).failed == 0  # no attempt during the backoff
        clock.moment += 1
        assert (await OUTBOX.relay(stores)).failed == 1
        clock.moment += 1
        assert (await OUTBOX.relay(stores)).failed == 0  # the second backoff takes two seconds
        clock.moment += 1
        assert (await OUTBOX.relay(stores)).died == 1

        dead, pending = sorted(await OUTBOX.list_unsent(stores), key=lambda each: each.status)
        assert (dead.status, dead.sequence, dead.attempts) == (OutboxStatus.DEAD, 1, 3)
        assert dead.reason == "StoreUnreachable: no route to the queue"
        assert (pending.status, pending.sequence) == (OutboxStatus.PENDING, 2)

    run_story(story)


def test_dead_item_blocks_only_its_aggregate_and_goes_first_when_redriven() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        queue = replace_queue_with_failing(stores)
        await stores.transact(*build_change(stores, "o-1", 0))
        queue.error = InvalidRequest("the message is too large")
        assert (await OUTBOX.relay(stores)).died == 1  # the queue always refuses this message
        queue.error = None
        await stores.transact(*build_change(stores, "o-1", 1))
        await stores.transact(*build_change(stores, "o-2", 0))

        report = await OUTBOX.relay(stores)
        assert (report.sent, report.blocked) == (1, 1)
        assert await receive_versions(stores) == [("o-2", 1)]
        assert await OUTBOX.redrive(stores) == 1
        assert (await OUTBOX.relay(stores)).sent == 2
        assert await receive_versions(stores) == [("o-1", 1), ("o-1", 2)]

    run_story(story)


def test_sweep_writes_nothing_for_aggregates_that_back_off_or_are_blocked() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        queue = replace_queue_with_failing(stores)
        for order, error in (("o-1", InvalidRequest("too large")), ("o-2", StoreUnreachable("down"))):
            queue.error = error
            await stores.transact(*build_change(stores, order, 0))
            await stores.transact(*build_change(stores, order, 1))
            await OUTBOX.relay(stores, order)
        with stores.meter_usage() as meter:
            report = await OUTBOX.relay(stores)
        assert (report.sent, report.blocked) == (0, 1)
        assert {usage.operation for usage in meter.usages} == {"Query"}

    run_story(story)


def test_redrive_of_one_aggregate_leaves_the_others_dead() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        queue = replace_queue_with_failing(stores)
        queue.error = InvalidRequest("too large")
        for order in ("o-1", "o-2"):
            await stores.transact(*build_change(stores, order, 0))
        assert (await OUTBOX.relay(stores)).died == 2
        assert await OUTBOX.redrive(stores, "o-2") == 1
        (dead,) = await OUTBOX.list_unsent(stores, OutboxStatus.DEAD)
        assert dead.aggregate == "o-1"

    run_story(story)


def test_appending_component_cannot_relay_or_read_and_a_relay_cannot_append() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        api, relay = stores.for_component("api"), stores.for_component("relay")
        await api.transact(*build_change(api, "o-1", 0))
        with pytest.raises(ComponentRefused):
            await OUTBOX.relay(api)
        with pytest.raises(ComponentRefused):
            await api.run(OUTBOX.pattern_set.items("o-1"))
        with pytest.raises(ComponentRefused):
            await relay.transact(*build_change(relay, "o-1", 1))
        assert (await OUTBOX.relay(relay)).sent == 1

    run_story(story)


def test_rejects_a_component_without_send_permission_and_kills_no_item() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        await stores.transact(*build_change(stores, "o-1", 0))
        queue = replace_queue_with_failing(stores)
        queue.error = ComponentRefused("relay", "OB6", ["OB2"])
        with pytest.raises(ComponentRefused):
            await OUTBOX.relay(stores)
        (waiting,) = await OUTBOX.list_unsent(stores)
        assert (waiting.status, waiting.attempts) == (OutboxStatus.PENDING, 0)

    run_story(story)


def test_outbox_numbers_an_aggregate_without_a_version() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        def message(number: int) -> OrderChanged:
            return OrderChanged(order_id="o-1", version=number)

        first = await OUTBOX.enqueue_numbered(stores, "o-1", message(1), message(2))
        late = await OUTBOX.enqueue_numbered(stores, "o-1", message(9))
        await stores.transact(*first)
        with pytest.raises(
            TransactionCancelled
        ):  # built from the previous number: its message would be out of order
            await stores.transact(*late)
        await stores.transact(*await OUTBOX.enqueue_numbered(stores, "o-1", message(3)))
        await OUTBOX.relay(stores)
        assert [version for _, version in await receive_versions(stores)] == [1, 2, 3]

    run_story(story)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.sampled_from(["change a", "change b", "relay", "die", "fail", "recover", "wait"]), max_size=25
    )
)
def test_sends_every_change_in_order_under_any_interleaving(steps: list[str]) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        queue = replace_queue_with_failing(stores)
        made = {"a": 0, "b": 0}
        for step in [*steps, "recover"]:
            if step.startswith("change"):
                order = step[-1]
                await stores.transact(*build_change(stores, order, made[order]))
                made[order] += 1
            elif step == "relay":
                await OUTBOX.relay(stores)
            elif step == "die":  # after a send, before the item is removed
                for order in made:
                    for item in (await stores.run(OUTBOX.pattern_set.items(order))).items[:1]:
                        if queue.error is None and item.status is OutboxStatus.PENDING:
                            await stores.run(OUTBOX.pattern_set.send(item))
            elif step == "fail":
                queue.error = StoreUnreachable("down")
            elif step == "recover":
                queue.error = None
            else:
                clock.moment += 10
        clock.moment += 10
        await OUTBOX.redrive(stores)
        await OUTBOX.relay(stores)
        found = await receive_versions(stores)
        for order, last in made.items():
            assert [version for name, version in found if name == order] == list(range(1, last + 1))

    run_story(story)


def test_rejects_a_message_of_another_type_at_enqueue() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        with pytest.raises(InvalidRequest, match="OrderChanged"):
            OUTBOX.enqueue(stores, "o-1", changes, sequence=1)  # type: ignore[arg-type]

    run_story(story)


@pytest.mark.parametrize("order_id", ["Bestellung 7", "käse-1", "日本", "x" * 129, "a#b", "o-1"])
def test_every_valid_aggregate_id_has_its_own_message_group(order_id: str) -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        for seen in range(2):
            await stores.transact(*build_change(stores, order_id, seen))
        await stores.transact(*build_change(stores, "another", 0))
        report = await OUTBOX.relay(stores)
        assert (report.sent, report.died) == (3, 0)
        found = await receive_all(stores)
        mine = [each for each in found if each.message.order_id == order_id]
        assert [each.message.version for each in mine] == [1, 2]
        assert len({each.group for each in mine}) == 1
        assert len({each.group for each in found}) == 2

    run_story(story)


def test_rejects_a_message_that_its_queue_would_refuse_before_the_change() -> None:
    async def story(stores: Stores, _: ManualClock) -> None:
        too_large = OrderChanged(order_id="x" * (MAX_MESSAGE_BYTES + 1), version=1)
        with pytest.raises(InvalidRequest, match="too many"):
            OUTBOX.enqueue(stores, "o-1", too_large, sequence=1)
        with pytest.raises(InvalidRequest):
            OUTBOX.enqueue(stores, "o-1", OrderChanged(order_id="\ufffe", version=1), sequence=1)

    run_story(story)
