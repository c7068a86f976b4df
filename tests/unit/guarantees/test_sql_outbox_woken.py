"""A publisher is woken by the commit, and by nothing that is not committed; the poll finds what nobody was told of."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Stores, WorkerGroup
from holdfast.core.clock import RunClock
from holdfast.core.errors import ConditionFailed
from tests.postgres import connected, fresh_database
from tests.unit.guarantees.announcing import NOON
from tests.unit.guarantees.sql_announcing import (
    OUTBOX,
    SHOP,
    SYSTEM,
    announced,
    changed,
    changes,
    prepared,
    stores_at,
)

WAIT_S = 20.0


async def heard(stores: Stores) -> list[int]:
    """The versions that come to the queue next; none, if none come in the time."""
    messages = await stores.run(changes.receive(10, wait_s=WAIT_S))
    await stores.run(changes.delete(*messages))
    return [each.message.version for each in messages]


@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X11")
def test_a_commit_wakes_the_publisher_and_the_declared_poll_finds_the_rest(tmp_path: Path) -> None:
    url = fresh_database(SHOP)
    clock = RunClock(tmp_path / "clock", start=NOON)  # nothing is due unless it is moved
    [schedule] = SYSTEM.get_component("publisher").schedules
    assert schedule.every_s == OUTBOX.poll_s == 5.0

    async def played() -> None:
        async with stores_at(url, clock=clock) as stores:
            await prepared(stores)
            await announced(stores, "o-1", 1)
            async with WorkerGroup(stores, [SYSTEM.get_component("publisher")]):
                assert await heard(stores) == [1]  # it was there before anybody listened
                await stores.transact(*changed(stores, "o-1", 1))
                assert await heard(stores) == [2]
                with pytest.raises(ConditionFailed):
                    await stores.transact(*changed(stores, "o-1", 7))
                # Written by another hand, which tells nobody.
                with connected(url) as outside:
                    outside.execute(
                        "INSERT INTO shop.outbox (queue_name, message_body, aggregate, sequence_number, created_at, "
                        "next_attempt_at) SELECT queue_name, replace(message_body, ':2', ':3'), aggregate, 3, created_at, "
                        "created_at FROM shop.outbox WHERE sequence_number = 2"
                    )
                clock.advance(OUTBOX.poll_s)
                assert await heard(stores) == [3]

    asyncio.run(played())


def test_a_redrive_wakes_the_publisher(tmp_path: Path) -> None:
    url = fresh_database(SHOP)
    clock = RunClock(tmp_path / "clock", start=NOON)

    async def played() -> None:
        async with stores_at(url, clock=clock) as stores:
            await prepared(stores)
            await announced(stores, "o-1", 1)
            with connected(url) as outside:
                outside.execute("UPDATE shop.outbox SET dead_at = created_at")
            async with WorkerGroup(stores, [SYSTEM.get_component("publisher")]):
                assert await OUTBOX.redrive(stores) == 1
                assert await heard(stores) == [1]

    asyncio.run(played())


def test_what_is_announced_by_a_transaction_that_is_undone_wakes_nobody(tmp_path: Path) -> None:
    url = fresh_database(SHOP)
    clock = RunClock(tmp_path / "clock", start=NOON)

    async def played() -> None:
        async with stores_at(url, clock=clock) as stores, OUTBOX.listen(stores) as notices:
            with pytest.raises(ConditionFailed):
                await stores.transact(*changed(stores, "o-1", 7)[::-1])
            await stores.transact(*changed(stores, "o-1", 0))
            assert await notices.wait(WAIT_S) == ""
            assert await notices.wait(0) is None

    asyncio.run(played())
