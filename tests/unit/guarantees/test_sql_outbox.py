"""The outbox in SQL on a real PostgreSQL: what is written, what is sent and in which order, what becomes of failures."""

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
from holdfast.model.queues import BATCH_MAX
from holdfast.operations.queues import SendMessages
from holdfast.runtime.sql_checks import check_statements
from tests.postgres import connected, fresh_database
from tests.unit.guarantees.announcing import Hand
from tests.unit.guarantees.sql_announcing import (
    INBOX,
    OUTBOX,
    SHOP,
    OrderChanged,
    announced,
    change,
    changed,
    changes,
    invoices,
    notes,
    order,
    prepared,
    received,
    stores_at,
    watch,
)

Story = Callable[[Stores, Hand, psycopg.Connection[Any]], Awaitable[None]]


def told(story: Story) -> None:
    """A story about an empty shop; the connection looks at it from outside."""

    url, clock = fresh_database(SHOP), Hand()

    async def played() -> None:
        with connected(url) as outside:
            outside.row_factory = dict_row
            async with stores_at(url, clock=clock) as stores:
                await prepared(stores)
                await story(stores, clock, outside)

    asyncio.run(played())


def rows(outside: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    return outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall()


async def versions(stores: Stores, order_id: str) -> list[int]:
    """What the queue was told of an order, in this order."""
    return [each.message.version for each in await received(stores) if each.message.order_id == order_id]


# --- announcing ---------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-2")
@pytest.mark.proves("PG-15")
@pytest.mark.proves("PG-23")
def test_a_change_and_its_message_are_both_written_or_neither() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await stores.transact(*changed(stores, "o-1", 0))
        with pytest.raises(ConditionFailed):
            await stores.transact(*changed(stores, "o-1", 7))
        seen = await stores.run(order("o-1"))
        assert seen is not None
        assert seen.version == 1
        [row] = rows(outside)
        assert (row["queue_name"], row["aggregate"], row["sequence_number"]) == ("shop-changes", "o-1", 1)
        assert row["message_body"] == '{"order_id":"o-1","version":1,"note":""}'
        assert (row["processed"], row["retry_count"], row["last_error"]) == (False, 0, None)
        assert row["created_at"].timestamp() == clock.now()

    told(story)


@pytest.mark.proves("PG-24")
@pytest.mark.proves("PG-X9")
def test_what_was_committed_is_sent_once_with_group_identity_and_correlation() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        with bind_correlation_id("c-1"):
            await stores.transact(*changed(stores, "o-1", 0))
        clock.moment += 5
        assert await OUTBOX.publish(stores) == PublishReport(claimed=1, sent=1)
        assert await OUTBOX.publish(stores) == PublishReport()
        [message] = await received(stores)
        [row] = rows(outside)
        assert message.message == OrderChanged(order_id="o-1", version=1)
        assert (message.group, message.correlation_id) == ("o-1", "c-1")
        assert message.announcement_id == message.incoming.deduplication
        assert message.announcement_id.startswith(f"shop_outbox-{row['id']}-")
        assert (row["processed"], row["processed_at"].timestamp()) == (True, clock.now())
        assert (row["claimed_by"], row["claimed_until"]) == (None, None)

    told(story)


@pytest.mark.proves("PG-X9")
def test_numbers_are_given_in_the_order_of_the_commits_and_without_gaps() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        def message(version: int) -> Any:
            return OUTBOX.enqueue(stores, "o-1", changes, OrderChanged(order_id="o-1", version=version))

        async with stores.sql_transaction() as first:
            await first.run(message(1))
            second = asyncio.create_task(stores.transact(message(2)))
            await _waits_for_a_lock(outside)
            assert not second.done()
        await second
        with pytest.raises(ConditionFailed):
            await stores.transact(message(-1), change("o-1", 7))
        await stores.transact(message(3), message(4))
        assert [row["sequence_number"] for row in rows(outside)] == [1, 2, 3, 4]
        await OUTBOX.publish(stores)
        assert await versions(stores, "o-1") == [1, 2, 3, 4]

    told(story)


async def _waits_for_a_lock(outside: psycopg.Connection[Any]) -> None:
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not outside.execute(asked).fetchone():
        await asyncio.sleep(0)


def test_a_message_that_its_queue_would_refuse_is_refused_before_the_change() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        large = OrderChanged(order_id="o-1", version=1, note="x" * 2_000_000)
        with pytest.raises(InvalidRequest, match="bytes are too many"):
            OUTBOX.enqueue(stores, "o-1", changes, large)
        with pytest.raises(InvalidRequest, match="needs an aggregate"):
            OUTBOX.enqueue(stores, "", changes, OrderChanged(order_id="o-1", version=1))
        other = SqlOutbox(SHOP, queues=(changes,), prefix="X", rate=Rate("order"))
        with pytest.raises(InvalidRequest, match="Invalid queue shop-notes"):
            other.enqueue(stores, "o-1", notes, OrderChanged(order_id="o-1", version=1))

    told(story)


# --- order --------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-25")
def test_a_round_claims_a_batch_and_sends_it_by_tens() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        sizes: list[int] = []

        async def before(send: SendMessages) -> None:
            sizes.append(len(send.messages))

        for number in range(30):
            await stores.transact(
                *changed(stores, f"o-{number}", 0), *changed(stores, f"p-{number}", 0, queue=invoices)
            )
        watch(stores, before)
        reports = [await OUTBOX.publish(stores) for _ in range(4)]
        assert [(each.claimed, each.sent, each.more) for each in reports] == [
            (25, 25, True),
            (25, 25, True),
            (10, 10, False),
            (0, 0, False),
        ]
        assert max(sizes) <= BATCH_MAX
        assert len(sizes) == 4 + 4 + 2
        assert len(await received(stores)) == len(await received(stores, invoices)) == 30

    told(story)


@pytest.mark.proves("PG-X7")
def test_no_transaction_is_open_and_no_row_locked_while_it_sends() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        sends = 0

        async def before(send: SendMessages) -> None:
            nonlocal sends
            sends += 1
            asked = "SELECT count(*) AS open FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
            assert outside.execute(asked).fetchone() == {"open": 0}
            assert outside.execute("SELECT 1 FROM shop.outbox FOR UPDATE NOWAIT").rowcount == 4

        await announced(stores, "o-1", 2)
        await announced(stores, "o-2", 2)
        watch(stores, before)
        assert (await OUTBOX.publish(stores)).sent == 4
        assert sends == 2

    told(story)


def test_the_messages_of_an_aggregate_are_sent_one_after_the_other() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        sent: list[list[str]] = []

        async def before(send: SendMessages) -> None:
            sent.append([str(each.group) for each in send.messages])

        await announced(stores, "o-1", 3)
        await announced(stores, "o-2", 2)
        watch(stores, before)
        assert (await OUTBOX.publish(stores)).sent == 5
        assert sent == [["o-1", "o-2"], ["o-1", "o-2"], ["o-1"]]
        assert await versions(stores, "o-1") == [1, 2, 3]

    told(story)


def test_a_queue_without_an_order_takes_ten_at_once() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        sizes: list[int] = []

        async def before(send: SendMessages) -> None:
            sizes.append(len(send.messages))

        await stores.transact(
            *[
                OUTBOX.enqueue(stores, "o-1", notes, OrderChanged(order_id="o-1", version=version))
                for version in range(12)
            ]
        )
        watch(stores, before)
        assert (await OUTBOX.publish(stores)).sent == 12
        assert sorted(sizes) == [2, 10]
        messages = await received(stores, notes)
        assert len({each.announcement_id for each in messages}) == 12

    told(story)


def test_large_messages_go_in_several_requests() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        for number in range(3):
            note = OrderChanged(order_id=f"o-{number}", version=1, note="x" * 500_000)
            await stores.transact(OUTBOX.enqueue(stores, note.order_id, changes, note))
        assert await OUTBOX.publish(stores) == PublishReport(claimed=3, sent=3)

    told(story)


def test_rows_for_a_queue_that_a_publisher_does_not_know_are_left_for_one_that_does() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        older = SqlOutbox(SHOP, queues=(invoices,), prefix="OLD", rate=Rate("order"))
        await announced(stores, "o-1", 1)
        assert (await older.publish(stores)).claimed == 0
        assert (await OUTBOX.publish(stores)).sent == 1

    told(story)


# --- several publishers -------------------------------------------------------------------------------------


@pytest.mark.proves("PG-X6")
def test_many_publishers_at_once_send_nothing_twice_and_keep_the_order() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        sent: list[tuple[str, int]] = []

        async def before(send: SendMessages) -> None:
            read = [OrderChanged.model_validate_json(each.body) for each in send.messages]
            sent.extend((each.order_id, each.version) for each in read)
            await asyncio.sleep(0)

        for number in range(8):
            await announced(stores, f"o-{number}", 6)
        small = SqlOutbox(SHOP, queues=(changes,), prefix="OB", rate=Rate("order"), batch=4)
        watch(stores, before)

        async def publisher() -> None:
            while (await OUTBOX.backlog(stores)) != ():
                await small.publish(stores)

        await asyncio.gather(*[publisher() for _ in range(6)])
        assert len(sent) == len(set(sent)) == 48
        for number in range(8):
            assert [version for each, version in sent if each == f"o-{number}"] == [1, 2, 3, 4, 5, 6]

    told(story)


@pytest.mark.proves("PG-X6")
def test_a_publisher_that_lost_its_claim_changes_nothing() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        others: list[PublishReport] = []

        async def before(send: SendMessages) -> None:
            """The first send takes so long that another publisher takes over, and fails to send."""
            if not others:
                others.append(PublishReport())
                clock.moment += OUTBOX.lease_s + 1
                others.append(await OUTBOX.publish(stores))
            elif len(others) == 1:
                raise StoreFailed("the queue is down")

        await announced(stores, "o-1", 2)
        watch(stores, before)
        late = await OUTBOX.publish(stores)
        assert (others[1].claimed, others[1].failed) == (2, 1)
        # It has sent the first, and did not go on to the second: its time was over.
        assert (late.claimed, late.more) == (2, True)
        first, second = rows(outside)
        assert (first["processed"], first["retry_count"], first["last_error"]) == (
            False,
            1,
            "StoreFailed: the queue is down",
        )
        assert (second["processed"], second["claimed_by"]) == (False, None)
        clock.moment += 1
        assert (await OUTBOX.publish(stores)).sent == 2
        assert await versions(stores, "o-1") == [1, 2]

    told(story)


@pytest.mark.proves("PG-X6")
def test_a_failure_of_a_publisher_that_lost_its_claim_is_not_counted() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            """Meanwhile another has claimed it, and is about to send."""
            outside.execute("UPDATE shop.outbox SET claimed_by = 'another'")
            raise StoreFailed("the queue is down")

        await announced(stores, "o-1", 1)
        watch(stores, before)
        assert await OUTBOX.publish(stores) == PublishReport(claimed=1)
        [row] = rows(outside)
        assert (row["claimed_by"], row["retry_count"], row["last_error"]) == ("another", 0, None)

    told(story)


@pytest.mark.proves("PG-X6")
def test_a_row_that_somebody_has_locked_is_passed_over_and_not_waited_for() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await announced(stores, "o-1", 2)
        await announced(stores, "o-2", 2)
        with outside.transaction():
            outside.execute(
                "SELECT 1 FROM shop.outbox WHERE aggregate = 'o-1' ORDER BY id LIMIT 1 FOR UPDATE"
            )
            assert (await OUTBOX.publish(stores)).sent == 2
        assert {each.aggregate for each in await OUTBOX.list_unsent(stores)} == {"o-1"}
        assert (await OUTBOX.publish(stores)).sent == 2

    told(story)


def test_nobody_else_claims_what_is_claimed_until_its_time_is_over() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        class Killed(BaseException):
            pass

        async def before(send: SendMessages) -> None:
            raise Killed

        await announced(stores, "o-1", 2)
        queues = stores.engines
        watch(stores, before)
        with pytest.raises(Killed):
            await OUTBOX.publish(stores)
        stores.engines = queues
        assert (await OUTBOX.publish(stores)).claimed == 0
        clock.moment += OUTBOX.lease_s
        assert (await OUTBOX.publish(stores)).sent == 2

    told(story)


def test_a_claim_whose_answer_was_lost_is_made_again_and_gives_the_same() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await announced(stores, "o-1", 2)
        now = datetime.fromtimestamp(clock.now(), UTC)
        claim = OUTBOX.pattern_set.claim("me", now, now + timedelta(seconds=30), now + timedelta(hours=1), 25)
        first, again = await stores.run(claim), await stores.run(claim)
        assert sorted(row.id for row in first) == sorted(row.id for row in again)
        assert len(first) == 2
        assert claim.is_idempotent

    told(story)


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-26")
@pytest.mark.proves("PG-X8")
def test_a_send_that_fails_is_tried_again_after_a_growing_pause_and_then_given_up() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            if any(each.group == "o-1" for each in send.messages):
                raise StoreFailed("the queue is down")

        queues = stores.engines
        await announced(stores, "o-1", 2)
        watch(stores, before)
        for pause_s, is_last in ((1, False), (2, False), (4, True)):
            report = await OUTBOX.publish(stores)
            assert (report.claimed, report.failed, report.died) == (2, 1, int(is_last))
            first, second = rows(outside)
            assert first["next_attempt_at"].timestamp() == clock.now() + pause_s
            assert (first["dead_at"] is not None, second["retry_count"]) == (is_last, 0)
            clock.moment += pause_s - 0.5
            assert (await OUTBOX.publish(stores)).claimed == 0
            clock.moment += 0.5
        clock.moment += 3600
        assert (await OUTBOX.publish(stores)).claimed == 0  # it holds up its aggregate
        await announced(stores, "o-2", 1)
        assert (await OUTBOX.publish(stores)).sent == 1  # and no other
        assert [each.status for each in await OUTBOX.list_unsent(stores)] == ["dead", "pending"]
        stores.engines = queues
        assert await OUTBOX.redrive(stores, "o-2") == 0
        assert await OUTBOX.redrive(stores, "o-1") == 1
        assert (await OUTBOX.publish(stores)).sent == 2
        assert await OUTBOX.list_unsent(stores) == []

    told(story)


@pytest.mark.proves("PG-X8")
def test_one_that_is_refused_for_what_it_is_dies_at_once_and_those_beside_it_are_sent() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            if any(each.group == "o-3" for each in send.messages):
                raise InvalidRequest("no such character")

        for number in range(6):
            await announced(stores, f"o-{number}", 1)
        watch(stores, before)
        assert await OUTBOX.publish(stores) == PublishReport(claimed=6, sent=5, failed=1, died=1)
        [dead] = await OUTBOX.list_unsent(stores, OutboxStatus.DEAD)
        assert (dead.aggregate, dead.queue, dead.attempts) == ("o-3", "shop-changes", 1)
        assert dead.reason == "InvalidRequest: no such character"

    told(story)


def test_of_a_batch_that_was_taken_in_part_only_the_rest_is_sent_again() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        taken: list[str] = []
        is_whole = False

        async def before(send: SendMessages) -> None:
            taken.extend(str(each.group) for each in send.messages[0 if is_whole else 1 :])
            if not is_whole:
                raise SendIncomplete("one was not taken", [0])

        for number in range(3):
            await announced(stores, f"o-{number}", 1)
        watch(stores, before)
        report = await OUTBOX.publish(stores)
        assert (report.sent, report.failed) == (2, 1)
        is_whole = True
        clock.moment += 1
        assert (await OUTBOX.publish(stores)).sent == 1
        assert taken == ["o-1", "o-2", "o-0"]

    told(story)


def test_a_queue_that_fails_holds_up_no_other() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            if "invoices" in send.queue:
                raise StoreFailed("the queue is down")

        await stores.transact(*changed(stores, "o-1", 0, queue=invoices))
        await stores.transact(*changed(stores, "o-1", 1))
        watch(stores, before)
        report = await OUTBOX.publish(stores)
        assert (report.sent, report.failed) == (1, 1)
        assert await versions(stores, "o-1") == [2]

    told(story)


def test_what_was_given_up_for_good_lets_those_behind_it_go() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async def before(send: SendMessages) -> None:
            raise InvalidRequest("no such character")

        queues = stores.engines
        await announced(stores, "o-1", 2)
        watch(stores, before)
        await OUTBOX.publish(stores)
        stores.engines = queues
        dead, pending = await OUTBOX.list_unsent(stores)
        assert await OUTBOX.discard(stores, [int(pending.id)]) == 0  # it may be on its way
        assert await OUTBOX.discard(stores, [int(dead.id)]) == 1
        assert (await OUTBOX.publish(stores)).sent == 1
        assert await versions(stores, "o-1") == [2]
        assert rows(outside)[0]["last_error"] == "Discarded. InvalidRequest: no such character"

    told(story)


def test_the_backlog_tells_how_much_waits_for_each_queue_and_since_when() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        assert await OUTBOX.backlog(stores) == ()
        await announced(stores, "o-1", 2)
        clock.moment += 60
        await stores.transact(*changed(stores, "p-1", 0, queue=invoices))
        outside.execute("UPDATE shop.outbox SET dead_at = created_at WHERE sequence_number = 2")
        clock.moment += 5
        told = [
            (each.queue_name, each.pending, each.dead, each.oldest_age_s(clock.now()))
            for each in await OUTBOX.backlog(stores)
        ]
        assert told == [("shop-changes", 1, 1, 65.0), ("shop-invoices", 1, 0, 5.0)]

    told(story)


def test_a_sweep_removes_what_was_sent_long_ago_and_numbers_go_on() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await announced(stores, "o-1", 2)
        await OUTBOX.publish(stores)
        await announced(stores, "o-2", 1)
        clock.moment += 86_400
        assert await OUTBOX.sweep(stores, timedelta(days=2)) == 0
        assert await OUTBOX.sweep(stores, timedelta(hours=1)) == 2
        await stores.transact(*changed(stores, "o-1", 2))
        assert [(row["aggregate"], row["sequence_number"]) for row in rows(outside)] == [
            ("o-2", 1),
            ("o-1", 3),
        ]

    told(story)


# --- declaration --------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-16")
@pytest.mark.proves("PG-X10")
def test_what_waits_is_found_by_an_index_that_has_nothing_else() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await announced(stores, "o-1", 1)
        outside.execute(
            "INSERT INTO shop.outbox (queue_name, message_body, processed, processed_at, created_at, next_attempt_at, "
            "aggregate, sequence_number) SELECT 'shop-changes', '{}', TRUE, created_at, created_at, created_at, "
            "'old-' || number, 1 FROM shop.outbox, generate_series(1, 20000) AS number"
        )
        outside.execute("VACUUM ANALYZE shop.outbox")
        found = outside.execute("SELECT indexdef FROM pg_indexes WHERE indexname = 'outbox_unprocessed'")
        assert found.fetchall() == [
            {
                "indexdef": "CREATE INDEX outbox_unprocessed ON shop.outbox USING btree (id) WHERE (NOT processed)"
            }
        ]
        claim = OUTBOX.pattern_set.claim.build_example()
        plan = outside.execute(
            f"EXPLAIN {claim.text}".encode(), {**claim.parameters, "queues": ["shop-changes"]}
        )
        described = "\n".join(line["QUERY PLAN"] for line in plan)
        assert "Seq Scan" not in described
        assert "outbox_ready" in described

    told(story)


def test_what_the_statements_give_is_what_their_rows_take() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        assert await check_statements(stores, (*OUTBOX.patterns, *INBOX.patterns)) == []

    told(story)


def test_a_component_can_announce_or_publish_as_it_declares() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        api, publisher = stores.for_component("api"), stores.for_component("publisher")
        await api.transact(*changed(api, "o-1", 0))
        with pytest.raises(ComponentRefused):
            await OUTBOX.publish(api)
        with pytest.raises(ComponentRefused):
            await publisher.transact(*changed(publisher, "o-2", 0))
        assert (await OUTBOX.publish(publisher)).sent == 1
        with publisher.meter_usage() as meter:
            await OUTBOX.publish(publisher)
        assert [(each.pattern, each.store, each.operation) for each in meter.usages] == [
            ("OB2", "sql", "UPDATE")
        ]

    told(story)


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
def test_an_outbox_that_makes_no_sense_is_refused(declared: dict[str, Any], why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        SqlOutbox(SHOP, **{"queues": (changes,), "prefix": "OB", "rate": Rate("order"), **declared})


def test_names_that_are_none_get_into_no_statement() -> None:
    with pytest.raises(DeclarationError, match="Invalid table name"):
        outbox_ddl("shop", "outbox; drop table x")


def test_the_change_alone_announces_nothing() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await stores.transact(change("o-1", 0))
        assert (await OUTBOX.publish(stores)).claimed == 0

    told(story)
