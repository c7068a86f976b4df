"""Tests of people's answers to waits: a choice, a reply to a question, an approval.

An invalid answer leaves the item unchanged, byte for byte.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core.errors import DeadlinePassed, HoldfastError, InvalidRequest, NotWaiting, WaitTokenRefused
from tests.systems.tripcortex.unit.steps.booking_bench import APPROVER, EMPLOYEE, SENTENCE, Bench, open_bench
from tests.systems.tripcortex.unit.steps.test_endings import check_ended
from tripcortex.domain.policy_rules.approvals import MayNotDecide
from tripcortex.model.entities import Approval, AuditEvent, Booking, BookingStatus
from tripcortex.workers.flow import BOOKING_FLOW
from tripcortex.workers.steps.plan import MAX_QUESTIONS

S = BookingStatus
# Seven days ahead, where the policy requires fourteen.
LATE = SENTENCE
HOUR = 3600.0

# A literal type, which the type checker cannot infer from the assigned text.
CONFIDENCE: Any = Booking.policy_confidence


async def check_refused(
    trip: Bench, booking: Booking, answer: Awaitable[Booking], kind: type[HoldfastError]
) -> None:
    """Check that the answer raises this error and changes neither item, audit nor messages."""
    stored, entries, messages = (
        await trip.get_item(booking),
        await trip.trail(booking),
        await trip.list_messages(),
    )
    with pytest.raises(kind) as refused:
        await answer
    assert refused.type is kind
    assert await trip.get_item(booking) == stored
    assert (await trip.trail(booking), await trip.list_messages()) == (entries, messages)


@pytest.mark.proves("TC-95", "TC-X12")
async def test_invalid_choice_token_or_answer_changes_nothing(trip: Bench) -> None:
    booking = await trip.request_options()
    for option_id in ("4", "0", "", "None", booking.flight_options[0].offer_id):
        await check_refused(trip, booking, trip.choose(booking, option_id), InvalidRequest)
    await check_refused(trip, booking, trip.answer(booking, "choose", {}), InvalidRequest)
    await check_refused(trip, booking, trip.answer(booking, "pay", {"optionId": "1"}), InvalidRequest)
    for token in ("", "x" * 43, booking.flow_token or ""):
        await check_refused(trip, booking, trip.choose(booking, "1", token), WaitTokenRefused)
    await check_refused(trip, booking, trip.answer(booking, "answer", {"text": "yes"}), NotWaiting)
    assert (await trip.choose(booking, "3")).selected_option == booking.flight_options[2]


@pytest.mark.proves("TC-95")
async def test_token_is_valid_for_its_own_booking_only(trip: Bench) -> None:
    first = await trip.request_options()
    token = BOOKING_FLOW.make_token(first)
    await trip.cancel(first)
    second = await trip.request_options()
    await check_refused(trip, second, trip.choose(second, "1", token), WaitTokenRefused)


@pytest.mark.proves("TC-95", "TC-X10")
async def test_rejects_a_late_answer_before_and_after_the_sweep(trip: Bench) -> None:
    """The late answer itself applies the deadline."""
    booking = await trip.request_options()
    token = BOOKING_FLOW.make_token(booking)
    trip.clock.move(1800)
    # The late answer itself applies the deadline, without the sweeper.
    with pytest.raises(DeadlinePassed) as late:
        await trip.choose(booking, "1", token)
    assert late.value.state == "cancelled"
    await check_ended(trip, booking, S.cancelled, "choice_expired")
    await check_refused(trip, booking, trip.choose(booking, "1", token), NotWaiting)
    await trip.pass_time(60)
    assert len([each for each in await trip.trail(booking) if each.step == "Choice"]) == 1


@pytest.mark.proves("TC-95")
async def test_rejects_a_choice_of_an_expired_offer() -> None:
    async with open_bench(offer_life_s=600.0) as trip:
        booking = await trip.request_options()
        trip.clock.move(600)
        await check_refused(trip, booking, trip.choose(booking), InvalidRequest)


# --- a question ---------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-91", "TC-X9")
async def test_asks_for_missing_details_and_resumes_with_the_answer(trip: Bench) -> None:
    booking = await trip.request_options("I need a flight on 14 April")
    assert (booking.status, booking.flow_state) == (S.searching, "asking")
    assert booking.question is not None and booking.question.missing == ["destination", "return_date"]
    [message] = await trip.list_messages()
    assert (message.kind, message.body["text"]) == ("question", booking.question.text)
    asked = (await trip.trail(booking))[-1]
    assert (asked.event, asked.output["asked"]) == (AuditEvent.reasoning, booking.question.missing)
    for text in ("", "  \n ", "x" * 501, "a\x00b"):
        await check_refused(trip, booking, trip.answer(booking, "answer", {"text": text}), InvalidRequest)
    await trip.answer(booking, "answer", {"text": "to Chicago, back on 16 April"})
    entry = (await trip.trail(booking))[-1]
    assert (entry.step, entry.output) == ("Question", {"answer": "to Chicago, back on 16 April"})
    await trip.work()
    booking = await trip.booking(booking)
    assert (booking.status, booking.question) == (S.options_presented, None)
    assert booking.booking_plan is not None
    assert booking.booking_plan.parameters.destination == "ORD"


@pytest.mark.proves("TC-X10")
async def test_unanswered_question_ends_the_booking(trip: Bench) -> None:
    booking = await trip.request_options("I need a flight on 14 April")
    await trip.pass_time(1800)
    await check_ended(trip, booking, S.cancelled, "question_expired")
    again = await trip.request_options("I need a flight on 14 April")
    assert (await trip.cancel(again)).status is S.cancelled


@pytest.mark.proves("TC-91")
async def test_fails_after_several_unusable_answers(trip: Bench) -> None:
    booking = await trip.request_options("I need a flight on 14 April")
    for _ in range(MAX_QUESTIONS):
        assert (await trip.booking(booking)).flow_state == "asking"
        await trip.answer(booking, "answer", {"text": "well"})
        await trip.work()
    await check_ended(trip, booking, S.failed, "not_understood")


@pytest.mark.proves("TC-91")
async def test_unreadable_request_is_refused_and_the_reason_audited(trip: Bench) -> None:
    booking = await trip.request_options(
        "Bitte buche mir einen Flug nach Berlin am Dienstag und zurück am Freitag"
    )
    booking = await trip.booking(booking)
    assert booking.failure is not None
    await check_ended(trip, booking, S.failed, booking.failure.code)
    reasoning, error = (await trip.trail(booking))[-2:]
    assert reasoning.output == {"refused": booking.failure.code}
    assert error.error_code == booking.failure.code


# --- an approval --------------------------------------------------------------------------------------------


async def reach_approval(trip: Bench) -> Booking:
    """Choose a flight that is booked late; return the booking that waits for the approver."""
    booking = await trip.request_options(LATE)
    assert [each.code for each in booking.flight_options[0].breaches] == ["late_booking"]
    await trip.choose(booking)
    await trip.work()
    booking = await trip.booking(booking)
    assert (booking.flow_state, booking.status) == ("approving", S.user_selected)
    assert booking.approval is not None and booking.approval.asked_of == APPROVER
    [message] = await trip.list_messages(APPROVER)
    assert (message.kind, message.booking_id) == ("approval", booking.booking_id)
    assert message.body["breaches"][0]["citation"]["section_title"] == "Booking in advance"
    return booking


def decide(trip: Bench, booking: Booking, decision: str, by: str) -> Awaitable[Booking]:
    """Return the awaitable that answers the approval as this person."""
    return trip.answer(booking, "decide", {"decision": decision, "decidedBy": by, "reason": "a client waits"})


@pytest.mark.proves("TC-95")
async def test_only_the_approver_can_approve_a_soft_breach(trip: Bench) -> None:
    booking = await reach_approval(trip)
    await check_refused(trip, booking, decide(trip, booking, "approve", EMPLOYEE), MayNotDecide)
    await check_refused(trip, booking, decide(trip, booking, "approve", "emp-99"), MayNotDecide)
    await check_refused(trip, booking, decide(trip, booking, "perhaps", APPROVER), InvalidRequest)
    await check_refused(trip, booking, trip.choose(booking, "2"), NotWaiting)
    await decide(trip, booking, "approve", APPROVER)
    entry = (await trip.trail(booking))[-1]
    assert (entry.event, entry.step) == (AuditEvent.user_selection, "Approval")
    assert (entry.output["decision"], entry.output["decided_by"]) == ("approve", APPROVER)
    assert entry.output["cited"]
    await trip.work()
    booking = await trip.booking(booking)
    assert booking.status is S.confirmed
    assert booking.approval is not None and booking.approval.reason == "a client waits"


@pytest.mark.proves("TC-X9")
async def test_approvers_refusal_ends_the_booking(trip: Bench) -> None:
    booking = await reach_approval(trip)
    await decide(trip, booking, "refuse", APPROVER)
    booking = await check_ended(trip, booking, S.failed, "not_approved")
    assert booking.approval is not None and booking.approval.decision == "refuse"
    assert [each.event for each in (await trip.trail(booking))[-2:]] == [
        AuditEvent.user_selection,
        AuditEvent.error,
    ]
    assert trip.sandbox.ledger == []


@pytest.mark.proves("TC-X10")
async def test_approvers_silence_follows_the_policy_and_late_decisions_fail(trip: Bench) -> None:
    booking = await reach_approval(trip)
    token = BOOKING_FLOW.make_token(booking)
    await trip.pass_time(HOUR)
    booking = await trip.booking(booking)
    assert booking.approval is not None
    assert (booking.approval.decided_by, booking.approval.decision) == ("deadline", "approve")
    assert booking.status is S.confirmed
    given = {"decision": "refuse", "decidedBy": APPROVER}
    await check_refused(trip, booking, trip.answer(booking, "decide", given, token), NotWaiting)


@pytest.mark.proves("TC-X9", "TC-X10")
async def test_silence_refuses_at_the_deadline_if_retrieval_confidence_was_low(trip: Bench) -> None:
    for meets_it_by_a_decision in (False, True):
        booking = await trip.request_options(LATE)
        # Silence approves nothing when retrieval confidence was low.
        doubted = Booking.of(booking.employee_id).update(booking.booking_id)
        await trip.stores.run(doubted.set(CONFIDENCE, "low"))
        await trip.choose(booking)
        booking = await trip.booking(booking)
        token = BOOKING_FLOW.make_token(booking)
        if meets_it_by_a_decision:
            trip.clock.move(HOUR)
            given = {"decision": "approve", "decidedBy": APPROVER}
            with pytest.raises(DeadlinePassed) as late:
                await trip.answer(booking, "decide", given, token)
            assert late.value.state == "failed"
        else:
            await trip.pass_time(HOUR)
        booking = await check_ended(trip, booking, S.failed, "not_approved")
        assert booking.approval is not None
        assert (booking.approval.decided_by, booking.approval.decision) == ("deadline", "refuse")
        trail = await trip.trail(booking)
        assert [(each.event, each.step) for each in trail[-2:]] == [
            (AuditEvent.user_selection, "Approval"),
            (AuditEvent.error, "Approval"),
        ]
    assert trip.sandbox.ledger == []


async def test_never_buys_a_choice_whose_approval_was_refused(trip: Bench) -> None:
    """The stored approval is changed to refused after the choice."""
    booking = await trip.choose(await trip.request_options())
    assert booking.flow_state == "user_selected"
    at = datetime.fromtimestamp(trip.clock.now(), UTC)
    refused = Approval(asked_of=APPROVER, due_at=at, at_deadline="refuse", decision="refuse")
    marred = Booking.of(booking.employee_id).update(booking.booking_id)
    await trip.stores.run(marred.set(Booking.approval, refused))
    await trip.work()
    await check_ended(trip, booking, S.failed, "not_approved")
    assert trip.sandbox.ledger == []


@pytest.mark.proves("TC-X9")
async def test_booking_waiting_for_approval_can_be_cancelled(trip: Bench) -> None:
    booking = await reach_approval(trip)
    await trip.cancel(booking)
    await check_ended(trip, booking, S.cancelled, "cancelled_by_employee")


async def test_rejects_a_choice_whose_only_approver_is_the_traveller() -> None:
    async with open_bench(variables={"TRIPCORTEX_APPROVERS": f"line-manager={EMPLOYEE}"}) as trip:
        booking = await trip.request_options(LATE)
        stored = await trip.get_item(booking)
        with pytest.raises(HoldfastError, match="only approver is the traveller"):
            await trip.choose(booking)
        assert await trip.get_item(booking) == stored
