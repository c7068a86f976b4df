"""The SQL outbox sends rows to the queues of every engine: in order, grouped and deduplicated."""

from __future__ import annotations

import pytest

from holdfast import Queue, Stores
from holdfast.guarantees import OutboxStatus
from holdfast.guarantees.messaging.relay import RelayReport
from holdfast.model.queues import ReceivedMessage
from tests.unit.guarantees.messaging.order_outbox import ManualClock, OrderChanged
from tests.unit.guarantees.messaging.sql_shop import (
    OUTBOX,
    SHOP,
    changes,
    create_shop_queues,
    notes,
    publish_changes,
)

# Longer than any wait of these tests; a passing test never waits so long.
LONG_S = 15


async def receive_exactly(
    stores: Stores, count: int, queue: Queue[OrderChanged] = changes
) -> list[ReceivedMessage[OrderChanged]]:
    """Receive and delete `count` messages, and check that no more follow."""
    found: list[ReceivedMessage[OrderChanged]] = []
    while len(found) < count:
        messages = await stores.run(queue.receive(10, wait_s=LONG_S))
        await stores.run(queue.delete(*messages))
        found += messages
    assert await stores.run(queue.receive(10)) == ()
    return found


@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X9")
async def test_rows_reach_a_fifo_queue_in_order_and_duplicates_are_dropped(stores: Stores) -> None:
    await create_shop_queues(stores)
    for number in range(3):
        await publish_changes(stores, f"o-{number}", 5)
    await OUTBOX.send_unsent(stores)
    # The state after a relay dies before it marks its sent rows.
    again = SHOP.change("UPDATE shop.outbox SET processed = FALSE WHERE id < 4")
    await stores.run(again)
    assert (await OUTBOX.send_unsent(stores)).sent == 3
    messages = await receive_exactly(stores, 15)
    for number in range(3):
        mine = [each.message.version for each in messages if each.group == f"o-{number}"]
        assert mine == [1, 2, 3, 4, 5]
    assert len({each.announcement_id for each in messages}) == 15


async def test_standard_queue_accepts_messages_without_group_and_identity(stores: Stores) -> None:
    """All 12 rows reach a standard queue, each with its own announcement id."""

    await create_shop_queues(stores)
    enqueued = [OrderChanged(order_id="o-1", version=version) for version in range(12)]
    await stores.transact(*[OUTBOX.enqueue(stores, "o-1", each, queue=notes) for each in enqueued])
    assert await OUTBOX.send_unsent(stores) == RelayReport(claimed=12, sent=12)
    messages = await receive_exactly(stores, 12, notes)
    assert sorted(each.message.version for each in messages) == list(range(12))
    assert len({each.announcement_id for each in messages}) == 12


@pytest.mark.proves("PG-26")
async def test_waits_for_a_queue_that_does_not_exist_yet(stores: Stores) -> None:
    await publish_changes(stores, "o-1", 1)
    assert await OUTBOX.send_unsent(stores) == RelayReport(claimed=1, failed=1)
    [waiting] = await OUTBOX.list_unsent(stores, OutboxStatus.PENDING)
    assert (waiting.attempts, (waiting.reason or "").partition(":")[0]) == (1, "NotFound")
    await create_shop_queues(stores)
    assert isinstance(stores.clock, ManualClock)
    stores.clock.moment += OUTBOX.poll_s
    assert (await OUTBOX.send_unsent(stores)).sent == 1
    assert [each.message.version for each in await receive_exactly(stores, 1)] == [1]
