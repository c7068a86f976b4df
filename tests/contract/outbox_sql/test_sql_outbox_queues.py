"""From rows in PostgreSQL to the queues of every engine: in order, grouped, and each once within the queue's window."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Queue, Stores
from holdfast.guarantees import OutboxStatus
from holdfast.guarantees.messaging.sql_outbox import PublishReport
from holdfast.model.queues import ReceivedMessage
from tests.unit.guarantees.announcing import Hand
from tests.unit.guarantees.sql_announcing import (
    OUTBOX,
    SHOP,
    OrderChanged,
    announced,
    changes,
    notes,
    prepared,
)

# Longer than any wait of these tests; a test that is right never waits so long.
LONG_S = 15


async def awaited(
    stores: Stores, count: int, queue: Queue[OrderChanged] = changes
) -> list[ReceivedMessage[OrderChanged]]:
    """So many messages, and then no more."""
    found: list[ReceivedMessage[OrderChanged]] = []
    while len(found) < count:
        messages = await stores.run(queue.receive(10, wait_s=LONG_S))
        await stores.run(queue.delete(*messages))
        found += messages
    assert await stores.run(queue.receive(10)) == ()
    return found


@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X9")
def test_rows_reach_a_fifo_queue_in_order_and_a_copy_is_dropped(stores: Stores) -> None:
    async def story() -> None:
        await prepared(stores)
        for number in range(3):
            await announced(stores, f"o-{number}", 5)
        await OUTBOX.publish(stores)
        # As a publisher leaves it that dies before it marks what it sent.
        again = SHOP.change("UPDATE shop.outbox SET processed = FALSE WHERE id < 4")
        await stores.run(again)
        assert (await OUTBOX.publish(stores)).sent == 3
        messages = await awaited(stores, 15)
        for number in range(3):
            mine = [each.message.version for each in messages if each.group == f"o-{number}"]
            assert mine == [1, 2, 3, 4, 5]
        assert len({each.announcement_id for each in messages}) == 15

    asyncio.run(story())


def test_a_standard_queue_takes_what_has_neither_group_nor_identity(stores: Stores) -> None:
    async def story() -> None:
        await prepared(stores)
        told = [OrderChanged(order_id="o-1", version=version) for version in range(12)]
        await stores.transact(*[OUTBOX.enqueue(stores, "o-1", notes, each) for each in told])
        assert await OUTBOX.publish(stores) == PublishReport(claimed=12, sent=12)
        messages = await awaited(stores, 12, notes)
        assert sorted(each.message.version for each in messages) == list(range(12))
        assert len({each.announcement_id for each in messages}) == 12

    asyncio.run(story())


@pytest.mark.proves("PG-26")
def test_a_queue_that_is_not_there_yet_is_waited_for(stores: Stores) -> None:
    async def story() -> None:
        await announced(stores, "o-1", 1)
        assert await OUTBOX.publish(stores) == PublishReport(claimed=1, failed=1)
        [waiting] = await OUTBOX.list_unsent(stores, OutboxStatus.PENDING)
        assert (waiting.attempts, (waiting.reason or "").partition(":")[0]) == (1, "NotFound")
        await prepared(stores)
        assert isinstance(stores.clock, Hand)
        stores.clock.moment += OUTBOX.poll_s
        assert (await OUTBOX.publish(stores)).sent == 1
        assert [each.message.version for each in await awaited(stores, 1)] == [1]

    asyncio.run(story())
