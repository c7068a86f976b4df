"""The story of `holdfast demo tripcortex`, told to its end on the sample. What it claims is looked for in the stores and in the portal's
ledger, and not in its words alone."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from holdfast import Ulid, open_stores, provision
from holdfast.cli.stories.system_stories import STORE_SETTINGS, build_story_settings, write_sample
from holdfast.core.clock import RunClock
from tripcortex.demo.sandbox.portal_ledger import FILE_NAME
from tripcortex.demo.story import ADA, BEN, CYD, DEE, EVE, FAY, GUS, run_story
from tripcortex.model import patterns
from tripcortex.model.entities import AuditRecord, Booking, BookingStatus, EmployeeId
from tripcortex.system import SYSTEM

S = BookingStatus


@dataclass
class Told:
    text: str
    bookings: dict[str, list[Booking]]
    trails: dict[Ulid, list[AuditRecord]]
    orders: Counter[str]
    markers: int

    def only(self, employee: str) -> Booking:
        (found,) = self.bookings[employee]
        return found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return asyncio.run(_told(tmp_path_factory.mktemp("story")))


async def _told(folder: Path) -> Told:
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
    return Told(
        console.file.getvalue(),
        bookings,
        trails,
        Counter(each["reference"] for each in ledger if each["what"] == "order"),
        sum(each is not None for each in markers),
    )


@pytest.mark.proves("TC-95")
@pytest.mark.proves("TC-96")
def test_a_trip_is_chosen_over_a_websocket_and_sold_once(told: Told) -> None:
    booking = told.only(ADA)
    assert booking.status is S.confirmed and (booking.confirmation_number or "none") in told.text
    assert told.orders[booking.booking_id] == 1
    assert [str(each.event) for each in told.trails[booking.booking_id]] == [
        *("policy_retrieval", "reasoning", "plan_validation", "flight_search"),
        *("user_selection", "flight_search", "booking_completion"),
    ]


def test_what_is_against_the_policy_is_refused_with_where_it_says_so(told: Told) -> None:
    booking = told.only(CYD)
    assert booking.status is S.failed and booking.failure is not None
    (breach,) = [each for each in booking.failure.breaches if each.severity == "hard"]
    assert breach.citation is not None and breach.citation.source_page is not None
    assert breach.remedy in told.text and told.orders[booking.booking_id] == 0


def test_a_trip_outlives_the_process_that_bought_it(told: Told) -> None:
    booking = told.only(DEE)
    assert booking.status is S.confirmed and told.orders[booking.booking_id] == 1


def test_a_soft_breach_is_let_pass_by_somebody_else(told: Told) -> None:
    booking = told.only(GUS)
    assert booking.status is S.confirmed and booking.approval is not None
    assert (booking.approval.decision, booking.approval.decided_by) == ("approve", "emp-7")


@pytest.mark.proves("TC-66")
def test_a_portal_that_is_away_ends_in_a_link(told: Told) -> None:
    ended = told.bookings[EVE]
    assert {each.status for each in ended} == {S.failed}
    assert all(each.fallback_url and "to=SEA" in each.fallback_url for each in ended)
    assert ended[-1].fallback_url is not None and ended[-1].fallback_url in told.text.replace("\n", "")


@pytest.mark.proves("TC-X10")
def test_whoever_cancels_or_never_chooses_may_ask_anew(told: Told) -> None:
    assert told.only(BEN).status is S.cancelled and told.only(FAY).status is S.cancelled
    assert told.markers == 0
