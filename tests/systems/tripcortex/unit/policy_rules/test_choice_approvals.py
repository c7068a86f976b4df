"""The approval step through the flow: a role without a person, the deadline, the message to the approver."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.systems.tripcortex.unit.steps.booking_bench import APPROVER, SENTENCE, Bench, open_bench
from tests.systems.tripcortex.unit.steps.test_endings import check_ended
from tripcortex.model.entities import BookingStatus

HOUR = 3600.0


async def test_vacant_approver_role_refuses_at_the_deadline() -> None:
    async with open_bench(variables={"TRIPCORTEX_APPROVERS": ""}) as trip:
        await trip.choose(offered := await trip.request_options(SENTENCE))
        booking = await trip.booking(offered)
        assert booking.approval is not None
        assert (booking.approval.asked_of, booking.approval.at_deadline) == ("line-manager", "refuse")
        assert "No employee is set for the approver role “line-manager”" in booking.notes[-1]
        message = (await trip.list_messages())[-1]
        assert (message.kind, message.body["notes"]) == ("approver_missing", booking.notes)
        await trip.pass_time(HOUR)
        await check_ended(trip, booking, BookingStatus.failed, "not_approved")
        assert trip.sandbox.ledger == []


async def test_approver_receives_the_deadline_and_the_end_of_the_offer(trip: Bench) -> None:
    offered = await trip.request_options(SENTENCE)
    await trip.choose(offered)
    booking = await trip.booking(offered)
    [message] = await trip.list_messages(APPROVER)
    assert booking.approval is not None and booking.selected_option is not None
    assert message.body["offerEndsAt"] == booking.selected_option.offer_expires_at.isoformat()
    assert message.body["dueAt"] == booking.approval.due_at.isoformat()
    now = datetime.fromtimestamp(trip.clock.now(), booking.approval.due_at.tzinfo)
    assert (booking.approval.due_at - now).total_seconds() == HOUR
    assert not any("No employee is set" in each for each in booking.notes)


async def test_new_holder_of_the_role_may_decide(trip: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = await trip.request_options(SENTENCE)
    await trip.choose(offered)
    booking = await trip.booking(offered)
    assert booking.approval is not None and booking.approval.asked_of == APPROVER
    monkeypatch.setenv("TRIPCORTEX_APPROVERS", "line-manager=emp-9")
    await trip.answer(booking, "decide", {"decision": "approve", "decidedBy": "emp-9"})
    booking = await trip.booking(booking)
    assert booking.approval is not None and booking.approval.decided_by == "emp-9"
