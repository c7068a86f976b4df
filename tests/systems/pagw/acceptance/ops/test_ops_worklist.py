"""The operators' worklist, redelivery and health of payers, on the step-by-step pipeline."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Pattern
from holdfast.core.errors import ConditionFailed, Conflict, ExternalServiceFailed, InvalidRequest
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.model import delivery_patterns
from pagw.model.audit import Actor
from pagw.model.entities import QUEUES, DeliveryMessage, notifications
from pagw.model.patterns import OUTBOX
from pagw.model.payer_calls import calls_of
from pagw.model.registries import get_payer
from pagw.ops import (
    legal_holds,
    monitoring,
    payer_health,
    redelivery,
    request_replay,
    request_trail,
    worklist,
)
from pagw.ops.payer_health import PayerState
from pagw.ops.registry import register_payer
from pagw.ops.worklist import View, WorkFilter
from pagw.workers.sweeper import sweep_messages
from tests.postgres import connect
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

ANN = Actor("user", "ann")


async def list_ids(pipeline: Pipeline, view: View, **wanted: str) -> list[str]:
    """Return the ids of the requests on the first page of a view."""
    page = await worklist.read_work(pipeline.stores.for_component("console"), view, WorkFilter(**wanted))
    return [each.pagw_id for each in page.rows]


async def submit_pended(pipeline: Pipeline, **bundle: Any) -> str:
    pagw_id = await pipeline.submit(items=(PENDED_APPROVED,), **bundle)
    await pipeline.settle()
    pipeline.clock.advance(seconds=1)
    return pagw_id


async def give_up_delivery(pipeline: Pipeline, pagw_id: str) -> str:
    """Create a notification that was given up, and return its id."""
    delivery_id = f"{pagw_id}#callback"
    await pipeline.stores.run(
        delivery_patterns.create_delivery(
            delivery_id=delivery_id,
            tenant="acme",
            pagw_id=pagw_id,
            subscription_id=None,
            target="https://client.example/hook?patient=1",
            event_number=1,
            at=pipeline.now,
        )
    )
    await pipeline.stores.run(
        delivery_patterns.note_delivery(
            delivery_id, "given_up", pipeline.now, error="the server answered 503"
        )
    )
    return delivery_id


async def test_each_view_lists_the_requests_that_need_a_person() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        done = await pipeline.submit()
        await pipeline.settle()
        pended = await submit_pended(pipeline)
        urgent = await submit_pended(pipeline, urgency="expedited")
        failed = await pipeline.submit()
        await pipeline.settle(until=Stage.api_connector)
        await pipeline.record_payer_answer(failed, "approved", decided_at="1999-01-01T00:00:00+00:00")
        await pipeline.settle()
        stuck = await pipeline.submit()
        await pipeline.settle(until=Stage.request_converter)
        await pipeline.lose_messages(Stage.request_converter)
        await give_up_delivery(pipeline, done)
        await legal_holds.place_hold(pipeline.operator, done, "case 12", ANN)
        assert (await pipeline.request(failed)).error_code == "PAYER_ANSWER_UNREADABLE"

        pipeline.clock.advance(hours=60)
        assert await list_ids(pipeline, View.overdue) == []
        assert await list_ids(pipeline, View.soon) == [urgent]
        pipeline.clock.advance(hours=13)
        assert await list_ids(pipeline, View.overdue) == [urgent]
        assert await list_ids(pipeline, View.soon) == []
        assert await list_ids(pipeline, View.pended) == [urgent, pended]
        assert await list_ids(pipeline, View.contradicted) == [failed]
        assert await list_ids(pipeline, View.failed) == [failed]
        assert await list_ids(pipeline, View.stuck) == [stuck]
        assert await list_ids(pipeline, View.undelivered) == [done]
        assert await list_ids(pipeline, View.held) == [done]
        counts = await worklist.count_work(pipeline.stores.for_component("console"))
        assert counts.model_dump() == {
            "overdue": 1, "soon": 0, "pended": 2, "contradicted": 1, "stuck": 1, "failed": 1,
            "undelivered": 1, "held": 1,
        }  # fmt: skip

    await run_scenario(scenario)


async def test_filters_and_cursors_reach_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worklist, "PAGE_SIZE", 2)
    monkeypatch.setattr(worklist, "MAX_EXAMINED", 3)

    async def read_all(pipeline: Pipeline, wanted: WorkFilter) -> tuple[list[str], list[int]]:
        found, sizes, cursor = list[str](), list[int](), ""
        while True:
            page = await worklist.read_work(pipeline.stores, View.pended, wanted, cursor)
            found += [each.pagw_id for each in page.rows]
            sizes.append(page.examined)
            if page.cursor is None:
                return found, sizes
            cursor = page.cursor

    async def scenario(pipeline: Pipeline) -> None:
        urgencies = ("standard", "standard", "standard", "expedited", "standard")
        ids = [await submit_pended(pipeline, urgency=each) for each in urgencies]
        by_due_time = [ids[3], ids[0], ids[1], ids[2], ids[4]]
        found, sizes = await read_all(pipeline, WorkFilter())
        assert found == by_due_time and max(sizes) == 3
        found, _ = await read_all(pipeline, WorkFilter(urgency="standard"))
        assert found == [ids[0], ids[1], ids[2], ids[4]]
        found, sizes = await read_all(pipeline, WorkFilter(payer_id="OTHER"))
        assert found == [] and sizes == [3, 2], "no page examines more than its limit"
        with pytest.raises(InvalidRequest, match="Invalid cursor"):
            await worklist.read_work(pipeline.stores, View.pended, cursor="yesterday")

    await run_scenario(scenario)


async def test_every_view_is_read_by_an_index_of_its_own_rows() -> None:
    """With sequential scans disabled, the planner uses one only if no index answers."""
    indexes: dict[Pattern[..., Any], str] = {
        worklist.due_window: "idx_request_tracker_undecided",
        worklist.pended_window: "idx_request_tracker_pended",
        worklist.contradicted_window: "idx_request_tracker_contradicted",
        worklist.stuck_window: "idx_request_tracker_moving",
        worklist.failed_window: "idx_request_tracker_failed",
        worklist.undelivered_window: "idx_deliveries_undelivered",
        worklist.held_window: "legal_holds_pkey",
        payer_health.backlogs: "idx_request_tracker_undecided",
        calls_of: "idx_payer_calls_payer",
        request_trail.messages_of: "idx_outbox_sent",
        monitoring.decisions_between: "idx_request_tracker_decided",
        monitoring.stuck_since: "idx_request_tracker_moving",
        monitoring.due_before: "idx_request_tracker_undecided",
    }

    async def scenario(pipeline: Pipeline) -> None:
        with connect(pipeline.database) as connection:
            connection.execute("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
            for made, index in indexes.items():
                read = made.build_example()
                values = {
                    name: list(each) if isinstance(each, tuple) else each
                    for name, each in read.parameters.items()
                }
                plan = connection.execute(f"EXPLAIN {read.text}", values).fetchall()
                text = "\n".join(line for (line,) in plan)
                assert index in text and "Seq Scan" not in text, f"{made.id}:\n{text}"

    await run_scenario(scenario)


async def test_only_one_of_two_replays_of_what_both_saw_succeeds() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pended = await submit_pended(pipeline)
        seen = (await pipeline.request(pended)).updated_at
        pipeline.clock.advance(minutes=1)
        console = pipeline.stores.for_component("console")
        results = await asyncio.gather(
            *(request_replay.replay(console, pended, ANN, seen=seen) for _ in range(2)),
            return_exceptions=True,
        )
        assert {type(each) for each in results} == {Stage, ConditionFailed}
        replays = pipeline.rows("SELECT actor_id FROM pagw.audit_log WHERE event_type = 'REPLAY'")
        assert replays == [("ann",)]

    await run_scenario(scenario)


async def test_a_notification_is_sent_again_once_under_the_same_id() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        done = await pipeline.submit()
        await pipeline.settle()
        delivery_id = await give_up_delivery(pipeline, done)
        first = DeliveryMessage(delivery_id=delivery_id, pagw_id=done, tenant="acme")
        await pipeline.stores.transact(
            OUTBOX.enqueue(pipeline.stores, delivery_id, first, queue=notifications)
        )
        await OUTBOX.send_unsent(pipeline.stores.for_component("outboxpublisher"))
        (received,) = await pipeline.stores.run(notifications.consumer.receive(10, 0.0))
        await pipeline.stores.run(notifications.consumer.delete(received))

        console = pipeline.stores.for_component("console")
        await redelivery.resend(console, delivery_id, ANN)
        with pytest.raises(Conflict, match="waiting"):
            await redelivery.resend(console, delivery_id, ANN)

        await OUTBOX.send_unsent(pipeline.stores.for_component("outboxpublisher"))
        (received,) = await pipeline.stores.run(notifications.consumer.receive(10, 0.0))
        assert received.message.delivery_id == delivery_id, "the queue did not take it for the first one"
        row = await pipeline.stores.run(delivery_patterns.delivery("acme", delivery_id))
        assert row is not None and (row.status, row.round) == ("waiting", 2)
        assert await list_ids(pipeline, View.undelivered) == [done], "it was tried and is not delivered"

    await run_scenario(scenario)


async def test_a_notification_of_an_ended_subscription_is_not_sent_again() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        done = await pipeline.submit()
        await pipeline.settle()
        delivery_id = await give_up_delivery(pipeline, done)
        pipeline.execute("UPDATE pagw.deliveries SET subscription_id = 'gone'")
        with pytest.raises(InvalidRequest, match="The subscription gone is gone"):
            await redelivery.resend(pipeline.stores.for_component("console"), delivery_id, ANN)
        assert pipeline.rows("SELECT status FROM pagw.deliveries") == [("given_up",)]

    await run_scenario(scenario)


async def test_calls_to_a_payer_are_logged_with_their_outcome_and_give_its_health() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        console = pipeline.stores.for_component("console")
        page = await payer_health.list_payers(console)
        assert [each.state for each in page.payers] == [PayerState.not_called]
        done = await pipeline.submit()
        await pipeline.settle()
        pended = await submit_pended(pipeline)
        await request_replay.replay(pipeline.operator, pended, ANN)
        await pipeline.settle()

        found = await payer_health.get_payer_health(console, DEFAULT_PAYER)
        assert found is not None
        health, is_partial = found
        assert [(each.pagw_id, each.action, each.outcome) for each in health.calls] == [
            (pended, "inquire", "pended"),
            (pended, "submit", "pended"),
            (done, "submit", "final"),
        ]
        assert all(each.took_ms > 0 for each in health.calls)
        assert health.state is PayerState.answers and health.backlog is not None
        assert (health.backlog.unsent, health.backlog.pended, is_partial) == (0, 1, False)
        assert health.median_ms is not None and health.p95_ms is not None
        assert health.median_ms <= health.p95_ms

        pipeline.clock.advance(days=31)
        await sweep_messages(pipeline.sweeper)
        assert await console.run(calls_of([DEFAULT_PAYER])) == ()

    await run_scenario(scenario)


async def test_a_payer_that_does_not_answer_is_failing_since_its_first_failure() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await pipeline.submit()
        await pipeline.settle()
        row = await get_payer(pipeline.stores, DEFAULT_PAYER)
        assert row is not None
        await register_payer(
            pipeline.operator, row.model_copy(update={"api_endpoint": "http://127.0.0.1:9"}), ANN
        )
        refused = await pipeline.submit()
        await pipeline.settle(until=Stage.api_connector)
        await OUTBOX.send_unsent(pipeline.stores.for_component("outboxpublisher"))
        (received,) = await pipeline.stores.run(QUEUES[Stage.api_connector].consumer.receive(10, 0.0))
        began = pipeline.now + timedelta(minutes=1)
        for _ in range(3):
            pipeline.clock.advance(minutes=1)
            with pytest.raises(ExternalServiceFailed):
                await pipeline.handlers[Stage.api_connector].handle(received)

        found = await payer_health.get_payer_health(pipeline.stores.for_component("console"), DEFAULT_PAYER)
        assert found is not None
        health, _ = found
        assert (health.state, health.failed, len(health.calls)) == (PayerState.failing, 3, 4)
        assert health.failing_since is not None and abs(health.failing_since - began) < timedelta(seconds=5)
        assert health.calls[0].error_code == "PartyFailed" and health.last_answer is not None
        assert health.backlog is not None and health.backlog.unsent == 1
        assert (await pipeline.request(refused)).status is Status.CONVERTED

    await run_scenario(scenario)
