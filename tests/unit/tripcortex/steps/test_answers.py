"""What people answer: a choice, a question, an approval. What cannot be is refused, and the item stays as it is, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.core.errors import DeadlinePassed, HoldfastError, InvalidRequest, NotWaiting, WaitTokenRefused
from tests.unit.tripcortex.steps.test_endings import check_ended
from tests.unit.tripcortex.steps.trip_play import APPROVER, EMPLOYEE, SENTENCE, Play, play
from tripcortex.domain.policy_rules.approvals import MayNotDecide
from tripcortex.model.entities import Approval, AuditEvent, Booking, BookingStatus
from tripcortex.workers.flow import BOOKING_FLOW
from tripcortex.workers.steps.plan import QUESTIONS_MAX

S = BookingStatus
# Seven days ahead, where the policy wants fourteen.
LATE = SENTENCE
HOUR = 3600.0

# A member of few values, which the checker cannot tell from the text that is set.
CONFIDENCE: Any = Booking.policy_confidence


async def _refused(
    trip: Play, booking: Booking, answer: Awaitable[Booking], kind: type[HoldfastError]
) -> None:
    stored, entries, told = await trip.raw(booking), await trip.trail(booking), await trip.told()
    with pytest.raises(kind) as refused:
        await answer
    assert refused.type is kind
    assert await trip.raw(booking) == stored
    assert (await trip.trail(booking), await trip.told()) == (entries, told)


@pytest.mark.proves("TC-95")
@pytest.mark.proves("TC-X12")
def test_an_option_that_was_not_offered_a_wrong_token_or_another_answer_changes_nothing() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        for option_id in ("4", "0", "", "None", booking.flight_options[0].offer_id):
            await _refused(trip, booking, trip.choose(booking, option_id), InvalidRequest)
        await _refused(trip, booking, trip.answer(booking, "choose", {}), InvalidRequest)
        await _refused(trip, booking, trip.answer(booking, "pay", {"optionId": "1"}), InvalidRequest)
        for token in ("", "x" * 43, booking.flow_token or ""):
            await _refused(trip, booking, trip.choose(booking, "1", token), WaitTokenRefused)
        await _refused(trip, booking, trip.answer(booking, "answer", {"text": "yes"}), NotWaiting)
        assert (await trip.choose(booking, "3")).selected_option == booking.flight_options[2]

    play(story)


@pytest.mark.proves("TC-95")
def test_the_token_of_one_booking_is_of_no_use_for_another() -> None:
    async def story(trip: Play) -> None:
        first = await trip.offered()
        token = BOOKING_FLOW.make_token(first)
        await trip.cancel(first)
        second = await trip.offered()
        await _refused(trip, second, trip.choose(second, "1", token), WaitTokenRefused)

    play(story)


@pytest.mark.proves("TC-95")
@pytest.mark.proves("TC-X10")
def test_an_answer_after_the_deadline_is_refused_before_the_sweeper_came_and_after_it() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        token = BOOKING_FLOW.make_token(booking)
        trip.clock.move(1800)
        # The deadline is made true by whoever meets it first.
        with pytest.raises(DeadlinePassed) as late:
            await trip.choose(booking, "1", token)
        assert late.value.state == "cancelled"
        await check_ended(trip, booking, S.cancelled, "choice_expired")
        await _refused(trip, booking, trip.choose(booking, "1", token), NotWaiting)
        await trip.pass_time(60)
        assert len([each for each in await trip.trail(booking) if each.step == "Choice"]) == 1

    play(story)


@pytest.mark.proves("TC-95")
def test_of_choices_at_the_same_moment_one_is_taken() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        token = BOOKING_FLOW.make_token(booking)
        outcomes = await asyncio.gather(
            *(trip.choose(booking, str(number), token) for number in (1, 2, 3) for _ in range(4)),
            return_exceptions=True,
        )
        taken = [each for each in outcomes if isinstance(each, Booking)]
        assert len(taken) == 1 and {type(each) for each in outcomes} == {Booking, NotWaiting}
        assert (await trip.booking(booking)).selected_option == taken[0].selected_option
        await trip.work()
        assert len(trip.sandbox.ledger) == 1
        assert len([each for each in await trip.trail(booking) if each.step == "Choice"]) == 1

    play(story)


@pytest.mark.proves("TC-95")
def test_an_offer_that_the_portal_no_longer_holds_cannot_be_chosen() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        trip.clock.move(600)
        await _refused(trip, booking, trip.choose(booking), InvalidRequest)

    play(story, offer_life_s=600.0)


# --- a question ---------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-91")
@pytest.mark.proves("TC-X9")
def test_what_is_missing_is_asked_for_and_the_booking_goes_on_with_the_answer() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered("I need a flight on 14 April")
        assert (booking.status, booking.flow_state) == (S.searching, "asking")
        assert booking.question is not None and booking.question.missing == ["destination", "return_date"]
        [message] = await trip.told()
        assert (message.kind, message.body["text"]) == ("question", booking.question.text)
        asked = (await trip.trail(booking))[-1]
        assert (asked.event, asked.output["asked"]) == (AuditEvent.reasoning, booking.question.missing)
        for text in ("", "  \n ", "x" * 501, "a\x00b"):
            await _refused(trip, booking, trip.answer(booking, "answer", {"text": text}), InvalidRequest)
        await trip.answer(booking, "answer", {"text": "to Chicago, back on 16 April"})
        entry = (await trip.trail(booking))[-1]
        assert (entry.step, entry.output) == ("Question", {"answer": "to Chicago, back on 16 April"})
        await trip.work()
        booking = await trip.booking(booking)
        assert (booking.status, booking.question) == (S.options_presented, None)
        assert booking.booking_plan is not None
        assert booking.booking_plan.parameters.destination == "ORD"

    play(story)


@pytest.mark.proves("TC-X10")
def test_a_question_that_nobody_answers_ends_the_booking() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered("I need a flight on 14 April")
        await trip.pass_time(1800)
        await check_ended(trip, booking, S.cancelled, "question_expired")
        again = await trip.offered("I need a flight on 14 April")
        assert (await trip.cancel(again)).status is S.cancelled

    play(story)


@pytest.mark.proves("TC-91")
def test_after_several_answers_that_say_nothing_it_is_given_up() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered("I need a flight on 14 April")
        for _ in range(QUESTIONS_MAX):
            assert (await trip.booking(booking)).flow_state == "asking"
            await trip.answer(booking, "answer", {"text": "well"})
            await trip.work()
        await check_ended(trip, booking, S.failed, "not_understood")

    play(story)


@pytest.mark.proves("TC-91")
def test_a_request_that_cannot_be_read_is_refused_politely_with_its_reason_audited() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered(
            "Bitte buche mir einen Flug nach Berlin am Dienstag und zurück am Freitag"
        )
        booking = await trip.booking(booking)
        assert booking.failure is not None
        await check_ended(trip, booking, S.failed, booking.failure.code)
        reasoning, error = (await trip.trail(booking))[-2:]
        assert reasoning.output == {"refused": booking.failure.code}
        assert error.error_code == booking.failure.code

    play(story)


# --- an approval --------------------------------------------------------------------------------------------


async def _asked(trip: Play) -> Booking:
    booking = await trip.offered(LATE)
    assert [each.code for each in booking.flight_options[0].breaches] == ["late_booking"]
    await trip.choose(booking)
    await trip.work()
    booking = await trip.booking(booking)
    assert (booking.flow_state, booking.status) == ("approving", S.user_selected)
    assert booking.approval is not None and booking.approval.asked_of == APPROVER
    [message] = await trip.told(APPROVER)
    assert (message.kind, message.booking_id) == ("approval", booking.booking_id)
    assert message.body["breaches"][0]["citation"]["section_title"] == "Booking in advance"
    return booking


def _decision(trip: Play, booking: Booking, decision: str, by: str) -> Awaitable[Booking]:
    return trip.answer(booking, "decide", {"decision": decision, "decidedBy": by, "reason": "a client waits"})


@pytest.mark.proves("TC-95")
def test_a_soft_breach_goes_on_when_the_approver_lets_it_pass_and_nobody_else_can() -> None:
    async def story(trip: Play) -> None:
        booking = await _asked(trip)
        await _refused(trip, booking, _decision(trip, booking, "approve", EMPLOYEE), MayNotDecide)
        await _refused(trip, booking, _decision(trip, booking, "approve", "emp-99"), MayNotDecide)
        await _refused(trip, booking, _decision(trip, booking, "perhaps", APPROVER), InvalidRequest)
        await _refused(trip, booking, trip.choose(booking, "2"), NotWaiting)
        await _decision(trip, booking, "approve", APPROVER)
        entry = (await trip.trail(booking))[-1]
        assert (entry.event, entry.step) == (AuditEvent.user_selection, "Approval")
        assert (entry.output["decision"], entry.output["decided_by"]) == ("approve", APPROVER)
        assert entry.output["cited"]
        await trip.work()
        booking = await trip.booking(booking)
        assert booking.status is S.confirmed
        assert booking.approval is not None and booking.approval.reason == "a client waits"

    play(story)


@pytest.mark.proves("TC-X9")
def test_an_approver_who_refuses_ends_the_booking() -> None:
    async def story(trip: Play) -> None:
        booking = await _asked(trip)
        await _decision(trip, booking, "refuse", APPROVER)
        booking = await check_ended(trip, booking, S.failed, "not_approved")
        assert booking.approval is not None and booking.approval.decision == "refuse"
        assert [each.event for each in (await trip.trail(booking))[-2:]] == [
            AuditEvent.user_selection,
            AuditEvent.error,
        ]
        assert trip.sandbox.ledger == []

    play(story)


@pytest.mark.proves("TC-X10")
def test_silence_of_an_approver_decides_as_the_policy_says_and_a_late_decision_is_refused() -> None:
    async def story(trip: Play) -> None:
        booking = await _asked(trip)
        token = BOOKING_FLOW.make_token(booking)
        await trip.pass_time(HOUR)
        booking = await trip.booking(booking)
        assert booking.approval is not None
        assert (booking.approval.decided_by, booking.approval.decision) == ("deadline", "approve")
        assert booking.status is S.confirmed
        given = {"decision": "refuse", "decidedBy": APPROVER}
        await _refused(trip, booking, trip.answer(booking, "decide", given, token), NotWaiting)

    play(story)


@pytest.mark.proves("TC-X9")
@pytest.mark.proves("TC-X10")
def test_silence_that_refuses_ends_the_booking_at_the_deadline_whoever_meets_it_first() -> None:
    async def story(trip: Play) -> None:
        for meets_it_by_a_decision in (False, True):
            booking = await trip.offered(LATE)
            # Of a policy that was hardly found, silence approves nothing.
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

    play(story)


def test_a_refused_choice_is_not_bought_though_it_came_to_be_booked() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.choose(await trip.offered())
        assert booking.flow_state == "user_selected"
        at = datetime.fromtimestamp(trip.clock.now(), UTC)
        refused = Approval(asked_of=APPROVER, due_at=at, at_deadline="refuse", decision="refuse")
        marred = Booking.of(booking.employee_id).update(booking.booking_id)
        await trip.stores.run(marred.set(Booking.approval, refused))
        await trip.work()
        await check_ended(trip, booking, S.failed, "not_approved")
        assert trip.sandbox.ledger == []

    play(story)


@pytest.mark.proves("TC-X9")
def test_what_waits_for_an_approval_can_be_cancelled() -> None:
    async def story(trip: Play) -> None:
        booking = await _asked(trip)
        await trip.cancel(booking)
        await check_ended(trip, booking, S.cancelled, "cancelled_by_employee")

    play(story)


def test_where_the_only_approver_is_the_traveller_the_choice_is_refused_and_another_may_be_made() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered(LATE)
        stored = await trip.raw(booking)
        with pytest.raises(HoldfastError, match="only approver is the traveller"):
            await trip.choose(booking)
        assert await trip.raw(booking) == stored

    play(story, variables={"TRIPCORTEX_APPROVERS": f"line-manager={EMPLOYEE}"})
