"""What only `SqlOutbox` has, on a real PostgreSQL: rows, claims, several queues, statements."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Rate, Stores
from holdfast.core.errors import (
    ConditionFailed,
    DeclarationError,
    InvalidRequest,
    SendIncomplete,
    StoreFailed,
)
from holdfast.guarantees import SqlOutbox, outbox_ddl
from holdfast.guarantees.messaging.relay import RelayReport
from holdfast.model.queues import MAX_BATCH
from holdfast.model.sql import SqlChange
from holdfast.operations.queues import SendMessages
from holdfast.runtime.sql_checks import check_statements
from tests.unit.guarantees.messaging.order_outbox import ManualClock, OrderChanged, receive_all, watch_queues
from tests.unit.guarantees.messaging.sql_shop import (
    INBOX,
    OUTBOX,
    SHOP,
    Outside,
    build_change,
    change,
    changes,
    invoices,
    notes,
    order,
    publish_changes,
    wait_for_a_blocked_query,
)


def read_rows(outside: Outside) -> list[dict[str, Any]]:
    """Return all rows of the outbox, by id."""
    return outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall()


async def receive_versions(stores: Stores, order_id: str) -> list[int]:
    """Receive the versions of an order, in the order of the queue."""
    return [
        each.message.version
        for each in await receive_all(stores, changes)
        if each.message.order_id == order_id
    ]


@pytest.mark.proves("PG-2")
@pytest.mark.proves("PG-15")
@pytest.mark.proves("PG-23")
@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X9")
async def test_commits_a_change_and_its_row_together_and_marks_the_row_when_it_is_sent(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    await stores.transact(*build_change(stores, "o-1", 0))
    with pytest.raises(ConditionFailed):
        await stores.transact(*build_change(stores, "o-1", 7))
    seen = await stores.run(order("o-1"))
    assert seen is not None
    assert seen.version == 1
    [row] = read_rows(outside)
    assert (row["queue_name"], row["aggregate"], row["sequence_number"]) == ("shop-changes", "o-1", 1)
    assert row["message_body"] == '{"order_id":"o-1","version":1,"note":""}'
    assert (row["processed"], row["retry_count"], row["last_error"]) == (False, 0, None)
    assert row["created_at"].timestamp() == clock.now()
    clock.moment += 5
    assert await OUTBOX.send_unsent(stores) == RelayReport(claimed=1, sent=1)
    [message] = await receive_all(stores, changes)
    [row] = read_rows(outside)
    assert message.announcement_id.startswith(f"shop_outbox-{row['id']}-")
    assert (row["processed"], row["processed_at"].timestamp()) == (True, clock.now())
    assert (row["claimed_by"], row["claimed_until"]) == (None, None)


@pytest.mark.proves("PG-X9")
async def test_numbers_messages_in_commit_order_without_gaps(stores: Stores, outside: Outside) -> None:
    def message(version: int) -> Any:
        return OUTBOX.enqueue(stores, "o-1", OrderChanged(order_id="o-1", version=version), queue=changes)

    async with stores.sql_transaction() as first:
        await first.run(message(1))
        second = asyncio.create_task(stores.transact(message(2)))
        await wait_for_a_blocked_query(outside)
        assert not second.done()
    await second
    with pytest.raises(ConditionFailed):
        await stores.transact(message(-1), change("o-1", 7))
    await stores.transact(message(3), message(4))
    assert [row["sequence_number"] for row in read_rows(outside)] == [1, 2, 3, 4]
    await OUTBOX.send_unsent(stores)
    assert await receive_versions(stores, "o-1") == [1, 2, 3, 4]


async def test_rejects_a_message_without_an_aggregate_or_for_an_undeclared_queue(stores: Stores) -> None:
    message = OrderChanged(order_id="o-1", version=1)
    with pytest.raises(InvalidRequest, match="needs an aggregate"):
        OUTBOX.enqueue(stores, "", message, queue=changes)
    with pytest.raises(InvalidRequest, match="Invalid queue shop-notes"):
        replace(OUTBOX, queues=(changes,)).enqueue(stores, "o-1", message, queue=notes)


@pytest.mark.proves("PG-25")
async def test_relay_claims_a_batch_and_sends_it_in_tens(stores: Stores) -> None:
    sizes: list[int] = []

    async def before(send: SendMessages) -> None:
        sizes.append(len(send.messages))

    for number in range(30):
        await stores.transact(
            *build_change(stores, f"o-{number}", 0),
            *build_change(stores, f"p-{number}", 0, queue=invoices),
        )
    watch_queues(stores).before = before
    reports = [await OUTBOX.send_unsent(stores) for _ in range(4)]
    assert [(each.claimed, each.sent, each.more) for each in reports] == [
        (25, 25, True),
        (25, 25, True),
        (10, 10, False),
        (0, 0, False),
    ]
    assert max(sizes) <= MAX_BATCH
    assert len(sizes) == 4 + 4 + 2
    assert len(await receive_all(stores, changes)) == len(await receive_all(stores, invoices)) == 30


@pytest.mark.proves("PG-X7")
async def test_holds_no_transaction_and_no_row_lock_while_sending(stores: Stores, outside: Outside) -> None:
    sends = 0

    async def before(send: SendMessages) -> None:
        nonlocal sends
        sends += 1
        asked = (
            "SELECT count(*) AS open FROM pg_stat_activity WHERE datname = current_database() "
            "AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        )
        assert outside.execute(asked).fetchone() == {"open": 0}
        assert outside.execute("SELECT 1 FROM shop.outbox FOR UPDATE NOWAIT").rowcount == 4

    await publish_changes(stores, "o-1", 2)
    await publish_changes(stores, "o-2", 2)
    watch_queues(stores).before = before
    assert (await OUTBOX.send_unsent(stores)).sent == 4
    assert sends == 2


async def test_sends_ten_at_once_to_an_unordered_queue(stores: Stores) -> None:
    sizes: list[int] = []

    async def before(send: SendMessages) -> None:
        sizes.append(len(send.messages))

    await stores.transact(
        *[
            OUTBOX.enqueue(stores, "o-1", OrderChanged(order_id="o-1", version=version), queue=notes)
            for version in range(12)
        ]
    )
    watch_queues(stores).before = before
    assert (await OUTBOX.send_unsent(stores)).sent == 12
    assert sorted(sizes) == [2, 10]
    messages = await receive_all(stores, notes)
    assert len({each.announcement_id for each in messages}) == 12


async def test_splits_large_messages_over_several_requests(stores: Stores) -> None:
    for number in range(3):
        note = OrderChanged(order_id=f"o-{number}", version=1, note="x" * 500_000)
        await stores.transact(OUTBOX.enqueue(stores, note.order_id, note, queue=changes))
    assert await OUTBOX.send_unsent(stores) == RelayReport(claimed=3, sent=3)


async def test_leaves_rows_of_an_unknown_queue_to_another_relay(stores: Stores) -> None:
    older = replace(OUTBOX, queues=(invoices,))
    await publish_changes(stores, "o-1", 1)
    assert (await older.send_unsent(stores)).claimed == 0
    assert (await OUTBOX.send_unsent(stores)).sent == 1


@pytest.mark.proves("PG-X6")
async def test_relay_that_lost_its_claim_changes_nothing(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    others: list[RelayReport] = []

    async def before(send: SendMessages) -> None:
        """Delay the first send until another relay takes over and fails to send."""
        if not others:
            others.append(RelayReport())
            clock.moment += OUTBOX.lease_s + 1
            others.append(await OUTBOX.send_unsent(stores))
        elif len(others) == 1:
            raise StoreFailed("the queue is down")

    await publish_changes(stores, "o-1", 2)
    watch_queues(stores).before = before
    late = await OUTBOX.send_unsent(stores)
    assert (others[1].claimed, others[1].failed) == (2, 1)
    # It sent the first and not the second, because its claim had expired.
    assert (late.claimed, late.more) == (2, True)
    first, second = read_rows(outside)
    assert (first["processed"], first["retry_count"], first["last_error"]) == (
        False,
        1,
        "StoreFailed: the queue is down",
    )
    assert (second["processed"], second["claimed_by"]) == (False, None)
    clock.moment += 1
    assert (await OUTBOX.send_unsent(stores)).sent == 2
    assert await receive_versions(stores, "o-1") == [1, 2]


@pytest.mark.proves("PG-X6")
async def test_does_not_count_the_failure_of_a_relay_that_lost_its_claim(
    stores: Stores, outside: Outside
) -> None:
    async def before(send: SendMessages) -> None:
        """Let another relay claim the row, which is about to send it."""
        outside.execute("UPDATE shop.outbox SET claimed_by = 'another'")
        raise StoreFailed("the queue is down")

    await publish_changes(stores, "o-1", 1)
    watch_queues(stores).before = before
    assert await OUTBOX.send_unsent(stores) == RelayReport(claimed=1)
    [row] = read_rows(outside)
    assert (row["claimed_by"], row["retry_count"], row["last_error"]) == ("another", 0, None)


@pytest.mark.proves("PG-X6")
async def test_skips_a_locked_row_without_waiting(stores: Stores, outside: Outside) -> None:
    await publish_changes(stores, "o-1", 2)
    await publish_changes(stores, "o-2", 2)
    with outside.transaction():
        outside.execute("SELECT 1 FROM shop.outbox WHERE aggregate = 'o-1' ORDER BY id LIMIT 1 FOR UPDATE")
        assert (await OUTBOX.send_unsent(stores)).sent == 2
    assert {each.aggregate for each in await OUTBOX.list_unsent(stores)} == {"o-1"}
    assert (await OUTBOX.send_unsent(stores)).sent == 2


async def test_repeated_claim_after_a_lost_response_returns_the_same_rows(
    stores: Stores, clock: ManualClock
) -> None:
    await publish_changes(stores, "o-1", 2)
    now = datetime.fromtimestamp(clock.now(), UTC)
    claim = OUTBOX.pattern_set.claim("me", now, now + timedelta(seconds=30), now + timedelta(hours=1), 25)
    first, again = await stores.run(claim), await stores.run(claim)
    assert sorted(row.id for row in first) == sorted(row.id for row in again)
    assert len(first) == 2
    assert claim.is_idempotent


async def test_resends_only_the_rest_of_a_partly_accepted_batch(stores: Stores, clock: ManualClock) -> None:
    taken: list[str] = []
    is_whole = False

    async def before(send: SendMessages) -> None:
        taken.extend(str(each.group) for each in send.messages[0 if is_whole else 1 :])
        if not is_whole:
            raise SendIncomplete("one was not taken", [0])

    for number in range(3):
        await publish_changes(stores, f"o-{number}", 1)
    watch_queues(stores).before = before
    report = await OUTBOX.send_unsent(stores)
    assert (report.sent, report.failed) == (2, 1)
    is_whole = True
    clock.moment += 1
    assert (await OUTBOX.send_unsent(stores)).sent == 1
    assert taken == ["o-1", "o-2", "o-0"]


async def test_failing_queue_does_not_block_other_queues(stores: Stores) -> None:
    async def before(send: SendMessages) -> None:
        if "invoices" in send.queue:
            raise StoreFailed("the queue is down")

    await stores.transact(*build_change(stores, "o-1", 0, queue=invoices))
    await stores.transact(*build_change(stores, "o-1", 1))
    watch_queues(stores).before = before
    report = await OUTBOX.send_unsent(stores)
    assert (report.sent, report.failed) == (1, 1)
    assert await receive_versions(stores, "o-1") == [2]


async def test_round_without_work_is_one_statement(stores: Stores) -> None:
    with stores.meter_usage() as meter:
        await OUTBOX.send_unsent(stores)
    assert [(each.pattern, each.store, each.operation) for each in meter.usages] == [("OB2", "sql", "UPDATE")]


async def test_discarded_row_keeps_its_error_until_it_is_swept(stores: Stores, outside: Outside) -> None:
    await publish_changes(stores, "o-1", 1)
    outside.execute("UPDATE shop.outbox SET dead_at = created_at, last_error = 'StoreFailed: down'")
    [dead] = await OUTBOX.list_unsent(stores)
    assert await OUTBOX.discard(stores, [dead.id]) == 1
    [row] = read_rows(outside)
    assert (row["processed"], row["last_error"]) == (True, "Discarded. StoreFailed: down")


async def test_backlog_reports_count_and_age_per_queue(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    assert await OUTBOX.backlog(stores) == ()
    await publish_changes(stores, "o-1", 2)
    clock.moment += 60
    await stores.transact(*build_change(stores, "p-1", 0, queue=invoices))
    outside.execute("UPDATE shop.outbox SET dead_at = created_at WHERE sequence_number = 2")
    clock.moment += 5
    backlog = [
        (each.queue_name, each.pending, each.dead, each.oldest_age_s(clock.now()))
        for each in await OUTBOX.backlog(stores)
    ]
    assert backlog == [("shop-changes", 1, 1, 65.0), ("shop-invoices", 1, 0, 5.0)]


async def test_sweep_deletes_old_sent_rows_and_numbering_continues(
    stores: Stores, clock: ManualClock, outside: Outside
) -> None:
    await publish_changes(stores, "o-1", 2)
    await OUTBOX.send_unsent(stores)
    await publish_changes(stores, "o-2", 1)
    clock.moment += 86_400
    assert await OUTBOX.sweep(stores, timedelta(days=2)) == 0
    assert await OUTBOX.sweep(stores, timedelta(hours=1)) == 2
    await stores.transact(*build_change(stores, "o-1", 2))
    assert [(row["aggregate"], row["sequence_number"]) for row in read_rows(outside)] == [
        ("o-2", 1),
        ("o-1", 3),
    ]


@pytest.mark.proves("PG-16")
@pytest.mark.proves("PG-X10")
async def test_finds_pending_rows_by_a_partial_index(stores: Stores, outside: Outside) -> None:
    """The plan of a claim uses the index of ready rows and no sequential scan."""
    await publish_changes(stores, "o-1", 1)
    outside.execute(
        "INSERT INTO shop.outbox (queue_name, message_body, processed, processed_at, created_at, "
        "next_attempt_at, aggregate, sequence_number) SELECT 'shop-changes', '{}', TRUE, created_at, "
        "created_at, created_at, 'old-' || number, 1 FROM shop.outbox, generate_series(1, 20000) AS "
        "number"
    )
    outside.execute("VACUUM ANALYZE shop.outbox")
    found = outside.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'outbox_unprocessed'")
    assert found.fetchall() == [
        {
            "indexdef": (
                "CREATE INDEX outbox_unprocessed ON shop.outbox USING btree (id) WHERE (NOT processed)"
            )
        }
    ]
    claim = OUTBOX.pattern_set.claim.build_example()
    plan = outside.execute(f"EXPLAIN {claim.text}".encode(), {**claim.parameters, "queues": ["shop-changes"]})
    described = "\n".join(line["QUERY PLAN"] for line in plan)
    assert "Seq Scan" not in described
    assert "outbox_ready" in described


async def test_statements_return_the_columns_of_their_row_types(stores: Stores) -> None:
    assert await check_statements(stores, (*OUTBOX.patterns, *INBOX.patterns)) == []


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"queues": ()}, "Invalid queues of outbox .*: none"),
        ({"queues": (changes, changes)}, "each once"),
        ({"table": "Outbox; DROP"}, "Invalid table name"),
        ({"table": "o" * 60}, "over 63 characters"),
    ],
)
def test_rejects_an_invalid_outbox(declared: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        SqlOutbox(SHOP, **{"queues": (changes,), "prefix": "OB", "rate": Rate("order"), **declared})


def test_rejects_invalid_names_in_statements() -> None:
    with pytest.raises(DeclarationError, match="Invalid table name"):
        outbox_ddl("shop", "outbox; drop table x")


async def test_messages_of_one_write_get_the_next_numbers_in_their_order(stores: Stores) -> None:
    def build(*versions: int) -> SqlChange:
        messages = [(OrderChanged(order_id="o-1", version=each), changes) for each in versions]
        return OUTBOX.enqueue_all(stores, "o-1", *messages)

    await stores.transact(build(1, 2, 3))
    await stores.transact(build(4, 5))
    assert (await OUTBOX.send_unsent(stores)).sent == 5
    assert [each.message.version for each in await receive_all(stores, changes)] == [1, 2, 3, 4, 5]
