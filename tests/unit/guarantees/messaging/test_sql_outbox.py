"""`SqlOutbox` on a real PostgreSQL and in-memory queues: rows, order, several publishers, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast import Rate, Stores
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import (
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    InvalidRequest,
    SendIncomplete,
    StoreFailed,
)
from holdfast.guarantees import OutboxStatus, SqlOutbox, outbox_ddl
from holdfast.guarantees.messaging.sql_outbox import PublishReport
from holdfast.model.queues import MAX_BATCH
from holdfast.operations.queues import SendMessages
from holdfast.runtime.sql_checks import check_statements
from tests.postgres import connect, create_database
from tests.unit.guarantees.messaging.order_outbox import ManualClock
from tests.unit.guarantees.messaging.sql_shop import (
    INBOX,
    OUTBOX,
    SHOP,
    OrderChanged,
    build_change,
    change,
    changes,
    create_shop_queues,
    invoices,
    notes,
    open_shop_stores,
    order,
    publish_changes,
    receive_all,
    watch_sends,
)

Story = Callable[[Stores, ManualClock, psycopg.Connection[Any]], Awaitable[None]]


def run_story(story: Story) -> None:
    """Run a story on an empty shop; `outside` is a second connection for checks."""

    url, clock = create_database(SHOP), ManualClock()

    async def run() -> None:
        with connect(url) as outside:
            outside.row_factory = dict_row
            async with open_shop_stores(url, clock=clock) as stores:
                await create_shop_queues(stores)
                await story(stores, clock, outside)

    asyncio.run(run())


def read_rows(outside: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """Return all rows of the outbox, by id."""
    return outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall()


async def receive_versions(stores: Stores, order_id: str) -> list[int]:
    """Receive the versions of an order, in the order of the queue."""
    return [each.message.version for each in await receive_all(stores) if each.message.order_id == order_id]


# --- enqueue ------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-2")
@pytest.mark.proves("PG-15")
@pytest.mark.proves("PG-23")
def test_commits_a_change_and_its_message_together() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
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

    run_story(story)


@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X9")
def test_sends_committed_messages_once_with_group_identity_and_correlation() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        with bind_correlation_id("c-1"):
            await stores.transact(*build_change(stores, "o-1", 0))
        clock.moment += 5
        assert await OUTBOX.publish(stores) == PublishReport(claimed=1, sent=1)
        assert await OUTBOX.publish(stores) == PublishReport()
        [message] = await receive_all(stores)
        [row] = read_rows(outside)
        assert message.message == OrderChanged(order_id="o-1", version=1)
        assert (message.group, message.correlation_id) == ("o-1", "c-1")
        assert message.announcement_id == message.incoming.deduplication
        assert message.announcement_id.startswith(f"shop_outbox-{row['id']}-")
        assert (row["processed"], row["processed_at"].timestamp()) == (True, clock.now())
        assert (row["claimed_by"], row["claimed_until"]) == (None, None)

    run_story(story)


@pytest.mark.proves("PG-X9")
def test_numbers_messages_in_commit_order_without_gaps() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        def message(version: int) -> Any:
            return OUTBOX.enqueue(stores, "o-1", changes, OrderChanged(order_id="o-1", version=version))

        async with stores.sql_transaction() as first:
            await first.run(message(1))
            second = asyncio.create_task(stores.transact(message(2)))
            await _wait_for_a_blocked_query(outside)
            assert not second.done()
        await second
        with pytest.raises(ConditionFailed):
            await stores.transact(message(-1), change("o-1", 7))
        await stores.transact(message(3), message(4))
        assert [row["sequence_number"] for row in read_rows(outside)] == [1, 2, 3, 4]
        await OUTBOX.publish(stores)
        assert await receive_versions(stores, "o-1") == [1, 2, 3, 4]

    run_story(story)


async def _wait_for_a_blocked_query(outside: psycopg.Connection[Any]) -> None:
    """Wait until a statement of another connection waits for a lock."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not outside.execute(asked).fetchone():
        await asyncio.sleep(0)


def test_rejects_a_message_that_its_queue_would_refuse_before_the_change() -> None:
    """Also one without an aggregate, or for a queue that the outbox does not have."""

    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        large = OrderChanged(order_id="o-1", version=1, note="x" * 2_000_000)
        with pytest.raises(InvalidRequest, match="bytes are too many"):
            OUTBOX.enqueue(stores, "o-1", changes, large)
        with pytest.raises(InvalidRequest, match="needs an aggregate"):
            OUTBOX.enqueue(stores, "", changes, OrderChanged(order_id="o-1", version=1))
        other = SqlOutbox(SHOP, queues=(changes,), prefix="X", rate=Rate("order"))
        with pytest.raises(InvalidRequest, match="Invalid queue shop-notes"):
            other.enqueue(stores, "o-1", notes, OrderChanged(order_id="o-1", version=1))

    run_story(story)


# --- order --------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-25")
def test_publisher_claims_a_batch_and_sends_it_in_tens() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        sizes: list[int] = []

        async def before(send: SendMessages) -> None:
            sizes.append(len(send.messages))

        for number in range(30):
            await stores.transact(
                *build_change(stores, f"o-{number}", 0),
                *build_change(stores, f"p-{number}", 0, queue=invoices),
            )
        watch_sends(stores, before)
        reports = [await OUTBOX.publish(stores) for _ in range(4)]
        assert [(each.claimed, each.sent, each.more) for each in reports] == [
            (25, 25, True),
            (25, 25, True),
            (10, 10, False),
            (0, 0, False),
        ]
        assert max(sizes) <= MAX_BATCH
        assert len(sizes) == 4 + 4 + 2
        assert len(await receive_all(stores)) == len(await receive_all(stores, invoices)) == 30

    run_story(story)


@pytest.mark.proves("PG-X7")
def test_holds_no_transaction_and_no_row_lock_while_sending() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
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
        watch_sends(stores, before)
        assert (await OUTBOX.publish(stores)).sent == 4
        assert sends == 2

    run_story(story)


def test_sends_the_messages_of_an_aggregate_one_after_another() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        sent: list[list[str]] = []

        async def before(send: SendMessages) -> None:
            sent.append([str(each.group) for each in send.messages])

        await publish_changes(stores, "o-1", 3)
        await publish_changes(stores, "o-2", 2)
        watch_sends(stores, before)
        assert (await OUTBOX.publish(stores)).sent == 5
        assert sent == [["o-1", "o-2"], ["o-1", "o-2"], ["o-1"]]
        assert await receive_versions(stores, "o-1") == [1, 2, 3]

    run_story(story)


def test_sends_ten_at_once_to_an_unordered_queue() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        sizes: list[int] = []

        async def before(send: SendMessages) -> None:
            sizes.append(len(send.messages))

        await stores.transact(
            *[
                OUTBOX.enqueue(stores, "o-1", notes, OrderChanged(order_id="o-1", version=version))
                for version in range(12)
            ]
        )
        watch_sends(stores, before)
        assert (await OUTBOX.publish(stores)).sent == 12
        assert sorted(sizes) == [2, 10]
        messages = await receive_all(stores, notes)
        assert len({each.announcement_id for each in messages}) == 12

    run_story(story)


def test_splits_large_messages_over_several_requests() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        for number in range(3):
            note = OrderChanged(order_id=f"o-{number}", version=1, note="x" * 500_000)
            await stores.transact(OUTBOX.enqueue(stores, note.order_id, changes, note))
        assert await OUTBOX.publish(stores) == PublishReport(claimed=3, sent=3)

    run_story(story)


def test_leaves_rows_of_an_unknown_queue_to_another_publisher() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        older = SqlOutbox(SHOP, queues=(invoices,), prefix="OLD", rate=Rate("order"))
        await publish_changes(stores, "o-1", 1)
        assert (await older.publish(stores)).claimed == 0
        assert (await OUTBOX.publish(stores)).sent == 1

    run_story(story)


# --- several publishers -------------------------------------------------------------------------------------


@pytest.mark.proves("PG-X6")
def test_concurrent_publishers_send_nothing_twice_and_keep_the_order() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        sent: list[tuple[str, int]] = []

        async def before(send: SendMessages) -> None:
            read = [OrderChanged.model_validate_json(each.body) for each in send.messages]
            sent.extend((each.order_id, each.version) for each in read)
            await asyncio.sleep(0)

        for number in range(8):
            await publish_changes(stores, f"o-{number}", 6)
        small = SqlOutbox(SHOP, queues=(changes,), prefix="OB", rate=Rate("order"), batch=4)
        watch_sends(stores, before)

        async def publisher() -> None:
            while (await OUTBOX.backlog(stores)) != ():
                await small.publish(stores)

        await asyncio.gather(*[publisher() for _ in range(6)])
        assert len(sent) == len(set(sent)) == 48
        for number in range(8):
            assert [version for each, version in sent if each == f"o-{number}"] == [1, 2, 3, 4, 5, 6]

    run_story(story)


@pytest.mark.proves("PG-X6")
def test_publisher_that_lost_its_claim_changes_nothing() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        others: list[PublishReport] = []

        async def before(send: SendMessages) -> None:
            """Delay the first send until another publisher takes over and fails to send."""
            if not others:
                others.append(PublishReport())
                clock.moment += OUTBOX.lease_s + 1
                others.append(await OUTBOX.publish(stores))
            elif len(others) == 1:
                raise StoreFailed("the queue is down")

        await publish_changes(stores, "o-1", 2)
        watch_sends(stores, before)
        late = await OUTBOX.publish(stores)
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
        assert (await OUTBOX.publish(stores)).sent == 2
        assert await receive_versions(stores, "o-1") == [1, 2]

    run_story(story)


@pytest.mark.proves("PG-X6")
def test_does_not_count_the_failure_of_a_publisher_that_lost_its_claim() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            """Let another publisher claim the row, which is about to send it."""
            outside.execute("UPDATE shop.outbox SET claimed_by = 'another'")
            raise StoreFailed("the queue is down")

        await publish_changes(stores, "o-1", 1)
        watch_sends(stores, before)
        assert await OUTBOX.publish(stores) == PublishReport(claimed=1)
        [row] = read_rows(outside)
        assert (row["claimed_by"], row["retry_count"], row["last_error"]) == ("another", 0, None)

    run_story(story)


@pytest.mark.proves("PG-X6")
def test_skips_a_locked_row_without_waiting() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        await publish_changes(stores, "o-1", 2)
        await publish_changes(stores, "o-2", 2)
        with outside.transaction():
            outside.execute(
                "SELECT 1 FROM shop.outbox WHERE aggregate = 'o-1' ORDER BY id LIMIT 1 FOR UPDATE"
            )
            assert (await OUTBOX.publish(stores)).sent == 2
        assert {each.aggregate for each in await OUTBOX.list_unsent(stores)} == {"o-1"}
        assert (await OUTBOX.publish(stores)).sent == 2

    run_story(story)


def test_claimed_rows_are_not_claimed_again_until_the_claim_expires() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        class Killed(BaseException):
            pass

        async def before(send: SendMessages) -> None:
            raise Killed

        await publish_changes(stores, "o-1", 2)
        queues = stores.engines
        watch_sends(stores, before)
        with pytest.raises(Killed):
            await OUTBOX.publish(stores)
        stores.engines = queues
        assert (await OUTBOX.publish(stores)).claimed == 0
        clock.moment += OUTBOX.lease_s
        assert (await OUTBOX.publish(stores)).sent == 2

    run_story(story)


def test_repeated_claim_after_a_lost_response_returns_the_same_rows() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        await publish_changes(stores, "o-1", 2)
        now = datetime.fromtimestamp(clock.now(), UTC)
        claim = OUTBOX.pattern_set.claim("me", now, now + timedelta(seconds=30), now + timedelta(hours=1), 25)
        first, again = await stores.run(claim), await stores.run(claim)
        assert sorted(row.id for row in first) == sorted(row.id for row in again)
        assert len(first) == 2
        assert claim.is_idempotent

    run_story(story)


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-26")
@pytest.mark.proves("PG-X8")
def test_retries_a_failed_send_with_growing_backoff_and_then_gives_up() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            if any(each.group == "o-1" for each in send.messages):
                raise StoreFailed("the queue is down")

        queues = stores.engines
        await publish_changes(stores, "o-1", 2)
        watch_sends(stores, before)
        for pause_s, is_last in ((1, False), (2, False), (4, True)):
            report = await OUTBOX.publish(stores)
            assert (report.claimed, report.failed, report.died) == (2, 1, int(is_last))
            first, second = read_rows(outside)
            assert first["next_attempt_at"].timestamp() == clock.now() + pause_s
            assert (first["dead_at"] is not None, second["retry_count"]) == (is_last, 0)
            clock.moment += pause_s - 0.5
            assert (await OUTBOX.publish(stores)).claimed == 0
            clock.moment += 0.5
        clock.moment += 3600
        assert (await OUTBOX.publish(stores)).claimed == 0  # blocks its aggregate
        await publish_changes(stores, "o-2", 1)
        assert (await OUTBOX.publish(stores)).sent == 1  # and no other aggregate
        assert [each.status for each in await OUTBOX.list_unsent(stores)] == ["dead", "pending"]
        stores.engines = queues
        assert await OUTBOX.redrive(stores, "o-2") == 0
        assert await OUTBOX.redrive(stores, "o-1") == 1
        assert (await OUTBOX.publish(stores)).sent == 2
        assert await OUTBOX.list_unsent(stores) == []

    run_story(story)


@pytest.mark.proves("PG-X8")
def test_permanently_refused_message_dies_at_once_and_the_rest_is_sent() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            if any(each.group == "o-3" for each in send.messages):
                raise InvalidRequest("no such character")

        for number in range(6):
            await publish_changes(stores, f"o-{number}", 1)
        watch_sends(stores, before)
        assert await OUTBOX.publish(stores) == PublishReport(claimed=6, sent=5, failed=1, died=1)
        [dead] = await OUTBOX.list_unsent(stores, OutboxStatus.DEAD)
        assert (dead.aggregate, dead.queue, dead.attempts) == ("o-3", "shop-changes", 1)
        assert dead.reason == "InvalidRequest: no such character"

    run_story(story)


def test_resends_only_the_rest_of_a_partly_accepted_batch() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        taken: list[str] = []
        is_whole = False

        async def before(send: SendMessages) -> None:
            taken.extend(str(each.group) for each in send.messages[0 if is_whole else 1 :])
            if not is_whole:
                raise SendIncomplete("one was not taken", [0])

        for number in range(3):
            await publish_changes(stores, f"o-{number}", 1)
        watch_sends(stores, before)
        report = await OUTBOX.publish(stores)
        assert (report.sent, report.failed) == (2, 1)
        is_whole = True
        clock.moment += 1
        assert (await OUTBOX.publish(stores)).sent == 1
        assert taken == ["o-1", "o-2", "o-0"]

    run_story(story)


def test_failing_queue_does_not_block_other_queues() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            if "invoices" in send.queue:
                raise StoreFailed("the queue is down")

        await stores.transact(*build_change(stores, "o-1", 0, queue=invoices))
        await stores.transact(*build_change(stores, "o-1", 1))
        watch_sends(stores, before)
        report = await OUTBOX.publish(stores)
        assert (report.sent, report.failed) == (1, 1)
        assert await receive_versions(stores, "o-1") == [2]

    run_story(story)


def test_discarded_message_unblocks_those_behind_it() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            raise InvalidRequest("no such character")

        queues = stores.engines
        await publish_changes(stores, "o-1", 2)
        watch_sends(stores, before)
        await OUTBOX.publish(stores)
        stores.engines = queues
        dead, pending = await OUTBOX.list_unsent(stores)
        assert await OUTBOX.discard(stores, [int(pending.id)]) == 0  # it may be in flight
        assert await OUTBOX.discard(stores, [int(dead.id)]) == 1
        assert (await OUTBOX.publish(stores)).sent == 1
        assert await receive_versions(stores, "o-1") == [2]
        assert read_rows(outside)[0]["last_error"] == "Discarded. InvalidRequest: no such character"

    run_story(story)


def test_backlog_reports_count_and_age_per_queue() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
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

    run_story(story)


def test_sweep_deletes_old_sent_rows_and_numbering_continues() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        await publish_changes(stores, "o-1", 2)
        await OUTBOX.publish(stores)
        await publish_changes(stores, "o-2", 1)
        clock.moment += 86_400
        assert await OUTBOX.sweep(stores, timedelta(days=2)) == 0
        assert await OUTBOX.sweep(stores, timedelta(hours=1)) == 2
        await stores.transact(*build_change(stores, "o-1", 2))
        assert [(row["aggregate"], row["sequence_number"]) for row in read_rows(outside)] == [
            ("o-2", 1),
            ("o-1", 3),
        ]

    run_story(story)


# --- declaration --------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-16")
@pytest.mark.proves("PG-X10")
def test_finds_pending_rows_by_a_partial_index() -> None:
    """The plan of a claim uses the index of ready rows and no sequential scan."""

    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
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
        plan = outside.execute(
            f"EXPLAIN {claim.text}".encode(), {**claim.parameters, "queues": ["shop-changes"]}
        )
        described = "\n".join(line["QUERY PLAN"] for line in plan)
        assert "Seq Scan" not in described
        assert "outbox_ready" in described

    run_story(story)


def test_statements_return_the_columns_of_their_row_types() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        assert await check_statements(stores, (*OUTBOX.patterns, *INBOX.patterns)) == []

    run_story(story)


def test_component_can_enqueue_or_publish_as_declared() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        api, publisher = stores.for_component("api"), stores.for_component("publisher")
        await api.transact(*build_change(api, "o-1", 0))
        with pytest.raises(ComponentRefused):
            await OUTBOX.publish(api)
        with pytest.raises(ComponentRefused):
            await publisher.transact(*build_change(publisher, "o-2", 0))
        assert (await OUTBOX.publish(publisher)).sent == 1
        with publisher.meter_usage() as meter:
            await OUTBOX.publish(publisher)
        assert [(each.pattern, each.store, each.operation) for each in meter.usages] == [
            ("OB2", "sql", "UPDATE")
        ]

    run_story(story)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"queues": ()}, "Invalid queues of outbox .*: none"),
        ({"queues": (changes, changes)}, "each once"),
        ({"batch": 0}, "must be at least 1"),
        ({"max_attempts": 0}, "must be at least 1"),
        ({"lease_s": 0.0}, "must be above 0"),
        ({"pause_s": 10.0, "max_pause_s": 1.0}, "must be above 0"),
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


def test_change_alone_publishes_nothing() -> None:
    async def story(stores: Stores, clock: ManualClock, outside: psycopg.Connection[Any]) -> None:
        await stores.transact(change("o-1", 0))
        assert (await OUTBOX.publish(stores)).claimed == 0

    run_story(story)
