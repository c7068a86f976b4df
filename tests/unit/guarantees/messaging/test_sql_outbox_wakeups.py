"""Wake-ups of the SQL outbox's relay on a real PostgreSQL: by commits, redrives and the poll."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import ConditionFailed
from holdfast.runtime import WorkerGroup
from tests.postgres import connect, create_database
from tests.unit.guarantees.messaging.order_outbox import NOON
from tests.unit.guarantees.messaging.sql_shop import (
    OUTBOX,
    SHOP,
    SYSTEM,
    build_change,
    changes,
    create_shop_queues,
    open_shop_stores,
    publish_changes,
)

WAIT_S = 20.0


async def receive_versions(stores: Stores) -> list[int]:
    """Receive the next versions from the queue, or none if none arrive within 20 seconds."""
    messages = await stores.run(changes.receive(10, wait_s=WAIT_S))
    await stores.run(changes.delete(*messages))
    return [each.message.version for each in messages]


@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X11")
async def test_commit_wakes_the_relay_and_the_declared_poll_finds_the_rest(tmp_path: Path) -> None:
    url = create_database(SHOP)
    clock = RunClock(tmp_path / "clock", start=NOON)  # nothing is due unless the clock is advanced
    [schedule] = SYSTEM.get_component("relay").schedules
    assert schedule.every_s == OUTBOX.poll_s == 5.0

    async with open_shop_stores(url, clock=clock) as stores:
        await create_shop_queues(stores)
        await publish_changes(stores, "o-1", 1)
        async with WorkerGroup(stores, [SYSTEM.get_component("relay")]):
            assert await receive_versions(stores) == [1]  # committed before the relay listened
            await stores.transact(*build_change(stores, "o-1", 1))
            assert await receive_versions(stores) == [2]
            with pytest.raises(ConditionFailed):
                await stores.transact(*build_change(stores, "o-1", 7))
            # Inserted without a notification.
            with connect(url) as outside:
                outside.execute(
                    "INSERT INTO shop.outbox (queue_name, message_body, aggregate, sequence_number, "
                    "created_at, next_attempt_at) SELECT queue_name, replace(message_body, ':2', "
                    "':3'), aggregate, 3, created_at, created_at FROM shop.outbox WHERE "
                    "sequence_number = 2"
                )
            clock.advance(OUTBOX.poll_s)
            assert await receive_versions(stores) == [3]


async def test_redrive_wakes_the_relay(tmp_path: Path) -> None:
    url = create_database(SHOP)
    clock = RunClock(tmp_path / "clock", start=NOON)

    async with open_shop_stores(url, clock=clock) as stores:
        await create_shop_queues(stores)
        await publish_changes(stores, "o-1", 1)
        with connect(url) as outside:
            outside.execute("UPDATE shop.outbox SET dead_at = created_at")
        async with WorkerGroup(stores, [SYSTEM.get_component("relay")]):
            assert await OUTBOX.redrive(stores) == 1
            assert await receive_versions(stores) == [1]


async def test_rolled_back_transaction_wakes_no_relay(tmp_path: Path) -> None:
    url = create_database(SHOP)
    clock = RunClock(tmp_path / "clock", start=NOON)

    async with open_shop_stores(url, clock=clock) as stores, OUTBOX.listen(stores) as notices:
        with pytest.raises(ConditionFailed):
            await stores.transact(*build_change(stores, "o-1", 7)[::-1])
        await stores.transact(*build_change(stores, "o-1", 0))
        assert await notices.wait(WAIT_S) == ""
        assert await notices.wait(0) is None
