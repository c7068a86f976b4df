"""What becomes of a choice that somebody has to approve, where nobody is set for the role, and what the approver is told."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.unit.tripcortex.steps.test_endings import check_ended
from tests.unit.tripcortex.steps.trip_play import APPROVER, SENTENCE, Play, play
from tripcortex.model.entities import BookingStatus

HOUR = 3600.0


def test_nothing_is_bought_by_the_silence_of_a_role_that_nobody_has_and_the_traveller_is_told() -> None:
    async def story(trip: Play) -> None:
        await trip.choose(offered := await trip.offered(SENTENCE))
        booking = await trip.booking(offered)
        assert booking.approval is not None
        assert (booking.approval.asked_of, booking.approval.at_deadline) == ("line-manager", "refuse")
        assert "No employee is set for the approver role “line-manager”" in booking.notes[-1]
        message = (await trip.told())[-1]
        assert (message.kind, message.body["notes"]) == ("approver_missing", booking.notes)
        await trip.pass_time(HOUR)
        await check_ended(trip, booking, BookingStatus.failed, "not_approved")
        assert trip.sandbox.ledger == []

    play(story, variables={"TRIPCORTEX_APPROVERS": ""})


def test_the_approver_has_the_policys_time_and_is_told_when_the_offer_ends() -> None:
    async def story(trip: Play) -> None:
        offered = await trip.offered(SENTENCE)
        await trip.choose(offered)
        booking = await trip.booking(offered)
        [message] = await trip.told(APPROVER)
        assert booking.approval is not None and booking.selected_option is not None
        assert message.body["offerEndsAt"] == booking.selected_option.offer_expires_at.isoformat()
        assert message.body["dueAt"] == booking.approval.due_at.isoformat()
        now = datetime.fromtimestamp(trip.clock.now(), booking.approval.due_at.tzinfo)
        assert (booking.approval.due_at - now).total_seconds() == HOUR
        assert not any("No employee is set" in each for each in booking.notes)

    play(story)


def test_whoever_has_the_role_by_now_may_decide_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(trip: Play) -> None:
        offered = await trip.offered(SENTENCE)
        await trip.choose(offered)
        booking = await trip.booking(offered)
        assert booking.approval is not None and booking.approval.asked_of == APPROVER
        monkeypatch.setenv("TRIPCORTEX_APPROVERS", "line-manager=emp-9")
        await trip.answer(booking, "decide", {"decision": "approve", "decidedBy": "emp-9"})
        booking = await trip.booking(booking)
        assert booking.approval is not None and booking.approval.decided_by == "emp-9"

    play(story)
