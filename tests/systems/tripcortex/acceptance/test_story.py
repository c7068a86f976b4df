"""The story of `holdfast demo tripcortex`, run once to its end on the sample, and checks of what it left.

Its claims are checked in the stores and in the portal's ledger, not only in its output.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from holdfast import open_stores, provision
from holdfast.cli.stories.system_stories import STORE_SETTINGS, build_story_settings, write_sample
from holdfast.core.clock import RunClock
from holdfast.model.ulids import Ulid
from holdfast_demo.tripcortex.sandbox.portal_ledger import FILE_NAME
from holdfast_demo.tripcortex.story import ADA, BEN, CYD, DEE, EVE, FAY, GUS, run_story
from tripcortex.model import patterns
from tripcortex.model.entities import AuditRecord, Booking, BookingStatus, EmployeeId
from tripcortex.system import SYSTEM

S = BookingStatus


@dataclass
class StoryOutcome:
    """The story's output, and what it left.

    Bookings by employee, audit trails by booking, orders by reference, and the number of active markers.
    """

    text: str
    bookings: dict[str, list[Booking]]
    trails: dict[Ulid, list[AuditRecord]]
    orders: Counter[str]
    markers: int

    def get_only_booking(self, employee: str) -> Booking:
        (found,) = self.bookings[employee]
        return found


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> StoryOutcome:
    return asyncio.run(run_demo(tmp_path_factory.mktemp("story")))


async def run_demo(folder: Path) -> StoryOutcome:
    """Load the sample, run the story, and collect what it printed and stored."""
    system, console = SYSTEM, Console(file=StringIO(), width=160)
    settings = build_story_settings(system, folder)
    async with open_stores(system, settings) as stores:
        await provision(stores, system)
        await write_sample(system, stores, console)
        assert isinstance(stores.clock, RunClock)
        variables = {f"HOLDFAST_{name.upper()}": str(getattr(settings, name)) for name in STORE_SETTINGS}
        await run_story(stores, console, stores.clock, folder, variables)
        people = (ADA, BEN, CYD, DEE, EVE, FAY, GUS)
        bookings = {each: list(await stores.all(patterns.history(EmployeeId(each)))) for each in people}
        trails = {
            booking.booking_id: list(await stores.all(patterns.trail(booking.booking_id)))
            for found in bookings.values()
            for booking in found
        }
        markers = [await stores.run(patterns.place_of(EmployeeId(each))) for each in people]
    ledger = [json.loads(line) for line in (folder / FILE_NAME).read_text().splitlines()]
    assert isinstance(console.file, StringIO)
    return StoryOutcome(
        console.file.getvalue(),
        bookings,
        trails,
        Counter(each["reference"] for each in ledger if each["what"] == "order"),
        sum(each is not None for each in markers),
    )


@pytest.mark.proves("TC-95", "TC-96")
def test_a_trip_is_chosen_over_a_websocket_and_sold_once(outcome: StoryOutcome) -> None:
    booking = outcome.get_only_booking(ADA)
    assert booking.status is S.confirmed and (booking.confirmation_number or "none") in outcome.text
    assert outcome.orders[booking.booking_id] == 1
    assert [str(each.event) for each in outcome.trails[booking.booking_id]] == [
        *("policy_retrieval", "reasoning", "plan_validation", "flight_search"),
        *("user_selection", "flight_search", "booking_completion"),
    ]


def test_refuses_a_trip_against_the_policy_with_a_citation(outcome: StoryOutcome) -> None:
    booking = outcome.get_only_booking(CYD)
    assert booking.status is S.failed and booking.failure is not None
    (breach,) = [each for each in booking.failure.breaches if each.severity == "hard"]
    assert breach.citation is not None and breach.citation.source_page is not None
    assert breach.remedy in outcome.text and outcome.orders[booking.booking_id] == 0


def test_trip_survives_the_process_that_bought_it(outcome: StoryOutcome) -> None:
    booking = outcome.get_only_booking(DEE)
    assert booking.status is S.confirmed and outcome.orders[booking.booking_id] == 1


def test_another_employee_approves_a_soft_breach(outcome: StoryOutcome) -> None:
    booking = outcome.get_only_booking(GUS)
    assert booking.status is S.confirmed and booking.approval is not None
    assert (booking.approval.decision, booking.approval.decided_by) == ("approve", "emp-7")


@pytest.mark.proves("TC-66")
def test_unreachable_portal_ends_in_a_link(outcome: StoryOutcome) -> None:
    ended = outcome.bookings[EVE]
    assert {each.status for each in ended} == {S.failed}
    assert all(each.fallback_url and "to=SEA" in each.fallback_url for each in ended)
    assert ended[-1].fallback_url is not None and ended[-1].fallback_url in outcome.text.replace("\n", "")


@pytest.mark.proves("TC-X10")
def test_cancelled_and_expired_bookings_leave_no_active_marker(outcome: StoryOutcome) -> None:
    assert (
        outcome.get_only_booking(BEN).status is S.cancelled
        and outcome.get_only_booking(FAY).status is S.cancelled
    )
    assert outcome.markers == 0
