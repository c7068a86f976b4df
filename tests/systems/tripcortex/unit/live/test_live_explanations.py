"""Explanations by `why` (plan, approver, notes, reason of the end), and the times that `circuit` shows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.systems.tripcortex.unit.steps.booking_bench import APPROVER, EARLY, SENTENCE, Bench
from tripcortex.api.commands import COMMANDS
from tripcortex.integrations.portal.circuit import PORTAL_CIRCUIT
from tripcortex.model.entities import Booking, Circuit
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW


async def list_lines(trip: Bench, booking: Booking) -> dict[str, str]:
    """Return the first line of each step; the booking's own line has an empty name."""
    assert SYSTEM.admin.why is not None
    first, *steps = (await SYSTEM.admin.why(trip.stores.for_component("support"), booking.booking_id)).lines
    return {line.split("  ")[1].split(" (")[0]: line for line in reversed(steps)} | {"": first}


@pytest.mark.proves("TC-78")
async def test_why_shows_the_plan_and_the_decisions(trip: Bench) -> None:
    booking = await trip.request_options(SENTENCE)
    await trip.choose(booking)
    booking = await trip.booking(booking)
    given = {"decision": "refuse", "decidedBy": APPROVER, "reason": "Too dear"}
    await BOOKING_FLOW.answer(
        trip.stores, booking, "decide", token=BOOKING_FLOW.make_token(booking), given=given
    )
    shown_lines = await list_lines(trip, booking)
    assert shown_lines["ReasonAndPlan"].endswith(": BOS → ORD, 2026-03-17 to 2026-03-19, economy")
    assert shown_lines["Approval"].endswith(f": refuse, decided by {APPROVER} (line-manager)")
    # Reason and remedy are two sentences, however the approver wrote the first.
    assert "Too dear. Request a flight inside the policy." in shown_lines[""]


async def test_why_shows_the_planners_notes_and_questions(trip: Bench) -> None:
    noted = await trip.request_options(EARLY.replace("Chicago", "Chigaco"))
    assert noted.notes
    first = (await list_lines(trip, noted))[""]
    assert f"Notes: {noted.notes[0]}" in first
    await BOOKING_FLOW.cancel(trip.stores, noted, "no")
    assert "cancelled cancelled_by_employee" in (await list_lines(trip, noted))["Cancel"]
    asked = await trip.request_options("Book me a flight to Chicago")
    assert "asked for departure_date" in (await list_lines(trip, asked))["ReasonAndPlan"]


async def test_circuit_times_are_shown_as_timestamps(trip: Bench) -> None:
    command = COMMANDS["circuit"]
    stores = trip.stores.for_component("support")
    assert (await command(stores))["last_failure_time"] is None
    at = datetime(2026, 3, 10, 14, 0, tzinfo=UTC)
    seen = Circuit(
        circuit_id=PORTAL_CIRCUIT,
        failure_count=1,
        last_failure_time=int(at.timestamp()),
        ttl=at.replace(day=11),
    )
    await trip.stores.run(Circuit.put(seen))
    output = await command(stores)
    assert output["last_failure_time"] == "2026-03-10T14:00:00Z" and output["ttl"] == "2026-03-11T14:00:00Z"
