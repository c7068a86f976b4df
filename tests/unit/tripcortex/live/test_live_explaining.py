"""What support reads of a booking in one line a step: the plan, who let it pass, what was noted, why it ended; and the circuit's times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.tripcortex.steps.trip_play import APPROVER, EARLY, SENTENCE, Play, play
from tripcortex.api.commands import COMMANDS
from tripcortex.integrations.portal.circuit import PortalCircuit
from tripcortex.model.entities import Booking, Circuit
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW


async def lines_of(trip: Play, booking: Booking) -> dict[str, str]:
    """The first of each step; the line of the booking itself is under no name."""
    assert SYSTEM.why is not None
    first, *steps = (await SYSTEM.why(trip.stores.for_component("support"), booking.booking_id)).lines
    return {line.split("  ")[1].split(" (")[0]: line for line in reversed(steps)} | {"": first}


@pytest.mark.proves("TC-78")
def test_why_tells_the_plan_in_short_and_who_decided_what() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered(SENTENCE)
        await trip.choose(booking)
        booking = await trip.booking(booking)
        given = {"decision": "refuse", "decidedBy": APPROVER, "reason": "Too dear"}
        await BOOKING_FLOW.answer(
            trip.stores, booking, "decide", token=BOOKING_FLOW.make_token(booking), given=given
        )
        told = await lines_of(trip, booking)
        assert told["ReasonAndPlan"].endswith(": BOS → ORD, 2026-03-17 to 2026-03-19, economy")
        assert told["Approval"].endswith(f": refuse, decided by {APPROVER}")
        # Reason and remedy are two sentences, however the approver wrote the first.
        assert "Too dear. Request a flight inside the policy." in told[""]

    play(story)


def test_why_tells_what_the_planner_noted_and_what_it_asked() -> None:
    async def story(trip: Play) -> None:
        noted = await trip.offered(EARLY.replace("Chicago", "Chigaco"))
        assert noted.notes
        first = (await lines_of(trip, noted))[""]
        assert f"Notes: {noted.notes[0]}" in first
        await BOOKING_FLOW.cancel(trip.stores, noted, "no")
        assert "cancelled cancelled_by_employee" in (await lines_of(trip, noted))["Cancel"]
        asked = await trip.offered("Book me a flight to Chicago")
        assert "asked for departure_date" in (await lines_of(trip, asked))["ReasonAndPlan"]

    play(story)


def test_the_circuit_is_told_with_moments_and_not_with_seconds() -> None:
    async def story(trip: Play) -> None:
        command = COMMANDS["circuit"]
        stores = trip.stores.for_component("support")
        assert (await command(stores))["last_failure_time"] is None
        at = datetime(2026, 3, 10, 14, 0, tzinfo=UTC)
        seen = Circuit(
            circuit_id=PortalCircuit().circuit_id,
            failure_count=1,
            last_failure_time=int(at.timestamp()),
            ttl=at.replace(day=11),
        )
        await trip.stores.run(Circuit.put(seen))
        told = await command(stores)
        assert told["last_failure_time"] == "2026-03-10T14:00:00Z" and told["ttl"] == "2026-03-11T14:00:00Z"

    play(story)
