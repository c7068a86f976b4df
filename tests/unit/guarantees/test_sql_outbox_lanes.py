"""Lanes of an outbox in SQL: what is due whatever the clocks say, what waits behind what, and what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast import Stores
from holdfast.core.errors import StoreFailed
from holdfast.operations.queues import SendMessages
from tests.postgres import connected, fresh_database
from tests.unit.guarantees.announcing import Hand
from tests.unit.guarantees.sql_announcing import (
    OUTBOX,
    SHOP,
    OrderChanged,
    announced,
    changed,
    invoices,
    notes,
    prepared,
    received,
    stores_at,
    watch,
)

Outside = psycopg.Connection[dict[str, Any]]
Story = Callable[[Stores, Hand, Outside, str], Awaitable[None]]

YEARS_S = 10 * 365 * 86_400.0


def told(story: Story) -> None:
    url, clock = fresh_database(SHOP), Hand()

    async def played() -> None:
        with connected(url) as outside:
            outside.row_factory = dict_row
            async with stores_at(url, clock=clock) as stores:
                await prepared(stores)
                await story(stores, clock, outside, url)

    asyncio.run(played())


async def noted(stores: Stores, order_id: str, *versions: int) -> None:
    """For a queue without an order, where all of an aggregate are sent at once."""
    for version in versions:
        message = OrderChanged(order_id=order_id, version=version)
        await stores.transact(OUTBOX.enqueue(stores, order_id, notes, message))


# --- clocks -------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-24")
def test_what_a_writer_whose_clock_is_ahead_has_committed_is_sent_at_once() -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        ahead = Hand()
        ahead.moment = clock.moment + YEARS_S
        async with stores_at(url, clock=ahead) as writer:
            await writer.transact(*changed(writer, "o-1", 0))
        assert (await OUTBOX.publish(stores)).sent == 1

    told(story)


def test_a_clock_that_was_years_ahead_parks_neither_a_failure_nor_a_claim() -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        class Killed(BaseException):
            pass

        async def before(send: SendMessages) -> None:
            raise Killed if any(each.group == "o-2" for each in send.messages) else StoreFailed("down")

        queues, right = stores.engines, clock.moment
        clock.moment += YEARS_S
        watch(stores, before)
        await announced(stores, "o-1", 1)
        assert (await OUTBOX.publish(stores)).failed == 1
        await announced(stores, "o-2", 1)
        with pytest.raises(Killed):
            await OUTBOX.publish(stores)
        stores.engines, clock.moment = queues, right
        assert (await OUTBOX.publish(stores)).sent == 2

    told(story)


# --- what waits behind what ---------------------------------------------------------------------------------


@pytest.mark.proves("PG-X8")
@pytest.mark.parametrize(
    "blocked",
    ["dead_at = created_at", "retry_count = 1, next_attempt_at = created_at + interval '200 s'"],
    ids=["dead", "in its pause"],
)
def test_nothing_is_taken_along_from_one_that_is_dead_or_not_due_on(blocked: str) -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        await noted(stores, "o-1", 1, 2, 3)
        outside.execute(f"UPDATE shop.outbox SET {blocked} WHERE sequence_number = 2".encode())
        assert (await OUTBOX.publish(stores)).sent == 1
        assert (await OUTBOX.publish(stores)).claimed == 0
        assert [each.message.version for each in await received(stores, notes)] == [1]
        outside.execute("UPDATE shop.outbox SET dead_at = NULL, next_attempt_at = NULL")
        assert (await OUTBOX.publish(stores)).sent == 2

    told(story)


def test_a_redrive_by_id_or_by_queue_lets_no_other_go() -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        await noted(stores, "o-1", 1, 2)
        await stores.transact(*changed(stores, "o-2", 0))
        outside.execute("UPDATE shop.outbox SET dead_at = created_at")
        first, second, _ = await OUTBOX.list_unsent(stores)
        assert await OUTBOX.redrive(stores, ids=[int(first.id)]) == 1
        assert (await OUTBOX.publish(stores)).sent == 1
        assert await OUTBOX.redrive(stores, queue="shop-changes") == 1
        assert (await OUTBOX.publish(stores)).sent == 1
        assert [each.id for each in await OUTBOX.list_unsent(stores)] == [second.id]

    told(story)


@pytest.mark.proves("PG-X6")
def test_rows_that_were_set_aside_go_out_in_order_once_their_turn_comes() -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        small = replace(OUTBOX, batch=2)
        await announced(stores, "o-1", 30)
        outside.execute("UPDATE shop.outbox SET dead_at = created_at WHERE sequence_number = 1")
        while (await small.publish(stores)).more:
            continue
        assert outside.execute("SELECT 1 FROM shop.outbox WHERE is_behind").rowcount == 29
        await announced(stores, "o-2", 1)
        assert (await small.publish(stores)).sent == 1  # nobody else waits for them
        assert await OUTBOX.redrive(stores) == 1
        while (await small.publish(stores)).more:
            continue
        versions = [each.message.version for each in await received(stores) if each.group == "o-1"]
        assert versions == list(range(1, 31))

    told(story)


# --- what it costs ------------------------------------------------------------------------------------------


def blocks_of_a_claim(outside: Outside, clock: Hand) -> int:
    """The pages that a claim reads and writes."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    claim = OUTBOX.pattern_set.claim("me", now, now, now + timedelta(hours=1), OUTBOX.batch)
    asked = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {claim.text}"
    with outside.transaction(force_rollback=True):
        found = outside.execute(
            asked.encode(), {**claim.parameters, "queues": ["shop-changes", "shop-notes"]}
        )
        [described] = found.fetchall()
    [told] = described["QUERY PLAN"]
    assert "Seq Scan" not in str(told)
    return int(told["Plan"]["Shared Hit Blocks"]) + int(told["Plan"]["Shared Read Blocks"])


@pytest.mark.proves("PG-X8")
def test_a_round_costs_the_same_however_many_wait_behind_a_dead_one() -> None:
    blocked, processed = 20_000, 100_000

    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        columns = "(queue_name, message_body, aggregate, created_at, sequence_number, processed, processed_at, dead_at)"
        outside.execute(
            f"INSERT INTO shop.outbox {columns} SELECT 'shop-changes', '{{}}', 'old-' || n, 'epoch', 1, TRUE, 'epoch', NULL "
            f"FROM generate_series(1, {processed}) AS n".encode()
        )
        outside.execute(
            f"INSERT INTO shop.outbox {columns} SELECT 'shop-changes', '{{}}', 'bad', 'epoch', n, FALSE, NULL, "
            f"CASE n WHEN 1 THEN timestamptz 'epoch' END FROM generate_series(1, {blocked}) AS n".encode()
        )
        outside.execute("VACUUM ANALYZE shop.outbox")
        # Each is looked at once, a few in a round, and then never again.
        assert blocks_of_a_claim(outside, clock) < blocked / 4
        large = replace(OUTBOX, batch=1000)
        while (await large.publish(stores)).more:
            continue
        await announced(stores, "o-1", 1)
        assert blocks_of_a_claim(outside, clock) < blocked / 40
        assert (await OUTBOX.publish(stores)).sent == 1

    told(story)


# --- slow queues --------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-X6")
def test_a_queue_that_does_not_answer_lets_nobody_send_twice_what_another_queue_has() -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        hangs, sent = asyncio.Event(), list[str]()

        async def before(send: SendMessages) -> None:
            sent.append(send.queue)
            if "invoices" in send.queue:
                hangs.set()
                await asyncio.Event().wait()

        def processed() -> int:
            return outside.execute("SELECT 1 FROM shop.outbox WHERE processed").rowcount

        # A quarter of it is what an answer may take: the one that hangs is given up by then.
        hasty = replace(OUTBOX, lease_s=4.0)
        await announced(stores, "o-1", 2)
        await stores.transact(*changed(stores, "o-2", 0, queue=invoices))
        watch(stores, before)
        first = asyncio.create_task(hasty.publish(stores))
        await hangs.wait()
        while processed() < 2:  # marked while the other still hangs
            assert not first.done()
            await asyncio.sleep(0)
        clock.moment += hasty.lease_s / 2
        report = await first
        assert (report.claimed, report.sent, report.failed) == (3, 2, 1)
        [row] = outside.execute("SELECT last_error FROM shop.outbox WHERE NOT processed").fetchall()
        assert row["last_error"] == "OutcomeUnknown: The queue gave no answer within 1 s."
        assert sorted(each.partition("shop-")[2].split(".")[0] for each in sent) == [
            "changes",
            "changes",
            "invoices",
        ]

    told(story)


# --- counters -----------------------------------------------------------------------------------------------


def counters(outside: Outside) -> list[str]:
    found = outside.execute("SELECT aggregate FROM shop.outbox_counter ORDER BY aggregate")
    return [row["aggregate"] for row in found]


def test_counters_go_whose_aggregates_are_idle_and_have_nothing_waiting() -> None:
    async def story(stores: Stores, clock: Hand, outside: Outside, url: str) -> None:
        await announced(stores, "idle", 2)
        await OUTBOX.publish(stores)
        await announced(stores, "waiting", 1)
        clock.moment += 86_400
        await announced(stores, "busy", 1)
        assert await OUTBOX.sweep_counters(stores, timedelta(days=2)) == 0
        with outside.transaction():
            outside.execute("SELECT 1 FROM shop.outbox_counter WHERE aggregate = 'idle' FOR UPDATE")
            # Whoever announces has it in hand.
            assert await OUTBOX.sweep_counters(stores, timedelta(hours=1)) == 0
        assert await OUTBOX.sweep_counters(stores, timedelta(hours=1)) == 1
        assert counters(outside) == ["busy", "waiting"]
        await stores.transact(*changed(stores, "idle", 2))
        await OUTBOX.publish(stores)
        idle = [each.message.version for each in await received(stores) if each.group == "idle"]
        assert idle == [1, 2, 3]

    told(story)
