"""The tables outbox on every tables engine: order under concurrent writers, dead items and redrive."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest
from holdfast.guarantees import OutboxStatus
from holdfast.runtime import create_queues
from tests.unit.guarantees.messaging.order_outbox import (
    OUTBOX_OF_ORDERS,
    SYSTEM,
    Order,
    build_change,
    receive_all,
    watch_queues,
)

from .conftest import OpenStores


@pytest.fixture
def stores(open_stores: OpenStores) -> Stores:
    """Open stores with the tables and queues of the outbox's test system."""
    made = open_stores(*SYSTEM.tables)
    asyncio.run(create_queues(made, SYSTEM.queues))
    return made


def test_messages_of_concurrent_writers_arrive_in_version_order(stores: Stores) -> None:
    async def change_once() -> None:
        while True:
            seen = await stores.run(Order.of("o-1").get().consistent())
            try:
                await stores.transact(*build_change(stores, "o-1", 0 if seen is None else seen.version))
            except Conflict:
                continue
            await OUTBOX_OF_ORDERS.send_unsent(stores, "o-1")
            return

    async def story() -> None:
        await asyncio.gather(*(change_once() for _ in range(6)))
        await OUTBOX_OF_ORDERS.send_unsent(stores, "o-1")
        assert [each.message.version for each in await receive_all(stores)] == [1, 2, 3, 4, 5, 6]

    asyncio.run(story())


def test_lists_a_dead_item_and_sends_it_when_redriven(stores: Stores) -> None:
    async def story() -> None:
        queues = watch_queues(stores)
        queues.fail(InvalidRequest("too large"))
        await stores.transact(*build_change(stores, "o-1", 0))
        await stores.transact(*build_change(stores, "o-1", 1))
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).died == 1
        (dead,) = await OUTBOX_OF_ORDERS.list_unsent(stores, OutboxStatus.DEAD)
        assert (dead.sequence, dead.reason) == (1, "InvalidRequest: too large")
        queues.recover()
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).sent == 0
        assert await OUTBOX_OF_ORDERS.redrive(stores) == 1
        assert (await OUTBOX_OF_ORDERS.send_unsent(stores)).sent == 2
        assert [each.message.version for each in await receive_all(stores)] == [1, 2]
        assert await OUTBOX_OF_ORDERS.list_unsent(stores) == []

    asyncio.run(story())
