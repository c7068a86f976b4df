"""Courses of requests that are out of the ordinary: payers that say nonsense, too early, too often or never; subscribers that
cannot be told; failures that are mended. Whatever happens, no decision is lost and nobody is told anything twice."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from holdfast import open_secrets
from holdfast.core.errors import InvalidRequest, RetryLater
from pagw.demo.sample.bundles import DEFAULT_PAYER, build_request_bundle, build_update_bundle
from pagw.demo.sandbox.payer_rules import PENDED_APPROVED
from pagw.domain.statuses import Stage, Status
from pagw.integrations.payers.config import parse_payer_config
from pagw.model import files, notices, patterns
from pagw.model.audit import Actor
from pagw.model.entities import DeliveryMessage, StageMessage, SubscriptionRow
from pagw.model.registries import get_payer
from pagw.ops import monitoring, request_replay
from pagw.ops.annual_report import build_annual_report
from pagw.ops.registry import register_payer
from pagw.settings import PagwSettings
from pagw.workers import payer_polling
from pagw.workers.intake import build_idempotency_key
from pagw.workers.stages.notifier import INACTIVE_REASON, Notifier
from pagw.workers.stages.subscription_handler import SubscriptionHandler
from pagw.workers.webhook_sender import WebhookSender, restore_announced_state
from tests.contract.pagw.play import Play, play

ANN = Actor("user", "ann")
# In UTC both are of years that no calendar of a program has.
POISON = ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00")
UNREADABLE = "PAYER_ANSWER_UNREADABLE"
HOOK = "https://client.example/hooks/one"


async def pended(told: Play) -> str:
    pagw_id = await told.accepted(items=(PENDED_APPROVED,))
    await told.settle()
    assert (await told.request(pagw_id)).status is Status.PENDED
    return pagw_id


async def ended(told: Play, pagw_id: str) -> tuple[Status, str | None]:
    await told.settle()
    request = await told.request(pagw_id)
    return request.status, request.decision


async def subscribed(told: Play, name: str, **members: Any) -> None:
    row = SubscriptionRow(
        subscription_id=name, tenant="acme", status="active", endpoint=HOOK, organization=None,
        content="full-resource", secret_name=None, created_at=told.now, updated_at=told.now, ends_at=None, events=0,
        error=None,
    )  # fmt: skip
    await told.stores.run(notices.create_subscription(row.model_copy(update=members)))


def deliveries(told: Play) -> dict[str, tuple[int, str]]:
    """By what follows the request's id in theirs: the event's number, and the status that is told."""
    found = told.rows(
        "SELECT delivery_id, event_number, told FROM pagw.deliveries ORDER BY created_at, delivery_id"
    )
    return {id.partition("#")[2]: (number, said["status"]) for id, number, said in found}


def wants_calls(told: Play, pagw_id: str, url: str = HOOK) -> None:
    told.change(
        "UPDATE pagw.request_tracker SET metadata = metadata || %s::jsonb WHERE pagw_id = %s",
        json.dumps({"callbackUrl": url}),
        pagw_id,
    )


async def format_is(told: Play, format: str) -> None:
    payer = await get_payer(told.stores, DEFAULT_PAYER)
    assert payer is not None
    await register_payer(told.operator, payer.model_copy(update={"format": format}), ANN)


def in_hand(message: Any) -> Any:
    """A message as its handler has it."""
    return SimpleNamespace(message=message, receives=1)


# --- what payers say ----------------------------------------------------------------------------------------


def test_an_authorization_stays_when_an_update_of_it_is_superseded_by_another() -> None:
    async def story(told: Play) -> None:
        first = build_request_bundle(reference="A-1")
        approved = await told.submitted(first, "acme", "a")
        assert await ended(told, approved) == (Status.COMPLETED, "approved")
        second = build_update_bundle(first, reference="B-1", added=(PENDED_APPROVED,))
        superseded = await told.submitted(second, "acme", "b")
        await told.settle()
        third = build_update_bundle(second, reference="C-1", cancelled=(2,))
        last = await told.submitted(third, "acme", "c")
        assert await ended(told, last) == (Status.COMPLETED, "approved")
        # The payer says of the pended update that it is none any more.
        await told.called_back(told.payer.state.authorizations[superseded].to_json())
        assert await ended(told, superseded) == (Status.COMPLETED, "cancelled")
        assert await ended(told, approved) == (Status.COMPLETED, "approved")

    play(story)


def test_a_callback_that_makes_no_sense_is_refused_before_it_is_acknowledged_and_nothing_of_it_is_kept() -> (
    None
):
    nonsense: list[tuple[str, dict[str, Any]]] = [
        *(("approved", {"decided_at": each}) for each in POISON),
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

    async def story(told: Play) -> None:
        pagw_id = await pended(told)
        for outcome, members in nonsense:
            with pytest.raises(InvalidRequest):
                await told.call_back(pagw_id, outcome, **members)
        with pytest.raises(InvalidRequest):
            await told.call_back(pagw_id, "pended", "pended", items=[{"sequence": 1, "action": "A1"}])
        assert await ended(told, pagw_id) == (Status.PENDED, None)
        assert "callbacks" not in (await told.request(pagw_id)).metadata
        assert told.rows("SELECT count(*) FROM pagw.audit_log WHERE event_type = 'PAYER_CALLBACK'") == [(0,)]
        await told.call_back(pagw_id, authorization_number="AUTH 7", items=[{"sequence": 1, "action": "A1"}])
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")

    play(story)


def test_an_answer_that_makes_no_sense_ends_its_request_until_the_payer_says_what_it_means() -> None:
    async def story(told: Play) -> None:
        answers: list[dict[str, Any]] = [
            {"decided_at": POISON[0]},
            {"review_action": "A3"},
            {"items": [{"sequence": 7, "action": "A1"}]},
        ]
        for members in answers:
            pagw_id = await told.accepted()
            wants_calls(told, pagw_id)
            await told.settle(until=Stage.api_connector)
            await told.answered(pagw_id, "approved", **members)
            assert await ended(told, pagw_id) == (Status.FAILED, None)
            failed = await told.request(pagw_id)
            assert failed.error_code == UNREADABLE and "Invalid response" in (failed.error_message or "")
            assert failed.metadata["failedAt"] == Status.SUBMITTED
            # Another word that decides nothing changes nothing.
            await told.call_back(pagw_id, "pended", "pended")
            assert await ended(told, pagw_id) == (Status.FAILED, None)
            await told.call_back(pagw_id, authorization_number="AUTH7")
            assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
            again = await told.request(pagw_id)
            assert again.error_code is None and again.metadata["callback"] == "002"
            assert deliveries(told) == {"failed": (1, "FAILED"), "callback": (1, "COMPLETED")}
            told.change("DELETE FROM pagw.deliveries")

    play(story)


def test_a_request_that_failed_by_another_reason_is_not_brought_on_by_a_callback() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted()
        await format_is(told, "x12-278")
        assert await ended(told, pagw_id) == (Status.FAILED, None)
        await told.call_back(pagw_id)
        assert await ended(told, pagw_id) == (Status.FAILED, None)

    play(story)


def test_a_replay_of_what_failed_at_the_payers_words_asks_the_payer_anew() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted()
        await told.settle(until=Stage.api_connector)
        await told.answered(pagw_id, "denied", review_action="A1", reason="no")
        assert await ended(told, pagw_id) == (Status.FAILED, None)
        assert await request_replay.replay(told.operator, pagw_id, ANN) is Stage.api_connector
        again = await told.request(pagw_id)
        assert (again.status, again.stage, again.completed_at) == (Status.PENDED, Stage.payer, None)
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        assert len([each for each in told.payer.ledger if each.get("reference") == pagw_id]) == 1

    play(story)


def test_a_callback_that_decides_nothing_is_a_note_and_the_decision_after_it_is_taken() -> None:
    async def story(told: Play) -> None:
        pagw_id = await pended(told)
        created = (await told.request(pagw_id)).created_at
        before = (await told.stores.run(files.pended_response(created, pagw_id))).body
        await told.call_back(pagw_id, "pended", "pended", reason="We wait for records.")
        assert await ended(told, pagw_id) == (Status.PENDED, None)
        request = await told.request(pagw_id)
        assert (request.stage, request.error_code, request.metadata["interim"]) == (Stage.payer, None, "001")
        renewed = (await told.stores.run(files.pended_response(created, pagw_id))).body
        assert renewed != before and b"We wait for records." in renewed
        steps = told.rows(
            "SELECT event_subtype, details ->> 'callback' FROM pagw.audit_log WHERE pagw_id = %s "
            "AND service_name = 'pascallbackhandler' AND event_type = 'STEP'",
            pagw_id,
        )
        assert steps == [("PENDED", "001")]
        # A replay asks the payer: the newest callback is where it stands.
        assert await request_replay.replay(told.operator, pagw_id, ANN) is Stage.api_connector
        await told.settle()
        await told.call_back(pagw_id, authorization_number="AUTH9")
        await told.call_back(pagw_id, authorization_number="AUTH9")
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        assert set((await told.request(pagw_id)).metadata["callbacks"]) == {"001", "002"}, "the same is one"

    play(story)


def test_a_callback_that_comes_before_the_answer_is_recorded_is_taken_up_however_long_that_takes() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted(items=(PENDED_APPROVED,))
        await told.settle(until=Stage.api_connector)
        await told.call_back(pagw_id, authorization_number="AUTH1")
        handler = told.handlers[Stage.callback_handler]
        message = StageMessage(
            pagw_id=pagw_id,
            tenant="acme",
            stage=Stage.callback_handler,
            occasion="payer-001",
            callback_key="001",
        )
        with pytest.raises(RetryLater) as waits:
            await handler.handle(in_hand(message))
        assert waits.value.retry_after_s is None, "the pauses grow"
        # All its tries are over, and the connector comes back.
        await told.lose(Stage.callback_handler)
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")

    play(story)


# --- what payers do not say ---------------------------------------------------------------------------------


def test_a_payer_that_never_calls_back_is_asked_and_its_decision_is_taken() -> None:
    async def story(told: Play) -> None:
        pagw_id = await pended(told)
        told.payer.state.decide(pagw_id)
        told.clock.move(minutes=59)
        assert await payer_polling.announce_inquiries(told.sweeper) == 0
        told.clock.move(minutes=2)
        assert await payer_polling.announce_inquiries(told.sweeper) == 1
        assert await payer_polling.announce_inquiries(told.sweeper) == 0, "it was asked just now"
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        request = await told.request(pagw_id)
        assert request.decided_at == told.now and request.metadata["callback"] == "001"
        other = await pended(told)
        told.payer.state.decide(other)
        assert await request_replay.replay(told.operator, other, ANN) is Stage.api_connector
        assert await ended(told, other) == (Status.COMPLETED, "approved")

    play(story)


def test_a_payer_is_asked_ever_more_rarely_and_once_more_before_the_decision_is_due() -> None:
    async def story(told: Play) -> None:
        pagw_id = await pended(told)
        request, asked = await told.request(pagw_id), []
        while told.now < request.due_at + timedelta(days=2):
            told.clock.move(minutes=30)
            if await payer_polling.announce_inquiries(told.sweeper):
                asked.append((told.now - request.created_at).total_seconds() / 3600)
                assert await ended(told, pagw_id) == (Status.PENDED, None)
        assert asked[:6] == [1, 2, 4, 8, 16, 32]
        assert 156 in asked, "twelve hours before it is due"
        assert max(later - earlier for earlier, later in pairwise(asked)) <= 24
        assert asked[-1] > 168, "what is late is asked for too"

    play(story)


def test_a_payer_that_cannot_be_asked_leaves_the_request_as_it_is() -> None:
    async def story(told: Play) -> None:
        pagw_id = await pended(told)
        payer = await get_payer(told.stores, DEFAULT_PAYER)
        assert payer is not None
        away = payer.model_copy(update={"api_endpoint": "http://127.0.0.1:9", "auth_type": "none"})
        await register_payer(told.operator, away, ANN)
        told.clock.move(hours=2)
        assert await payer_polling.announce_inquiries(told.sweeper) == 1
        assert await ended(told, pagw_id) == (Status.PENDED, None)

    play(story)


def test_the_clock_of_a_decision_stops_when_it_comes_in_and_not_when_the_payer_says() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted(items=(PENDED_APPROVED,), urgency="expedited")
        await told.settle()
        told.clock.move(hours=80)
        arrived = told.now
        await told.call_back(pagw_id, decided_at=(arrived - timedelta(hours=20)).isoformat())
        told.clock.move(hours=3)  # the pipeline stood still
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        request = await told.request(pagw_id)
        assert request.decided_at == arrived
        assert request.metadata["payerDecidedAt"] == (arrived - timedelta(hours=20)).isoformat()
        expedited = (await build_annual_report(told.operator, 2026)).expedited
        assert (expedited.decided, expedited.decided_in_time, expedited.average_hours) == (1, 0, 80.0)

    play(story)


# --- what clients are told ----------------------------------------------------------------------------------


def test_a_subscription_that_cannot_be_read_is_set_aside_and_everybody_else_is_told() -> None:
    async def story(told: Play) -> None:
        await subscribed(told, "sub-good")
        told.change("ALTER TABLE pagw.subscriptions DROP CONSTRAINT subscriptions_end")
        await subscribed(told, "sub-bad")
        told.change("UPDATE pagw.subscriptions SET ends_at = %s WHERE subscription_id = 'sub-bad'", POISON[0])
        pagw_id = await told.accepted()
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        assert deliveries(told) == {"sub-good": (1, "COMPLETED")}
        standing = told.rows("SELECT subscription_id, status, events FROM pagw.subscriptions ORDER BY 1")
        assert standing == [("sub-bad", "error", 0), ("sub-good", "active", 1)]

    play(story)


def test_a_request_ends_though_its_client_cannot_be_told() -> None:
    async def story(told: Play) -> None:
        good, bad = await told.accepted(), await told.accepted()
        for pagw_id in (good, bad):
            wants_calls(told, pagw_id, f"https://client.example/{'z' * 3000}")
        await told.settle(until=Stage.response_builder)
        told.change(
            "UPDATE pagw.request_tracker SET metadata = metadata || '{\"items\": [9]}' WHERE pagw_id = %s",
            bad,
        )
        assert await ended(told, good) == (Status.COMPLETED, "approved")
        assert await ended(told, bad) == (Status.FAILED, None)
        assert deliveries(told) == {}

    play(story)


def test_a_store_that_refuses_a_value_is_no_verdict_on_the_request() -> None:
    async def story(told: Play) -> None:
        pagw_id = await told.accepted()
        await told.settle(until=Stage.request_converter)
        told.change("ALTER TABLE pagw.request_tracker ADD CONSTRAINT odd CHECK (status <> 'CONVERTED')")
        with pytest.raises(InvalidRequest):
            await told.settle()
        request = await told.request(pagw_id)
        assert (request.status, request.error_code) == (Status.ATTACHMENTS_PROCESSED, None)
        stuck = await told.operator.run(monitoring.stuck_since(told.now + timedelta(minutes=31)))
        assert [each.pagw_id for each in stuck] == [pagw_id]

    play(story)


def test_each_end_of_a_request_is_told_once_and_events_are_numbered_without_gaps() -> None:
    async def story(told: Play) -> None:
        await subscribed(told, "sub-1")
        pagw_id = await told.accepted()
        wants_calls(told, pagw_id)
        await format_is(told, "x12-278")
        assert await ended(told, pagw_id) == (Status.FAILED, None)
        first = await told.stores.run(notices.delivery("acme", f"{pagw_id}#failed"))
        await request_replay.replay(told.operator, pagw_id, ANN)
        assert await ended(told, pagw_id) == (Status.FAILED, None)
        handler = told.handlers[Stage.subscription_handler]
        late = StageMessage(
            pagw_id=pagw_id, tenant="acme", stage=Stage.subscription_handler, occasion="failed-1b"
        )
        await handler.handle(in_hand(late))
        await format_is(told, "json")
        await request_replay.replay(told.operator, pagw_id, ANN)
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        assert deliveries(told) == {
            "failed": (1, "FAILED"),
            "failed-2": (1, "FAILED"),
            "callback": (1, "COMPLETED"),
            "sub-1#f": (1, "FAILED"),
            "sub-1#f-2": (2, "FAILED"),
            "sub-1": (3, "COMPLETED"),
        }
        # What is told of the failure is the failure, though the request is completed by now.
        assert first is not None
        as_it_stood = restore_announced_state(first, await told.request(pagw_id))
        assert (as_it_stood.status, as_it_stood.error_code) == (Status.FAILED, "FORMAT_NOT_BUILT")
        assert as_it_stood.decision is None and as_it_stood.completed_at == first.created_at

    play(story)


def test_nothing_is_sent_to_an_endpoint_whose_subscription_has_ended() -> None:
    async def story(told: Play) -> None:
        for name in ("sub-off", "sub-over"):
            await subscribed(told, name)
        pagw_id = await told.accepted()
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        told.change("UPDATE pagw.subscriptions SET status = 'off' WHERE subscription_id = 'sub-off'")
        told.change("UPDATE pagw.subscriptions SET ends_at = %s WHERE subscription_id = 'sub-over'", told.now)
        calls: list[httpx2.Request] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            calls.append(request)
            return httpx2.Response(200)

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
            stores = told.stores.for_component("pasnotifier")
            notifier = Notifier(WebhookSender(stores, http, open_secrets(), PagwSettings()))
            for name in ("sub-off", "sub-over"):
                message = DeliveryMessage(delivery_id=f"{pagw_id}#{name}", pagw_id=pagw_id, tenant="acme")
                await notifier.handle(in_hand(message))
        assert calls == []
        assert told.rows("SELECT DISTINCT status, last_error FROM pagw.deliveries") == [
            ("given_up", INACTIVE_REASON)
        ]
        assert told.rows("SELECT status FROM pagw.subscriptions ORDER BY subscription_id") == [
            ("off",),
            ("active",),
        ]

    play(story)


# --- what is set --------------------------------------------------------------------------------------------


def test_a_key_lives_as_long_as_it_is_set_to_when_its_request_ends() -> None:
    async def story(told: Play) -> None:
        view = told.stores.for_component(Stage.subscription_handler.service)
        told.handlers[Stage.subscription_handler] = SubscriptionHandler(
            view, PagwSettings(idempotency_hours=24)
        )
        pagw_id = await told.accepted(key="k-24")
        assert await ended(told, pagw_id) == (Status.COMPLETED, "approved")
        record = await told.stores.run(patterns.submission(build_idempotency_key("acme", "k-24")))
        assert record is not None and record.expires_at is not None
        assert record.response_key is not None
        assert record.expires_at.timestamp() == pytest.approx(told.clock.now() + 24 * 3600, abs=1)

    play(story)


def test_a_payer_has_its_own_place_for_tokens_its_scope_and_its_patience() -> None:
    async def story(told: Play) -> None:
        payer = await get_payer(told.stores, DEFAULT_PAYER)
        assert payer is not None and parse_payer_config(payer.model_dump()).answer_s == 10.0
        changes = {"token_url": "https://tokens.example/t", "scope": "prior-auth", "answer_s": 33.5}
        await register_payer(told.operator, payer.model_copy(update=changes), ANN)
        again = await get_payer(told.stores, DEFAULT_PAYER)
        assert again is not None
        config = parse_payer_config(again.model_dump())
        assert (config.token_address, config.scope, config.answer_s) == (*changes.values(),)

    play(story)
