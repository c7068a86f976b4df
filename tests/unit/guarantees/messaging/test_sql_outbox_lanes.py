"""Lanes of `SqlOutbox` on a real PostgreSQL: wrong clocks, blocked rows, slow queues, the cost of a claim."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Stores
from holdfast.core.errors import StoreFailed
from holdfast.guarantees.messaging.relay import RelayReport
from holdfast.operations.queues import SendMessages
from tests.unit.guarantees.messaging.order_outbox import ManualClock, OrderChanged, receive_all, watch_queues
from tests.unit.guarantees.messaging.sql_shop import (
    OUTBOX,
    Outside,
    build_change,
    changes,
    invoices,
    notes,
    publish_changes,
)

YEARS_S = 10 * 365 * 86_400.0


async def enqueue_notes(stores: Stores, order_id: str, *versions: int) -> None:
    """Enqueue messages for an unordered queue, which sends all messages of an aggregate at once."""
    for version in versions:
        message = OrderChanged(order_id=order_id, version=version)
        await stores.transact(OUTBOX.enqueue(stores, order_id, message, queue=notes))


@pytest.mark.proves("PG-24")
async def test_sends_at_once_although_the_writers_clock_is_ahead(stores: Stores, clock: ManualClock) -> None:
    clock.moment += YEARS_S
    await publish_changes(stores, "o-1", 1)
    clock.moment -= YEARS_S
    assert (await OUTBOX.send_unsent(stores)).sent == 1


async def test_clock_that_was_years_ahead_delays_neither_retries_nor_claims(
    stores: Stores, clock: ManualClock
) -> None:
    queues = watch_queues(stores)
    clock.moment += YEARS_S
    queues.fail(StoreFailed("down"))
    await publish_changes(stores, "o-1", 1)
    assert (await OUTBOX.send_unsent(stores)).failed == 1
    await publish_changes(stores, "o-2", 1)
    async for _ in OUTBOX.open_storage(stores).claim(RelayReport()):
        pass  # the relay is killed
    clock.moment -= YEARS_S
    queues.recover()
    assert (await OUTBOX.send_unsent(stores)).sent == 2


@pytest.mark.proves("PG-X8")
@pytest.mark.parametrize(
    "blocked",
    ["dead_at = created_at", "retry_count = 1, next_attempt_at = created_at + interval '200 s'"],
    ids=["dead", "in its pause"],
)
async def test_claim_stops_at_a_dead_or_undue_row(blocked: str, stores: Stores, outside: Outside) -> None:
    await enqueue_notes(stores, "o-1", 1, 2, 3)
    outside.execute(f"UPDATE shop.outbox SET {blocked} WHERE sequence_number = 2".encode())
    assert (await OUTBOX.send_unsent(stores)).sent == 1
    assert (await OUTBOX.send_unsent(stores)).claimed == 0
    assert [each.message.version for each in await receive_all(stores, notes)] == [1]
    outside.execute("UPDATE shop.outbox SET dead_at = NULL, next_attempt_at = NULL")
    assert (await OUTBOX.send_unsent(stores)).sent == 2


@pytest.mark.proves("PG-X6")
async def test_deferred_rows_are_sent_in_order_once_unblocked(stores: Stores, outside: Outside) -> None:
    small = replace(OUTBOX, batch_size=2)
    await publish_changes(stores, "o-1", 30)
    outside.execute("UPDATE shop.outbox SET dead_at = created_at WHERE sequence_number = 1")
    while (await small.send_unsent(stores)).more:
        continue
    assert outside.execute("SELECT 1 FROM shop.outbox WHERE is_behind").rowcount == 29
    await publish_changes(stores, "o-2", 1)
    assert (await small.send_unsent(stores)).sent == 1  # other aggregates do not wait for them
    assert await OUTBOX.redrive(stores) == 1
    while (await small.send_unsent(stores)).more:
        continue
    versions = [each.message.version for each in await receive_all(stores, changes) if each.group == "o-1"]
    assert versions == list(range(1, 31))


def count_claim_blocks(outside: Outside, clock: ManualClock) -> int:
    """Count the pages that a claim reads and writes."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    claim = OUTBOX.pattern_set.claim("me", now, now, now + timedelta(hours=1), OUTBOX.batch_size)
    asked = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {claim.text}"
    with outside.transaction(force_rollback=True):
        found = outside.execute(
            asked.encode(), {**claim.parameters, "queues": ["shop-changes", "shop-notes"]}
        )
        [described] = found.fetchall()
    [plan] = described["QUERY PLAN"]
    assert "Seq Scan" not in str(plan)
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])


@pytest.mark.proves("PG-X8")
async def test_round_costs_the_same_however_many_rows_a_dead_one_blocks(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    """Once the blocked rows are set aside, a claim touches few pages, however many they are."""
    blocked, processed = 20_000, 100_000

    columns = (
        "(queue_name, message_body, aggregate, created_at, sequence_number, processed, processed_at, dead_at)"
    )
    outside.execute(
        f"INSERT INTO shop.outbox {columns} SELECT 'shop-changes', '{{}}', 'old-' || n, 'epoch', 1, "
        "TRUE, 'epoch', NULL "
        f"FROM generate_series(1, {processed}) AS n".encode()
    )
    outside.execute(
        f"INSERT INTO shop.outbox {columns} SELECT 'shop-changes', '{{}}', 'bad', 'epoch', n, FALSE, "
        "NULL, "
        f"CASE n WHEN 1 THEN timestamptz 'epoch' END FROM generate_series(1, {blocked}) AS n".encode()
    )
    outside.execute("VACUUM ANALYZE shop.outbox")
    # Each row is examined once, a few per round, and then never again.
    assert count_claim_blocks(outside, clock) < blocked / 4
    large = replace(OUTBOX, batch_size=1000)
    while (await large.send_unsent(stores)).more:
        continue
    await publish_changes(stores, "o-1", 1)
    assert count_claim_blocks(outside, clock) < blocked / 40
    assert (await OUTBOX.send_unsent(stores)).sent == 1


@pytest.mark.proves("PG-X6")
async def test_hanging_queue_causes_no_double_send_to_another_queue(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    hangs, sent = asyncio.Event(), list[str]()

    async def before(send: SendMessages) -> None:
        sent.append(send.queue)
        if "invoices" in send.queue:
            hangs.set()
            await asyncio.Event().wait()

    def processed() -> int:
        return outside.execute("SELECT 1 FROM shop.outbox WHERE processed").rowcount

    # A send may take a quarter of the claim: the hanging one is abandoned by then.
    hasty = replace(OUTBOX, lease_s=4.0)
    await publish_changes(stores, "o-1", 2)
    await stores.transact(*build_change(stores, "o-2", 0, queue=invoices))
    watch_queues(stores).before = before
    first = asyncio.create_task(hasty.send_unsent(stores))
    await hangs.wait()
    while processed() < 2:  # marked as sent while the other still hangs
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


def read_counters(outside: Outside) -> list[str]:
    """Return the aggregates that have a counter."""
    found = outside.execute("SELECT aggregate FROM shop.outbox_counter ORDER BY aggregate")
    return [row["aggregate"] for row in found]


async def test_deletes_counters_of_idle_aggregates_without_pending_rows(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    await publish_changes(stores, "idle", 2)
    await OUTBOX.send_unsent(stores)
    await publish_changes(stores, "waiting", 1)
    clock.moment += 86_400
    await publish_changes(stores, "busy", 1)
    assert await OUTBOX.sweep_counters(stores, timedelta(days=2)) == 0
    with outside.transaction():
        outside.execute("SELECT 1 FROM shop.outbox_counter WHERE aggregate = 'idle' FOR UPDATE")
        # The enqueuing transaction holds the counter.
        assert await OUTBOX.sweep_counters(stores, timedelta(hours=1)) == 0
    assert await OUTBOX.sweep_counters(stores, timedelta(hours=1)) == 1
    assert read_counters(outside) == ["busy", "waiting"]
    await stores.transact(*build_change(stores, "idle", 2))
    await OUTBOX.send_unsent(stores)
    idle = [each.message.version for each in await receive_all(stores, changes) if each.group == "idle"]
    assert idle == [1, 2, 3]
