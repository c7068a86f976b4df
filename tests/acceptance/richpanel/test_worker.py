"""The worker: an event is processed once, whoever dies over it and however often it comes, and in its order."""

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
from tests.acceptance.richpanel.stage import START, STATUS, Stage, run, staged

ROUTED = [("assign", "orders"), ("tag", "mw-routed")]
TOLD = (
    "message",
    "Hello, your order ending in 8156 is now: shipped. It travels with DHL. It is expected on 2026-02-06.",
)
DAY_S = 86400.0


@pytest.mark.proves("RP-39")
@pytest.mark.proves("RP-7")
@pytest.mark.proves("RP-20")
@pytest.mark.proves("RP-28")
@pytest.mark.proves("RP-46")
def test_an_event_leaves_its_record_the_state_and_an_audit_that_fit_together() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            event_id = await stage.says(STATUS)
            await stage.work_off()

            assert stage.effects == [*ROUTED, TOLD]
            record, state = await stage.record(event_id), await stage.state()
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
            entries = await stage.audit()
            assert [each.action_type for each in entries] == [
                ActionType.route,
                ActionType.tag,
                ActionType.auto_reply,
            ]
            assert [each.idempotency_key for each in entries] == [each.reference for each in stage.ledger]

    run(test())


@pytest.mark.proves("RP-4")
@pytest.mark.proves("RP-8")
@pytest.mark.proves("RP-22")
@pytest.mark.proves("RP-29")
def test_every_item_of_every_table_has_its_end() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS)
            await stage.work_off()
            days = {"rp_mw_idempotency": 30, "rp_mw_conversation_state": 90, "rp_mw_audit_actions": 60}
            days["rp_mw_customers"] = 91
            days["rp_mw_customers"] = 91
            for table in TABLES:
                page = await stage.stores.tables.run(Scan(stage.stores.physical_name(table)))
                assert page.count > 0
                for item in page.items or ():
                    left_s = float(str(item["expires_at"])) - stage.clock.now()
                    assert abs(left_s - days.get(table.name, 365) * DAY_S) < 120, (table.name, item)

    run(test())


@pytest.mark.proves("RP-41")
@pytest.mark.proves("RP-X17")
def test_of_workers_that_take_one_event_at_the_same_time_one_acts_and_the_others_come_again() -> None:
    async def test() -> None:
        async with staged() as stage:
            event_id = await stage.says(STATUS)
            [received] = await stage.receive()
            workers = [stage.worker() for _ in range(8)]
            ends = await asyncio.gather(*(each.handle(received) for each in workers), return_exceptions=True)

            assert ends.count(None) >= 1
            assert all(each is None or isinstance(each, InProgress) for each in ends), ends
            assert any(isinstance(each, InProgress) for each in ends)
            assert stage.effects == ROUTED
            record = await stage.record(event_id)
            assert record is not None and record.attempts == 1

    run(test())


@pytest.mark.proves("RP-X17")
def test_a_copy_of_what_is_in_work_stays_in_the_queue_until_that_is_done() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS)
            await stage.deliver(payload)
            claim = await _claimed(stage)
            assert await stage.attempt() == 0
            assert (await stage.queue()).waiting.backlog == 1
            await claim.complete()
            await stage.work_off()
            assert stage.effects == []  # it was done by the other

    run(test())


@pytest.mark.proves("RP-17")
@pytest.mark.proves("RP-1")
def test_a_copy_that_comes_after_the_queues_window_is_dropped_by_its_record() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write(STATUS)
            for _ in range(3):
                await stage.deliver(payload)
                stage.clock.advance(600)
                assert (await stage.queue()).waiting.backlog == 1
                await stage.work_off()
            assert stage.effects == ROUTED

    run(test())


@pytest.mark.proves("RP-X3")
def test_an_event_whose_worker_died_after_its_claim_is_taken_over_when_the_lease_is_over() -> None:
    async def test() -> None:
        async with staged() as stage:
            event_id = await stage.says(STATUS)
            await _claimed(stage)
            assert await stage.attempt() == 0
            stage.clock.advance(patterns.LEASE_S + 1)
            await stage.work_off()
            assert stage.effects == ROUTED
            record = await stage.record(event_id)
            assert record is not None and record.attempts == 2

    run(test())


@pytest.mark.proves("RP-X4")
def test_a_record_whose_time_is_over_does_not_block_though_the_store_still_has_it() -> None:
    async def test() -> None:
        async with staged() as stage:
            event_id = await stage.says(STATUS)
            claim = await _claimed(stage)
            done = (await claim.complete()).record
            past = datetime.fromtimestamp(stage.clock.now() - 5, UTC)
            await stage.stores.run(IdempotencyRecord.put(done.model_copy(update={"expires_at": past})))
            await stage.work_off()
            assert stage.effects == ROUTED
            record = await stage.record(event_id)
            assert record is not None and record.attempts == 1

    run(test())


@pytest.mark.proves("RP-42")
@pytest.mark.proves("RP-25")
def test_while_one_conversation_rests_its_order_holds_and_others_go_on() -> None:
    async def test() -> None:
        async with staged() as stage:
            first = await stage.says("I can't log in")
            stage.fail(too_many=1.0, retry_after_s=17)
            assert await stage.attempt() == 0
            stage.fail()
            second = await stage.says("where is my order")
            await stage.says("forgot my password", "c-2")
            await stage.says("forgot my password", "c-3")

            together = await stage.receive()
            assert {each.message.conversation_id for each in together} == {"c-2", "c-3"}
            stage.clock.advance(60)
            await stage.work_off()
            of_first = [each.reference for each in stage.ledger if each.ticket_id == "c-1"]
            messages = [each.rpartition(":")[2] for each in of_first]
            assert messages == sorted(messages, key=[first[-3:], second[-3:]].index)
            assert {each.ticket_id for each in stage.ledger} == {"c-1", "c-2", "c-3"}

    run(test())


@pytest.mark.proves("RP-42")
def test_an_event_older_than_the_last_one_is_routed_and_triggers_nothing() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            older = stage.write(STATUS)
            await stage.says("I can't log in")
            await stage.work_off()
            await stage.deliver(older)
            await stage.work_off()
            assert stage.effects[-2:] == ROUTED
            assert TOLD not in stage.effects
            assert "older than the last event" in (await stage.audit())[-1].payload

    run(test())


@pytest.mark.proves("RP-40")
def test_after_too_many_requests_the_event_rests_for_as_long_as_the_help_desk_says() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(STATUS)
            stage.fail(too_many=1.0, retry_after_s=17)
            assert await stage.attempt() == 0
            stage.fail()
            stage.clock.advance(16)
            assert await stage.receive() == ()
            stage.clock.advance(2)
            assert await stage.attempt() == 1
            assert stage.effects == ROUTED

    run(test())


@pytest.mark.proves("RP-40")
def test_a_help_desk_that_takes_fifty_requests_in_half_a_minute_gets_all_effects_once() -> None:
    async def test() -> None:
        async with staged() as stage:
            for number in range(30):
                await stage.says("I can't log in", f"c-{number}")
            stage.fail(calls_max=50, window_s=30, retry_after_s=30)
            await stage.work_off()
            assert stage.sandbox.too_many > 0
            assert (await stage.queue()).dead == 0
            assert len({each.reference for each in stage.ledger}) == len(stage.ledger) == 60

    run(test())


@pytest.mark.proves("RP-40")
@pytest.mark.proves("RP-1")
def test_what_failed_too_often_comes_back_from_the_dead_letters_under_the_same_keys() -> None:
    async def test() -> None:
        async with staged() as stage:
            event_id = await stage.says(STATUS)
            stage.fail(failed_after=1.0)
            await stage.attempt()  # the first effect happens, and nobody knows
            stage.fail(failed_before=1.0)
            while (await stage.queue()).dead == 0:
                await stage.attempt()
                stage.clock.advance(60)
            assert stage.effects == ROUTED[:1]

            stage.fail()
            names = events.physical_name("", dead_letter=True), events.physical_name("")
            assert await stage.stores.engines.get("queues").run(Redrive(*names)) == 1
            await stage.work_off()
            assert stage.effects == ROUTED
            record = await stage.record(event_id)
            assert record is not None and record.status is OnceStatus.PROCESSED
            assert [each.idempotency_key for each in await stage.audit()] == [
                "act:rp_assign:c-1:orders:m-1",
                "act:rp_tag:c-1:mw-routed:m-1",
            ]

    run(test())


# --- switches -----------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-39")
@pytest.mark.proves("RP-X18")
def test_switches_that_cannot_be_read_mean_safe_mode() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.stores.tables.run(DeleteTable(stage.stores.physical_name(switches)))
            event_id = await stage.says(STATUS)
            await stage.work_off()
            assert stage.effects == ROUTED
            record = await stage.record(event_id)
            assert record is not None
            assert (record.mode, record.safe_mode) == (Mode.route_only, True)
            assert "could not be read" in (await stage.audit())[0].payload

    run(test())


@pytest.mark.proves("RP-X18")
def test_switches_that_were_read_once_count_for_half_a_minute_and_then_mean_safe_mode() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            worker = stage.worker()
            await stage.says("I can't log in")
            await stage.work_off(worker)
            await stage.stores.tables.run(DeleteTable(stage.stores.physical_name(switches)))
            await stage.says(STATUS, "c-2")
            await stage.work_off(worker)
            assert TOLD in stage.effects
            stage.clock.advance(31)
            await stage.says(STATUS, "c-3")
            await stage.work_off(worker)
            assert [each.effect for each in stage.ledger if each.ticket_id == "c-3"] == ["assign", "tag"]

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
def test_without_the_switch_or_the_channels_rollout_an_event_is_only_routed(given: dict[str, Any]) -> None:
    async def test() -> None:
        async with staged() as stage:
            channels = given.pop("channels", ("email",))
            await stage.automate(*channels, **given)
            event_id = await stage.says(STATUS)
            await stage.work_off()
            assert stage.effects == ROUTED
            record = await stage.record(event_id)
            assert record is not None and record.mode is Mode.route_only

    given = dict(given)
    run(test())


@pytest.mark.proves("RP-39")
def test_shadow_mode_writes_down_what_it_would_have_done_and_does_not_do_it() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email", automation_enabled=False, shadow=True)
            await stage.says(STATUS)
            await stage.work_off()
            assert stage.effects == ROUTED
            shadows = [each for each in await stage.audit() if each.shadow]
            assert [(each.action_type, each.parsed_payload["target"]) for each in shadows] == [
                (ActionType.auto_reply, "order_status")
            ]
            state = await stage.state()
            assert state is not None and state.last_auto_reply is None

    run(test())


@pytest.mark.proves("RP-39")
def test_a_switch_turned_between_two_attempts_withdraws_the_answer_and_not_the_routing() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS)
            stage.fail(failed_after=1.0)
            assert await stage.attempt() == 0
            stage.fail()
            await stage.automate("email", safe_mode=True)
            await stage.work_off()
            assert stage.effects == ROUTED
            state = await stage.state()
            assert state is not None
            assert (state.last_auto_reply, state.replies) == (None, {})

    run(test())


@pytest.mark.proves("RP-39")
@pytest.mark.proves("RP-24")
def test_an_answer_that_had_been_sent_before_the_switch_was_turned_is_found_and_recorded() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS)
            stage.fail(failed_after=1.0)
            worker = stage.worker()
            while TOLD not in stage.effects:
                await stage.attempt(worker)
                stage.clock.advance(1)
            stage.fail()
            await stage.automate("email", safe_mode=True)
            await stage.work_off()
            assert stage.effects == [*ROUTED, TOLD]
            assert (await stage.audit())[-1].action_type is ActionType.auto_reply
            state = await stage.state()
            assert state is not None and state.replies["order_status"].count == 1

    run(test())


def test_a_plan_whose_answer_holds_no_more_is_finished_without_it() -> None:
    """The order was there at the first attempt, and is gone at the second."""

    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS)
            stage.fail(failed_after=1.0)
            assert await stage.attempt() == 0
            stage.fail()
            stage.sandbox.shop._orders.clear()
            await stage.work_off()
            assert stage.effects == ROUTED
            assert (await stage.queue()).dead == 0

    run(test())


# --- state --------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-26")
@pytest.mark.proves("RP-X10")
def test_a_state_that_another_changed_meanwhile_is_read_again_and_loses_neither_change() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says("I can't log in")
            await stage.work_off()
            before = await stage.state()
            assert before is not None

            class Meddling(HelpDeskClient):
                async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
                    seen = await stage.state()
                    assert seen is not None
                    changed = seen.model_copy(update={"risk_flags": frozenset({"chargeback"})})
                    await stage.stores.run(patterns.put_state(changed, seen.version))
                    return await super().assign(ticket_id, team, reference)

            await stage.says("where is my order")
            await stage.work_off(stage.worker(Meddling(stage.desk_http)))
            after = await stage.state()
            assert after is not None
            assert (after.version, after.risk_flags) == (before.version + 2, frozenset({"chargeback"}))
            assert after.last_intent == "order_status"
            assert len(stage.ledger) == 4

    run(test())


@pytest.mark.proves("RP-23")
@pytest.mark.proves("RP-X9")
def test_a_question_that_was_asked_too_long_ago_is_pending_no_more_though_the_item_holds_it() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says("where is my order")
            await stage.work_off()
            state = await stage.state()
            assert state is not None and state.pending_flow is not None
            stage.clock.advance(15 * DAY_S)
            await stage.says("2378156")
            await stage.work_off()
            assert [each.effect for each in stage.ledger].count("message") == 1
            later = await stage.state()
            assert later is not None and later.pending_flow is None

    run(test())


@pytest.mark.proves("RP-24")
@pytest.mark.proves("RP-21")
def test_an_order_number_is_asked_for_a_few_times_and_then_a_person_takes_over() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            for text in ("where is my order", "it is #X9999999", "it is #X9999998", STATUS):
                await stage.says(text)
                await stage.work_off()
            messages = [value for effect, value in stage.effects if effect == "message"]
            assert len(messages) == 3
            assert messages[-1].startswith("Thank you. One of our team")
            assert ("tag", HANDED_OVER_TAG) in stage.effects
            state = await stage.state()
            assert state is not None and state.handed_over
            assert TOLD not in stage.effects  # a person has it now

    run(test())


@pytest.mark.proves("RP-14")
@pytest.mark.proves("RP-18")
def test_a_person_takes_over_under_one_key_where_that_team_has_the_conversation_already() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            for text in (
                "where is my order",
                "I want to talk to a human",
                "it is #X9999999",
                "it is #X9999998",
            ):
                await stage.says(text)
                await stage.work_off()
            record, state = await stage.record("evt:rp:c-1:m-4"), await stage.state()
            assert record is not None and record.status is OnceStatus.PROCESSED
            assert state is not None and state.handed_over
            references = [each.reference for each in stage.ledger]
            assert len(references) == len(set(references))
            assert references.count("act:rp_assign:c-1:care:m-4") == 1

    run(test())


@pytest.mark.proves("RP-X6")
def test_an_action_key_that_was_used_for_something_else_is_a_failure_and_not_a_copy() -> None:
    async def test() -> None:
        async with staged() as stage:
            event_id = await stage.says(STATUS)
            await patterns.ACTIONS.claim(
                stage.stores,
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
            assert await stage.attempt() == 0
            assert (await stage.queue()).waiting.backlog == 1
            record = await stage.record(event_id)
            assert record is not None and record.status is OnceStatus.FAILED

    run(test())


@pytest.mark.proves("RP-46")
def test_an_order_of_somebody_else_is_not_spoken_of() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.automate("email")
            await stage.says(STATUS, email="somebody.else@mail.example")
            await stage.work_off()
            [said] = [value for effect, value in stage.effects if effect == "message"]
            assert "shipped" not in said

    run(test())


async def _claimed(stage: Stage) -> Claim[Any]:
    """The claim of a worker that has gone as far as that."""
    [message] = [each.message for each in await _peeked(stage)]
    worker = stage.worker()
    claim = await patterns.EVENTS.claim(
        stage.stores, worker._build_record(message, await worker.flag_reader.read())
    )
    assert isinstance(claim, Claim)
    return claim


async def _peeked(stage: Stage) -> tuple[Any, ...]:
    received = await stage.receive()
    for each in received:
        await stage.stores.for_component("worker").run(patterns.hold(each, 0.0))
    return received
