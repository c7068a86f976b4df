"""The worker against a sandbox help desk: each event once and in order, despite dead workers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.errors import InProgress
from holdfast.guarantees import Claim, OnceStatus
from holdfast.operations.queues import Redrive
from holdfast.operations.tables import DeleteTable, Scan
from richpanel.domain.rules import HANDED_OVER_TAG
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns
from richpanel.model.entities import TABLES, ActionType, IdempotencyRecord, Mode, RecordKind, events, switches
from tests.systems.richpanel.acceptance.middleware import START, STATUS, Middleware, run, start_middleware

ROUTED = [("assign", "orders"), ("tag", "mw-routed")]
STATUS_REPLY = (
    "message",
    "Hello, your order ending in 8156 is now: shipped. It travels with DHL. It is expected on 2026-02-06.",
)
DAY_S = 86400.0


@pytest.mark.proves("RP-39")
@pytest.mark.proves("RP-7")
@pytest.mark.proves("RP-20")
@pytest.mark.proves("RP-28")
@pytest.mark.proves("RP-46")
def test_record_state_and_audit_of_an_event_agree() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            event_id = await middleware.send(STATUS)
            await middleware.drain_queue()

            assert middleware.effects == [*ROUTED, STATUS_REPLY]
            record, state = await middleware.get_record(event_id), await middleware.get_state()
            assert record is not None and state is not None
            assert (record.kind, record.status) == (RecordKind.event, OnceStatus.PROCESSED)
            assert (record.mode, record.intent) == (Mode.automation_candidate, "order_status")
            assert (record.safe_mode, record.automation_enabled) == (False, True)
            assert (record.source_message_id, record.conversation_id) == ("m-1", "c-1")
            assert record.created_at and record.received_at and record.last_processed_at
            assert (state.last_routed_team, state.last_intent) == ("orders", "order_status")
            assert state.last_processed_message_id == "m-1"
            assert state.last_auto_reply is not None
            assert state.last_auto_reply.type == "order_status"
            entries = await middleware.list_audit()
            assert [each.action_type for each in entries] == [
                ActionType.route,
                ActionType.tag,
                ActionType.auto_reply,
            ]
            assert [each.idempotency_key for each in entries] == [
                each.reference for each in middleware.ledger
            ]

    run(test())


@pytest.mark.proves("RP-4")
@pytest.mark.proves("RP-8")
@pytest.mark.proves("RP-22")
@pytest.mark.proves("RP-29")
def test_every_stored_item_has_an_expiry() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            await middleware.drain_queue()
            days = {"rp_mw_idempotency": 30, "rp_mw_conversation_state": 90, "rp_mw_audit_actions": 60}
            days["rp_mw_customers"] = 91
            days["rp_mw_customers"] = 91
            for table in TABLES:
                page = await middleware.stores.tables.run(Scan(middleware.stores.physical_name(table)))
                assert page.count > 0
                for item in page.items or ():
                    left_s = float(str(item["expires_at"])) - middleware.clock.now()
                    assert abs(left_s - days.get(table.name, 365) * DAY_S) < 120, (table.name, item)

    run(test())


@pytest.mark.proves("RP-41")
@pytest.mark.proves("RP-X17")
def test_one_of_concurrent_workers_acts_and_the_others_retry() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            event_id = await middleware.send(STATUS)
            [received] = await middleware.receive()
            workers = [middleware.build_worker() for _ in range(8)]
            ends = await asyncio.gather(*(each.handle(received) for each in workers), return_exceptions=True)

            assert ends.count(None) >= 1
            assert all(each is None or isinstance(each, InProgress) for each in ends), ends
            assert any(isinstance(each, InProgress) for each in ends)
            assert middleware.effects == ROUTED
            record = await middleware.get_record(event_id)
            assert record is not None and record.attempts == 1

    run(test())


@pytest.mark.proves("RP-X17")
def test_copy_of_an_event_in_progress_stays_queued() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS)
            await middleware.deliver(payload)
            claim = await _claim_event(middleware)
            assert await middleware.attempt() == 0
            assert (await middleware.get_queue_report()).waiting.backlog == 1
            await claim.complete()
            await middleware.drain_queue()
            assert middleware.effects == []  # the other worker has done it

    run(test())


@pytest.mark.proves("RP-17")
@pytest.mark.proves("RP-1")
def test_copy_after_the_deduplication_window_is_dropped() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            payload = middleware.write(STATUS)
            for _ in range(3):
                await middleware.deliver(payload)
                middleware.clock.advance(600)
                assert (await middleware.get_queue_report()).waiting.backlog == 1
                await middleware.drain_queue()
            assert middleware.effects == ROUTED

    run(test())


@pytest.mark.proves("RP-X3")
def test_event_of_a_dead_worker_is_taken_over_after_its_lease() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            event_id = await middleware.send(STATUS)
            await _claim_event(middleware)
            assert await middleware.attempt() == 0
            middleware.clock.advance(patterns.LEASE_S + 1)
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            record = await middleware.get_record(event_id)
            assert record is not None and record.attempts == 2

    run(test())


@pytest.mark.proves("RP-X4")
def test_event_is_processed_again_after_its_record_expired() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            event_id = await middleware.send(STATUS)
            claim = await _claim_event(middleware)
            done = (await claim.complete()).record
            past = datetime.fromtimestamp(middleware.clock.now() - 5, UTC)
            await middleware.stores.run(IdempotencyRecord.put(done.model_copy(update={"expires_at": past})))
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            record = await middleware.get_record(event_id)
            assert record is not None and record.attempts == 1

    run(test())


@pytest.mark.proves("RP-42")
@pytest.mark.proves("RP-25")
def test_waiting_conversation_keeps_its_order_and_does_not_block_others() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            first = await middleware.send("I can't log in")
            middleware.set_faults(too_many=1.0, retry_after_s=17)
            assert await middleware.attempt() == 0
            middleware.set_faults()
            second = await middleware.send("where is my order")
            await middleware.send("forgot my password", "c-2")
            await middleware.send("forgot my password", "c-3")

            together = await middleware.receive()
            assert {each.message.conversation_id for each in together} == {"c-2", "c-3"}
            middleware.clock.advance(60)
            await middleware.drain_queue()
            of_first = [each.reference for each in middleware.ledger if each.ticket_id == "c-1"]
            messages = [each.rpartition(":")[2] for each in of_first]
            assert messages == sorted(messages, key=[first[-3:], second[-3:]].index)
            assert {each.ticket_id for each in middleware.ledger} == {"c-1", "c-2", "c-3"}

    run(test())


@pytest.mark.proves("RP-42")
def test_older_event_is_only_routed() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            older = middleware.write(STATUS)
            await middleware.send("I can't log in")
            await middleware.drain_queue()
            await middleware.deliver(older)
            await middleware.drain_queue()
            assert middleware.effects[-2:] == ROUTED
            assert STATUS_REPLY not in middleware.effects
            assert "older than the last event" in (await middleware.list_audit())[-1].payload

    run(test())


@pytest.mark.proves("RP-40")
def test_waits_as_long_as_the_help_desk_says_after_a_429() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(STATUS)
            middleware.set_faults(too_many=1.0, retry_after_s=17)
            assert await middleware.attempt() == 0
            middleware.set_faults()
            middleware.clock.advance(16)
            assert await middleware.receive() == ()
            middleware.clock.advance(2)
            assert await middleware.attempt() == 1
            assert middleware.effects == ROUTED

    run(test())


@pytest.mark.proves("RP-40")
def test_rate_limited_help_desk_gets_every_effect_once() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            for number in range(30):
                await middleware.send("I can't log in", f"c-{number}")
            middleware.set_faults(calls_max=50, window_s=30, retry_after_s=30)
            await middleware.drain_queue()
            assert middleware.sandbox.too_many > 0
            assert (await middleware.get_queue_report()).dead == 0
            assert len({each.reference for each in middleware.ledger}) == len(middleware.ledger) == 60

    run(test())


@pytest.mark.proves("RP-40")
@pytest.mark.proves("RP-1")
def test_redriven_dead_letters_reuse_their_keys() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            event_id = await middleware.send(STATUS)
            middleware.set_faults(failed_after=1.0)
            await middleware.attempt()  # the first effect happens, but its response is lost
            middleware.set_faults(failed_before=1.0)
            while (await middleware.get_queue_report()).dead == 0:
                await middleware.attempt()
                middleware.clock.advance(60)
            assert middleware.effects == ROUTED[:1]

            middleware.set_faults()
            names = events.physical_name("", dead_letter=True), events.physical_name("")
            assert await middleware.stores.engines.get("queues").run(Redrive(*names)) == 1
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            record = await middleware.get_record(event_id)
            assert record is not None and record.status is OnceStatus.PROCESSED
            assert [each.idempotency_key for each in await middleware.list_audit()] == [
                "act:rp_assign:c-1:orders:m-1",
                "act:rp_tag:c-1:mw-routed:m-1",
            ]

    run(test())


# --- switches -----------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-39")
@pytest.mark.proves("RP-X18")
def test_unreadable_switches_mean_safe_mode() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.stores.tables.run(DeleteTable(middleware.stores.physical_name(switches)))
            event_id = await middleware.send(STATUS)
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            record = await middleware.get_record(event_id)
            assert record is not None
            assert (record.mode, record.safe_mode) == (Mode.route_only, True)
            assert "could not be read" in (await middleware.list_audit())[0].payload

    run(test())


@pytest.mark.proves("RP-X18")
def test_cached_switches_last_half_a_minute() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            worker = middleware.build_worker()
            await middleware.send("I can't log in")
            await middleware.drain_queue(worker)
            await middleware.stores.tables.run(DeleteTable(middleware.stores.physical_name(switches)))
            await middleware.send(STATUS, "c-2")
            await middleware.drain_queue(worker)
            assert STATUS_REPLY in middleware.effects
            middleware.clock.advance(31)
            await middleware.send(STATUS, "c-3")
            await middleware.drain_queue(worker)
            assert [each.effect for each in middleware.ledger if each.ticket_id == "c-3"] == ["assign", "tag"]

    run(test())


@pytest.mark.proves("RP-46")
@pytest.mark.proves("RP-39")
@pytest.mark.parametrize(
    "given",
    [
        {"safe_mode": True},
        {"automation_enabled": False},
        {"channels": ("chat",)},
    ],
)
def test_event_is_only_routed_if_one_switch_or_the_rollout_is_missing(given: dict[str, Any]) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            channels = given.pop("channels", ("email",))
            await middleware.enable_automation(*channels, **given)
            event_id = await middleware.send(STATUS)
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            record = await middleware.get_record(event_id)
            assert record is not None and record.mode is Mode.route_only

    given = dict(given)
    run(test())


@pytest.mark.proves("RP-39")
def test_shadow_mode_records_the_reply_and_does_not_send_it() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email", automation_enabled=False, shadow=True)
            await middleware.send(STATUS)
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            shadows = [each for each in await middleware.list_audit() if each.shadow]
            assert [(each.action_type, each.parsed_payload["target"]) for each in shadows] == [
                (ActionType.auto_reply, "order_status")
            ]
            state = await middleware.get_state()
            assert state is not None and state.last_auto_reply is None

    run(test())


@pytest.mark.proves("RP-39")
def test_changed_switch_withdraws_the_reply_but_not_the_routing() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            middleware.set_faults(failed_after=1.0)
            assert await middleware.attempt() == 0
            middleware.set_faults()
            await middleware.enable_automation("email", safe_mode=True)
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            state = await middleware.get_state()
            assert state is not None
            assert (state.last_auto_reply, state.replies) == (None, {})

    run(test())


@pytest.mark.proves("RP-39")
@pytest.mark.proves("RP-24")
def test_reply_sent_before_a_switch_change_is_found_and_recorded() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            middleware.set_faults(failed_after=1.0)
            worker = middleware.build_worker()
            while STATUS_REPLY not in middleware.effects:
                await middleware.attempt(worker)
                middleware.clock.advance(1)
            middleware.set_faults()
            await middleware.enable_automation("email", safe_mode=True)
            await middleware.drain_queue()
            assert middleware.effects == [*ROUTED, STATUS_REPLY]
            assert (await middleware.list_audit())[-1].action_type is ActionType.auto_reply
            state = await middleware.get_state()
            assert state is not None and state.replies["order_status"].count == 1

    run(test())


def test_plan_with_an_obsolete_reply_finishes_without_it() -> None:
    """The order exists at the first attempt and is gone at the second."""

    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS)
            middleware.set_faults(failed_after=1.0)
            assert await middleware.attempt() == 0
            middleware.set_faults()
            middleware.sandbox.shop._orders.clear()
            await middleware.drain_queue()
            assert middleware.effects == ROUTED
            assert (await middleware.get_queue_report()).dead == 0

    run(test())


# --- state --------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-26")
@pytest.mark.proves("RP-X10")
def test_concurrent_state_changes_are_both_kept() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send("I can't log in")
            await middleware.drain_queue()
            before = await middleware.get_state()
            assert before is not None

            class InterferingHelpDesk(HelpDeskClient):
                async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
                    seen = await middleware.get_state()
                    assert seen is not None
                    changed = seen.model_copy(update={"risk_flags": frozenset({"chargeback"})})
                    await middleware.stores.run(patterns.put_state(changed, seen.version))
                    return await super().assign(ticket_id, team, reference)

            await middleware.send("where is my order")
            await middleware.drain_queue(middleware.build_worker(InterferingHelpDesk(middleware.desk_http)))
            after = await middleware.get_state()
            assert after is not None
            assert (after.version, after.risk_flags) == (before.version + 2, frozenset({"chargeback"}))
            assert after.last_intent == "order_status"
            assert len(middleware.ledger) == 4

    run(test())


@pytest.mark.proves("RP-23")
@pytest.mark.proves("RP-X9")
def test_number_after_an_expired_question_gets_no_reply() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send("where is my order")
            await middleware.drain_queue()
            state = await middleware.get_state()
            assert state is not None and state.pending_flow is not None
            middleware.clock.advance(15 * DAY_S)
            await middleware.send("2378156")
            await middleware.drain_queue()
            assert [each.effect for each in middleware.ledger].count("message") == 1
            later = await middleware.get_state()
            assert later is not None and later.pending_flow is None

    run(test())


@pytest.mark.proves("RP-24")
@pytest.mark.proves("RP-21")
def test_asks_for_the_order_number_a_few_times_then_hands_over() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            for text in ("where is my order", "it is #X9999999", "it is #X9999998", STATUS):
                await middleware.send(text)
                await middleware.drain_queue()
            messages = [value for effect, value in middleware.effects if effect == "message"]
            assert len(messages) == 3
            assert messages[-1].startswith("Thank you. One of our team")
            assert ("tag", HANDED_OVER_TAG) in middleware.effects
            state = await middleware.get_state()
            assert state is not None and state.handed_over
            assert STATUS_REPLY not in middleware.effects  # handed over to a person

    run(test())


@pytest.mark.proves("RP-14")
@pytest.mark.proves("RP-18")
def test_handover_to_the_current_team_uses_one_key() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            for text in (
                "where is my order",
                "I want to talk to a human",
                "it is #X9999999",
                "it is #X9999998",
            ):
                await middleware.send(text)
                await middleware.drain_queue()
            record, state = await middleware.get_record("evt:rp:c-1:m-4"), await middleware.get_state()
            assert record is not None and record.status is OnceStatus.PROCESSED
            assert state is not None and state.handed_over
            references = [each.reference for each in middleware.ledger]
            assert len(references) == len(set(references))
            assert references.count("act:rp_assign:c-1:care:m-4") == 1

    run(test())


@pytest.mark.proves("RP-X6")
def test_event_fails_if_its_action_key_has_another_payload() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            event_id = await middleware.send(STATUS)
            await patterns.ACTIONS.claim(
                middleware.stores,
                IdempotencyRecord(
                    event_id="act:rp_assign:c-1:orders:m-1",
                    kind=RecordKind.action,
                    conversation_id="c-1",
                    payload_sha256="0" * 64,
                    action_type=ActionType.route,
                    of_event=event_id,
                    expires_at=START + timedelta(days=30),
                ),
            )
            assert await middleware.attempt() == 0
            assert (await middleware.get_queue_report()).waiting.backlog == 1
            record = await middleware.get_record(event_id)
            assert record is not None and record.status is OnceStatus.FAILED

    run(test())


@pytest.mark.proves("RP-46")
def test_another_customers_order_is_not_revealed() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.enable_automation("email")
            await middleware.send(STATUS, email="somebody.else@mail.example")
            await middleware.drain_queue()
            [said] = [value for effect, value in middleware.effects if effect == "message"]
            assert "shipped" not in said

    run(test())


async def _claim_event(middleware: Middleware) -> Claim[Any]:
    """Claim the event like a worker that died right after its claim."""
    [message] = [each.message for each in await _peek(middleware)]
    worker = middleware.build_worker()
    claim = await patterns.EVENTS.claim(
        middleware.stores, worker._build_record(message, await worker.flag_reader.read())
    )
    assert isinstance(claim, Claim)
    return claim


async def _peek(middleware: Middleware) -> tuple[Any, ...]:
    """Receive the visible messages and release them at once."""
    received = await middleware.receive()
    for each in received:
        await middleware.stores.for_component("worker").run(events.consumer.change_visibility(each, 0.0))
    return received
