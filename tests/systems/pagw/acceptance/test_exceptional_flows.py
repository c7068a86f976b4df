"""Exceptional flows on the step-by-step pipeline: invalid, early, repeated or missing payer answers.

Also unreachable subscribers, and failures that are fixed. No decision is lost and no client is notified
twice.
"""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from holdfast.core.errors import InvalidRequest, RetryLater
from holdfast.runtime import open_secrets
from holdfast_demo.pagw.sample.bundles import DEFAULT_PAYER, build_request_bundle, build_update_bundle
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.integrations.payers.config import parse_payer_config
from pagw.model import delivery_patterns, files, patterns
from pagw.model.audit import Actor
from pagw.model.entities import DeliveryMessage, StageMessage, SubscriptionRow
from pagw.model.registries import get_payer
from pagw.ops import monitoring, request_replay
from pagw.ops.annual_report import build_annual_report
from pagw.ops.registry import register_payer
from pagw.settings import PagwSettings
from pagw.workers import payer_polling
from pagw.workers.stages.notifier import INACTIVE_REASON, Notifier
from pagw.workers.stages.subscription_handler import SubscriptionHandler
from pagw.workers.webhook_sender import WebhookSender, restore_announced_state
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario
from tests.systems.pagw.idempotency_keys import build_idempotency_key

ANN = Actor("user", "ann")
# In UTC both fall into years that Python's datetime does not have.
UNREADABLE_TIMES = ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00")
UNREADABLE = "PAYER_ANSWER_UNREADABLE"
HOOK = "https://client.example/hooks/one"


async def submit_pended(pipeline: Pipeline) -> str:
    """Submit a request that the payer pends, and return its id."""
    pagw_id = await pipeline.submit(items=(PENDED_APPROVED,))
    await pipeline.settle()
    assert (await pipeline.request(pagw_id)).status is Status.PENDED
    return pagw_id


async def settle_and_get_end(pipeline: Pipeline, pagw_id: str) -> tuple[Status, str | None]:
    """Run the pipeline until nothing is left. Return the request's status and decision."""
    await pipeline.settle()
    request = await pipeline.request(pagw_id)
    return request.status, request.decision


async def subscribe(pipeline: Pipeline, name: str, **members: Any) -> None:
    """Create an active subscription to all requests of acme. `members` replace columns of its row."""
    row = SubscriptionRow(
        subscription_id=name, tenant="acme", status="active", endpoint=HOOK, organization=None,
        content="full-resource", secret_name=None, created_at=pipeline.now, updated_at=pipeline.now,
        ends_at=None, events=0, error=None,
    )  # fmt: skip
    await pipeline.stores.run(delivery_patterns.create_subscription(row.model_copy(update=members)))


def list_deliveries(pipeline: Pipeline) -> dict[str, tuple[int, str]]:
    """Return event number and announced status by the part of the delivery id after the request's id."""
    found = pipeline.rows(
        "SELECT delivery_id, event_number, told FROM pagw.deliveries ORDER BY created_at, delivery_id"
    )
    return {id.partition("#")[2]: (number, said["status"]) for id, number, said in found}


def request_callback(pipeline: Pipeline, pagw_id: str, url: str = HOOK) -> None:
    """Give the request a callback URL, as if its client had named one."""
    pipeline.execute(
        "UPDATE pagw.request_tracker SET metadata = metadata || %s::jsonb WHERE pagw_id = %s",
        json.dumps({"callbackUrl": url}),
        pagw_id,
    )


async def set_payer_format(pipeline: Pipeline, format: str) -> None:
    """Register the payer with another message format."""
    payer = await get_payer(pipeline.stores, DEFAULT_PAYER)
    assert payer is not None
    await register_payer(pipeline.operator, payer.model_copy(update={"format": format}), ANN)


def receive_once(message: Any) -> Any:
    """Return the message as its handler receives it."""
    return SimpleNamespace(message=message, receives=1)


# --- answers and callbacks of payers ------------------------------------------------------------------------


async def test_approval_survives_a_superseded_update() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        first = build_request_bundle(reference="A-1")
        approved = await pipeline.submit_bundle(first, "acme", "a")
        assert await settle_and_get_end(pipeline, approved) == (Status.COMPLETED, "approved")
        second = build_update_bundle(first, reference="B-1", added=(PENDED_APPROVED,))
        superseded = await pipeline.submit_bundle(second, "acme", "b")
        await pipeline.settle()
        third = build_update_bundle(second, reference="C-1", cancelled=(2,))
        last = await pipeline.submit_bundle(third, "acme", "c")
        assert await settle_and_get_end(pipeline, last) == (Status.COMPLETED, "approved")
        # The payer reports that the pended update was cancelled.
        await pipeline.send_callback(pipeline.payer.state.authorizations[superseded].to_json())
        assert await settle_and_get_end(pipeline, superseded) == (Status.COMPLETED, "cancelled")
        assert await settle_and_get_end(pipeline, approved) == (Status.COMPLETED, "approved")

    await run_scenario(scenario)


async def test_invalid_callback_is_refused_and_leaves_no_trace() -> None:
    nonsense: list[tuple[str, dict[str, Any]]] = [
        *(("approved", {"decided_at": each}) for each in UNREADABLE_TIMES),
        ("approved", {"decided_at": "2031-01-01T00:00:00Z"}),
        ("denied", {"reason": "no", "review_action": "A1", "items": [{"sequence": 1, "action": "A1"}]}),
        ("denied", {"reason": "no", "items": [{"sequence": 1, "action": "A1"}]}),
        ("approved", {"review_action": "A3"}),
        ("approved", {"items": [{"sequence": 999, "action": "A1"}]}),
        ("approved", {"items": [{"sequence": 2**70, "action": "A1"}]}),
        ("approved", {"items": [{"sequence": 1, "action": "C"}]}),
        ("approved", {"authorization_number": "9" * 1_000_000}),
        ("approved", {"authorization_number": "a\u0001b"}),
        ("approved", {"authorization_number": "a\u2028b"}),
        ("approved", {"authorization_number": "   "}),
        ("approved", {"valid_from": "0001-01-01"}),
        ("modified", {"items": [
            {"sequence": 1, "action": "A6", "authorized": {"system": "s", "code": "c", "quantity": 1e300}}]}),
    ]  # fmt: skip

    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit_pended(pipeline)
        for outcome, members in nonsense:
            with pytest.raises(InvalidRequest):
                await pipeline.call_back(pagw_id, outcome, **members)
        with pytest.raises(InvalidRequest):
            await pipeline.call_back(pagw_id, "pended", "pended", items=[{"sequence": 1, "action": "A1"}])
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.PENDED, None)
        assert "callbacks" not in (await pipeline.request(pagw_id)).metadata
        assert pipeline.rows("SELECT count(*) FROM pagw.audit_log WHERE event_type = 'PAYER_CALLBACK'") == [
            (0,)
        ]
        await pipeline.call_back(
            pagw_id, authorization_number="AUTH 7", items=[{"sequence": 1, "action": "A1"}]
        )
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")

    await run_scenario(scenario)


async def test_invalid_answer_fails_the_request_until_a_valid_callback() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        answers: list[dict[str, Any]] = [
            {"decided_at": UNREADABLE_TIMES[0]},
            {"review_action": "A3"},
            {"items": [{"sequence": 7, "action": "A1"}]},
        ]
        for members in answers:
            pagw_id = await pipeline.submit()
            request_callback(pipeline, pagw_id)
            await pipeline.settle(until=Stage.api_connector)
            await pipeline.record_payer_answer(pagw_id, "approved", **members)
            assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)
            failed = await pipeline.request(pagw_id)
            assert failed.error_code == UNREADABLE and "Invalid response" in (failed.error_message or "")
            assert failed.metadata["failedAt"] == Status.SUBMITTED
            # A callback without a decision changes nothing.
            await pipeline.call_back(pagw_id, "pended", "pended")
            assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)
            await pipeline.call_back(pagw_id, authorization_number="AUTH7")
            assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
            again = await pipeline.request(pagw_id)
            assert again.error_code is None and again.metadata["callback"] == "002"
            assert list_deliveries(pipeline) == {"failed": (1, "FAILED"), "callback": (1, "COMPLETED")}
            pipeline.execute("DELETE FROM pagw.deliveries")

    await run_scenario(scenario)


async def test_callback_about_a_request_that_was_never_sent_is_refused() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await set_payer_format(pipeline, "x12-278")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)
        with pytest.raises(InvalidRequest, match="not sent this request"):
            await pipeline.call_back(pagw_id)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)

    await run_scenario(scenario)


async def test_replay_after_an_invalid_answer_asks_the_payer_again() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle(until=Stage.api_connector)
        await pipeline.record_payer_answer(pagw_id, "denied", review_action="A1", reason="no")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)
        assert await request_replay.replay(pipeline.operator, pagw_id, ANN) is Stage.api_connector
        again = await pipeline.request(pagw_id)
        assert (again.status, again.stage, again.completed_at) == (Status.PENDED, Stage.payer, None)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        assert len([each for each in pipeline.payer.ledger if each.get("reference") == pagw_id]) == 1

    await run_scenario(scenario)


async def test_interim_callback_is_recorded_and_a_later_decision_is_applied() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit_pended(pipeline)
        created = (await pipeline.request(pagw_id)).created_at
        before = (await pipeline.stores.run(files.pended_response(created, pagw_id))).body
        await pipeline.call_back(pagw_id, "pended", "pended", reason="We wait for records.")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.PENDED, None)
        request = await pipeline.request(pagw_id)
        assert (request.stage, request.error_code, request.metadata["interim"]) == (Stage.payer, None, "001")
        renewed = (await pipeline.stores.run(files.pended_response(created, pagw_id))).body
        assert renewed != before and b"We wait for records." in renewed
        steps = pipeline.rows(
            "SELECT event_subtype, details ->> 'callback' FROM pagw.audit_log WHERE pagw_id = %s "
            "AND service_name = 'pascallbackhandler' AND event_type = 'STEP'",
            pagw_id,
        )
        assert steps == [("PENDED", "001")]
        # The newest callback is already applied, so a replay asks the payer.
        assert await request_replay.replay(pipeline.operator, pagw_id, ANN) is Stage.api_connector
        await pipeline.settle()
        await pipeline.call_back(pagw_id, authorization_number="AUTH9")
        await pipeline.call_back(pagw_id, authorization_number="AUTH9")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        assert set((await pipeline.request(pagw_id)).metadata["callbacks"]) == {"001", "002"}, (
            "a repeated callback counts once"
        )

    await run_scenario(scenario)


async def test_early_callback_is_applied_after_the_answer_is_recorded() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(items=(PENDED_APPROVED,))
        await pipeline.settle(until=Stage.api_connector)
        await pipeline.call_back(pagw_id, authorization_number="AUTH1")
        handler = pipeline.handlers[Stage.callback_handler]
        message = StageMessage(
            pagw_id=pagw_id,
            tenant="acme",
            stage=Stage.callback_handler,
            occasion="payer-001",
            callback_key="001",
        )
        with pytest.raises(RetryLater) as waits:
            await handler.handle(receive_once(message))
        assert waits.value.retry_after_s is None, "the backoff of the queue applies"
        # Its retries are exhausted before the connector records the answer.
        await pipeline.lose_messages(Stage.callback_handler)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")

    await run_scenario(scenario)


# --- silent payers ------------------------------------------------------------------------------------------


async def test_silent_payer_is_polled_and_its_decision_applied() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit_pended(pipeline)
        pipeline.payer.state.decide(pagw_id)
        pipeline.clock.advance(minutes=59)
        assert await payer_polling.announce_inquiries(pipeline.sweeper) == 0
        pipeline.clock.advance(minutes=2)
        assert await payer_polling.announce_inquiries(pipeline.sweeper) == 1
        assert await payer_polling.announce_inquiries(pipeline.sweeper) == 0, "the payer was just polled"
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        request = await pipeline.request(pagw_id)
        assert request.decided_at == pipeline.now and request.metadata["callback"] == "001"
        other = await submit_pended(pipeline)
        pipeline.payer.state.decide(other)
        assert await request_replay.replay(pipeline.operator, other, ANN) is Stage.api_connector
        assert await settle_and_get_end(pipeline, other) == (Status.COMPLETED, "approved")

    await run_scenario(scenario)


async def test_polls_back_off_and_repeat_before_the_decision_is_due() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit_pended(pipeline)
        request, asked = await pipeline.request(pagw_id), []
        while pipeline.now < request.due_at + timedelta(days=2):
            pipeline.clock.advance(minutes=30)
            if await payer_polling.announce_inquiries(pipeline.sweeper):
                asked.append((pipeline.now - request.created_at).total_seconds() / 3600)
                assert await settle_and_get_end(pipeline, pagw_id) == (Status.PENDED, None)
        assert asked[:6] == [1, 2, 4, 8, 16, 32]
        assert 156 in asked, "polls twelve hours before the decision is due"
        assert max(later - earlier for earlier, later in pairwise(asked)) <= 24
        assert asked[-1] > 168, "polls overdue requests too"

    await run_scenario(scenario)


async def test_inquiry_that_a_process_a_day_ahead_scheduled_is_not_waited_for() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit_pended(pipeline)
        pipeline.payer.state.decide(pagw_id)
        pipeline.clock.advance(days=2)
        assert await payer_polling.announce_inquiries(pipeline.sweeper) == 1
        pipeline.clock.advance(days=-2)
        await pipeline.lose_messages(Stage.api_connector)
        assert await payer_polling.announce_inquiries(pipeline.sweeper) == 1
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")

    await run_scenario(scenario)


async def test_unreachable_payer_leaves_the_request_pended() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit_pended(pipeline)
        payer = await get_payer(pipeline.stores, DEFAULT_PAYER)
        assert payer is not None
        away = payer.model_copy(update={"api_endpoint": "http://127.0.0.1:9", "auth_type": "none"})
        await register_payer(pipeline.operator, away, ANN)
        pipeline.clock.advance(hours=2)
        assert await payer_polling.announce_inquiries(pipeline.sweeper) == 1
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.PENDED, None)

    await run_scenario(scenario)


async def test_decision_time_is_when_the_callback_arrives() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit(items=(PENDED_APPROVED,), urgency="expedited")
        await pipeline.settle()
        pipeline.clock.advance(hours=80)
        arrived = pipeline.now
        await pipeline.call_back(pagw_id, decided_at=(arrived - timedelta(hours=20)).isoformat())
        pipeline.clock.advance(hours=3)  # the pipeline was not running
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        request = await pipeline.request(pagw_id)
        assert request.decided_at == arrived
        assert request.metadata["payerDecidedAt"] == (arrived - timedelta(hours=20)).isoformat()
        expedited = (await build_annual_report(pipeline.operator, 2026)).expedited
        assert (expedited.decided, expedited.decided_in_time, expedited.average_hours) == (1, 0, 80.0)

    await run_scenario(scenario)


# --- notifications of clients -------------------------------------------------------------------------------


async def test_unreadable_subscription_is_disabled_and_others_are_notified() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-good")
        pipeline.execute("ALTER TABLE pagw.subscriptions DROP CONSTRAINT subscriptions_end")
        await subscribe(pipeline, "sub-bad")
        pipeline.execute(
            "UPDATE pagw.subscriptions SET ends_at = %s WHERE subscription_id = 'sub-bad'",
            UNREADABLE_TIMES[0],
        )
        pagw_id = await pipeline.submit()
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        assert list_deliveries(pipeline) == {"sub-good": (1, "COMPLETED")}
        standing = pipeline.rows("SELECT subscription_id, status, events FROM pagw.subscriptions ORDER BY 1")
        assert standing == [("sub-bad", "error", 0), ("sub-good", "active", 1)]

    await run_scenario(scenario)


async def test_request_ends_without_a_delivery_if_its_callback_url_is_too_long() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        good, bad = await pipeline.submit(), await pipeline.submit()
        for pagw_id in (good, bad):
            request_callback(pipeline, pagw_id, f"https://client.example/{'z' * 3000}")
        await pipeline.settle(until=Stage.response_builder)
        pipeline.execute(
            "UPDATE pagw.request_tracker SET metadata = metadata || '{\"items\": [9]}' WHERE pagw_id = %s",
            bad,
        )
        assert await settle_and_get_end(pipeline, good) == (Status.COMPLETED, "approved")
        assert await settle_and_get_end(pipeline, bad) == (Status.FAILED, None)
        assert list_deliveries(pipeline) == {}

    await run_scenario(scenario)


async def test_request_keeps_its_status_if_the_store_refuses_a_stages_write() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await pipeline.submit()
        await pipeline.settle(until=Stage.request_converter)
        pipeline.execute("ALTER TABLE pagw.request_tracker ADD CONSTRAINT odd CHECK (status <> 'CONVERTED')")
        with pytest.raises(InvalidRequest):
            await pipeline.settle()
        request = await pipeline.request(pagw_id)
        assert (request.status, request.error_code) == (Status.ATTACHMENTS_PROCESSED, None)
        stuck = await pipeline.operator.run(monitoring.stuck_since(pipeline.now + timedelta(minutes=31)))
        assert [each.pagw_id for each in stuck] == [pagw_id]

    await run_scenario(scenario)


async def test_each_end_is_announced_once_with_gapless_event_numbers() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        await subscribe(pipeline, "sub-1")
        pagw_id = await pipeline.submit()
        request_callback(pipeline, pagw_id)
        await set_payer_format(pipeline, "x12-278")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)
        first = await pipeline.stores.run(delivery_patterns.delivery("acme", f"{pagw_id}#failed"))
        await request_replay.replay(pipeline.operator, pagw_id, ANN)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.FAILED, None)
        handler = pipeline.handlers[Stage.subscription_handler]
        late = StageMessage(
            pagw_id=pagw_id, tenant="acme", stage=Stage.subscription_handler, occasion="failed-1b"
        )
        await handler.handle(receive_once(late))
        await set_payer_format(pipeline, "json")
        await request_replay.replay(pipeline.operator, pagw_id, ANN)
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        assert list_deliveries(pipeline) == {
            "failed": (1, "FAILED"),
            "failed-2": (1, "FAILED"),
            "callback": (1, "COMPLETED"),
            "sub-1#f": (1, "FAILED"),
            "sub-1#f-2": (2, "FAILED"),
            "sub-1": (3, "COMPLETED"),
        }
        # The first delivery still announces the failure, although the request is completed by now.
        assert first is not None
        as_it_stood = restore_announced_state(first, await pipeline.request(pagw_id))
        assert (as_it_stood.status, as_it_stood.error_code) == (Status.FAILED, "FORMAT_NOT_BUILT")
        assert as_it_stood.decision is None and as_it_stood.completed_at == first.created_at

    await run_scenario(scenario)


async def test_waiting_delivery_is_given_up_after_its_subscription_ended() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        for name in ("sub-off", "sub-over"):
            await subscribe(pipeline, name)
        pagw_id = await pipeline.submit()
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        pipeline.execute("UPDATE pagw.subscriptions SET status = 'off' WHERE subscription_id = 'sub-off'")
        pipeline.execute(
            "UPDATE pagw.subscriptions SET ends_at = %s WHERE subscription_id = 'sub-over'", pipeline.now
        )
        calls: list[httpx2.Request] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            calls.append(request)
            return httpx2.Response(200)

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            stores = pipeline.stores.for_component("pasnotifier")
            notifier = Notifier(WebhookSender(stores, http, open_secrets(), PagwSettings()))
            for name in ("sub-off", "sub-over"):
                message = DeliveryMessage(delivery_id=f"{pagw_id}#{name}", pagw_id=pagw_id, tenant="acme")
                await notifier.handle(receive_once(message))
        assert calls == []
        assert pipeline.rows("SELECT DISTINCT status, last_error FROM pagw.deliveries") == [
            ("given_up", INACTIVE_REASON)
        ]
        assert pipeline.rows("SELECT status FROM pagw.subscriptions ORDER BY subscription_id") == [
            ("off",),
            ("active",),
        ]

    await run_scenario(scenario)


async def test_key_lifetime_follows_the_setting() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        view = pipeline.stores.for_component(Stage.subscription_handler.service)
        pipeline.handlers[Stage.subscription_handler] = SubscriptionHandler(
            view, PagwSettings(idempotency_hours=24)
        )
        pagw_id = await pipeline.submit(key="k-24")
        assert await settle_and_get_end(pipeline, pagw_id) == (Status.COMPLETED, "approved")
        record = await pipeline.stores.run(patterns.submission(build_idempotency_key("acme", "k-24")))
        assert record is not None and record.expires_at is not None
        assert record.response_key is not None
        assert record.expires_at.timestamp() == pytest.approx(pipeline.clock.now() + 24 * 3600, abs=1)

    await run_scenario(scenario)


async def test_payer_has_its_own_token_url_scope_and_timeout() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        payer = await get_payer(pipeline.stores, DEFAULT_PAYER)
        assert payer is not None and parse_payer_config(payer.model_dump()).answer_s == 10.0
        changes = {"token_url": "https://tokens.example/t", "scope": "prior-auth", "answer_s": 33.5}
        await register_payer(pipeline.operator, payer.model_copy(update=changes), ANN)
        again = await get_payer(pipeline.stores, DEFAULT_PAYER)
        assert again is not None
        config = parse_payer_config(again.model_dump())
        assert (config.token_address, config.scope, config.answer_s) == (*changes.values(),)

    await run_scenario(scenario)
