"""Step ValidatePlan with two policies: the stricter applies, and the employee learns of the difference."""

from __future__ import annotations

import pytest

from tests.systems.tripcortex.unit.steps.booking_bench import REGION_FILE, open_bench
from tripcortex.model.entities import AuditEvent, Booking, BookingStatus, Breach

DAYS = "on 14 April returning 16 April"


def check_refused(booking: Booking, code: str, page: int) -> Breach:
    """Check that the booking failed by one hard breach cited by this page; return the breach."""
    assert booking.status is BookingStatus.failed and booking.failure is not None
    [breach] = booking.failure.breaches
    assert (breach.code, breach.severity) == (code, "hard")
    assert breach.citation is not None
    assert (breach.citation.file_name, breach.citation.source_page) == (REGION_FILE, page)
    return breach


@pytest.mark.proves("TC-92", "TC-64")
async def test_stricter_rule_applies_and_the_difference_is_reported() -> None:
    async with open_bench(company="two policies") as trip:
        booking = await trip.request_options(f"Book me a Spirit flight to Las Vegas {DAYS}, window seat")
        assert booking.status is BookingStatus.options_presented and booking.booking_plan is not None
        assert booking.booking_plan.policy_constraints.max_budget_usd == 700
        assert "I did not use: “window seat”." in booking.notes
        assert f"Spirit Airlines is prohibited ({REGION_FILE}, page 9, Safety)." in booking.notes
        [differs] = [each for each in booking.notes if "northwind.pdf, page 3" in each]
        assert differs.endswith("says $900, the rule caps in region.pdf says $700: $700 counts.")
        assert len(set(booking.notes)) == len(booking.notes)
        [judged] = [each for each in await trip.trail(booking) if each.event is AuditEvent.plan_validation]
        assert set(judged.output["notes"]) < set(booking.notes)
        assert {*judged.output["policy_version"].split(", ")} == {"region-1", "2026-03"}
        assert (await trip.list_messages())[-1].body["notes"] == booking.notes


@pytest.mark.proves("TC-92")
async def test_refuses_what_the_text_prohibits_without_a_rule() -> None:
    async with open_bench(company="two policies") as trip:
        first = await trip.request_options(f"Book me a first class flight to Chicago {DAYS}")
        breach = check_refused(first, "cabin_above_policy", 7)
        assert breach.citation is not None and breach.citation.quote is not None
        assert breach.citation.quote.startswith("First class is never booked")
        business = await trip.request_options(f"Book me a business class flight to Chicago {DAYS}")
        assert business.status is BookingStatus.options_presented
        assert all(each.needs_approval for each in business.flight_options)


@pytest.mark.proves("TC-92")
async def test_refuses_a_prohibited_destination_and_cites_its_country() -> None:
    async with open_bench(company="two policies") as trip:
        booking = await trip.request_options(f"Book me a flight to Moscow {DAYS}")
        check_refused(booking, "destination_prohibited", 8)
