"""How bookings end that do not end in a trip: why is written down, the employee is told, and may ask again."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.core.errors import ExternalServiceFailed, NotCancellable
from tests.unit.tripcortex.steps.trip_play import EARLY, EMPLOYEE, POLICY_FILE, WEB, Play, play
from tripcortex.demo.sandbox.portal_timetable import Timetable
from tripcortex.model.entities import AuditEvent, Booking, BookingStatus, CircuitState
from tripcortex.workers.booking_requests import BookingUnderWay
from tripcortex.workers.flow import BOOKING_FLOW

S = BookingStatus
OUT_OF_POLICY = "Book me a business class flight to Chicago on 14 April returning 16 April"
MINUTE = 60.0


async def check_ended(trip: Play, seen: Booking, status: BookingStatus, code: str) -> Booking:
    """The booking as it ended: with its reason, no place of an active one, a message, and nothing left to be done."""
    booking = await trip.booking(seen)
    assert booking.status is status and booking.flow_state == status.value
    assert booking.failure is not None and booking.failure.code == code
    assert booking.confirmation_number is None and booking.flow_token is None
    assert await trip.marker() is None
    assert await BOOKING_FLOW.list_executions(trip.stores) == []
    last = (await trip.told())[-1]
    assert (last.kind, last.booking_id, last.body["code"]) == (status.value, booking.booking_id, code)
    return booking


def check_link(booking: Booking) -> None:
    assert booking.fallback_url is not None
    link = urlsplit(booking.fallback_url)
    assert f"{link.scheme}://{link.netloc}" == WEB
    assert parse_qs(link.query)["to"] == ["ORD"]


@pytest.mark.proves("TC-92")
@pytest.mark.proves("TC-66")
def test_what_is_out_of_policy_is_refused_with_where_the_policy_says_so_and_what_would_comply() -> None:
    async def story(trip: Play) -> None:
        booking = await check_ended(trip, await trip.offered(OUT_OF_POLICY), S.failed, "out_of_policy")
        assert booking.failure is not None and booking.fallback_url is None
        [breach] = booking.failure.breaches
        assert (breach.code, breach.severity) == ("cabin_above_policy", "hard")
        assert booking.failure.remedy == breach.remedy == "book economy"
        cited = breach.citation
        assert cited is not None
        assert (cited.file_name, cited.source_page, cited.section_title) == (POLICY_FILE, 2, "Cabin class")
        assert cited.similarity is not None and cited.similarity >= trip.workshop.embedding.threshold
        assert cited.quote == "Economy class is required on flights of less than 6 hours."
        judged, error = (await trip.trail(booking))[-2:]
        assert (judged.event, judged.output["ok"]) == (AuditEvent.plan_validation, False)
        assert (error.event, error.error_code) == (AuditEvent.error, "out_of_policy")
        assert error.output["cited"] == [cited.chunk_id]
        told = (await trip.told())[-1].body
        assert told["remedy"] == "book economy"
        assert told["breaches"][0]["citation"]["source_page"] == 2
        # Nobody asked the portal, and the employee may ask again.
        assert trip.sandbox.ledger == []
        assert (await trip.offered()).status is S.options_presented

    play(story)


@pytest.mark.proves("TC-93")
@pytest.mark.proves("TC-66")
@pytest.mark.proves("TC-85")
def test_a_portal_that_stays_away_is_asked_three_times_and_ends_in_the_link_with_its_failures_counted() -> (
    None
):
    async def story(trip: Play) -> None:
        trip.sandbox.is_down = True
        booking = await trip.offered()
        assert (booking.status, (await trip.circuit()).failure_count) == (S.searching, 1)
        await trip.pass_time(15)
        assert (await trip.booking(booking)).status is S.searching
        await trip.pass_time(15)
        booking = await check_ended(trip, booking, S.failed, "portal_unavailable")
        check_link(booking)
        assert (await trip.circuit()).failure_count == 3
        error = (await trip.trail(booking))[-1]
        assert (error.event, error.step) == (AuditEvent.error, "ExecuteSearch")
        assert (error.error_code, error.input["attempt"], error.output["fallback"]) == (
            "portal_unavailable",
            3,
            True,
        )
        assert (await trip.told())[-1].body["fallbackUrl"] == booking.fallback_url

    play(story)


@pytest.mark.proves("TC-93")
@pytest.mark.proves("TC-66")
@pytest.mark.proves("TC-85")
def test_behind_an_open_circuit_the_link_is_there_at_once_and_the_portal_is_not_asked() -> None:
    async def story(trip: Play) -> None:
        trip.sandbox.is_down = True
        first = await trip.offered()
        for _ in range(2):
            await trip.pass_time(15)
        second = await trip.offered()
        await trip.pass_time(15)
        await trip.pass_time(15)
        for each in (first, second):
            assert (await trip.booking(each)).status is S.failed
        assert (await trip.circuit()).state is CircuitState.open
        trip.sandbox.is_down = False
        booking = await check_ended(trip, await trip.offered(), S.failed, "portal_unavailable")
        check_link(booking)
        # After its recovery one is let through, and everything goes on.
        await trip.pass_time(61)
        assert (await trip.offered()).status is S.options_presented
        assert (await trip.circuit()).state is CircuitState.closed

    play(story)


@pytest.mark.proves("TC-66")
def test_an_open_circuit_between_choice_and_booking_ends_in_the_link_and_nothing_is_bought() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.choose(booking)
        trip.sandbox.is_down = True
        await trip.work()
        for _ in range(3):
            await trip.pass_time(15)
        check_link(await check_ended(trip, booking, S.failed, "portal_unavailable"))
        assert (await trip.trail(booking))[-1].step == "BeginBooking"
        assert trip.sandbox.ledger == []

    play(story)


@pytest.mark.proves("TC-X8")
def test_once_it_may_have_been_bought_an_outage_ends_nothing_and_it_is_bought_once() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.choose(booking)
        await trip.step()
        trip.sandbox.is_down = True
        await trip.work()
        for _ in range(6):
            await trip.pass_time(130)
        assert (await trip.booking(booking)).status is S.booking
        trip.sandbox.is_down = False
        await trip.pass_time(200)
        await trip.pass_time(200)
        assert (await trip.booking(booking)).status is S.confirmed
        assert [each["reference"] for each in trip.sandbox.ledger] == [booking.booking_id]

    play(story)


@pytest.mark.proves("TC-96")
@pytest.mark.parametrize("factor", ["1.05", "1.06"])
def test_a_fare_that_moved_is_bought_within_five_percent_and_not_beyond(factor: str) -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        agreed = booking.flight_options[0].price_usd
        await trip.choose(booking)
        trip.sandbox.price_factor = Decimal(factor)
        await trip.work()
        if factor == "1.05":
            booking = await trip.booking(booking)
            assert booking.status is S.confirmed
            assert booking.selected_option is not None and booking.paid_usd is not None
            assert agreed < booking.paid_usd <= agreed * Decimal("1.05")
            assert booking.selected_option.price_usd == booking.paid_usd
        else:
            check_link(await check_ended(trip, booking, S.failed, "price_moved"))
            assert trip.sandbox.ledger == []

    play(story)


@pytest.mark.proves("TC-96")
def test_a_payment_that_fails_ends_the_booking_with_the_portals_code_and_the_link() -> None:
    async def story(trip: Play) -> None:
        trip.sandbox.declined = {EMPLOYEE}
        booking = await trip.offered()
        await trip.choose(booking)
        await trip.work()
        booking = await check_ended(trip, booking, S.failed, "payment_failed")
        check_link(booking)
        assert trip.sandbox.ledger == []
        error = (await trip.trail(booking))[-1]
        assert (error.event, error.step) == (AuditEvent.error, "CompleteBooking")

    play(story)


@pytest.mark.proves("TC-X9")
def test_an_offer_that_ended_between_choice_and_booking_and_is_not_flown_any_more_is_not_bought() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.choose(booking)
        trip.clock.move(1200)
        trip.sandbox.timetable = Timetable(7, 0, 1000.0)
        await trip.work()
        check_link(await check_ended(trip, booking, S.failed, "offer_expired"))

    play(story, offer_life_s=1000.0)


@pytest.mark.proves("TC-X9")
def test_a_model_that_stays_away_is_no_fault_of_the_portals() -> None:
    class Silent:
        model_id, thinking_budget = "silent", None

        async def plan(self, asked: Any) -> Any:
            raise ExternalServiceFailed("The model answered 503.", may_be_done=False)

    async def story(trip: Play) -> None:
        silent = trip.with_workshop(planner=Silent())
        booking = await silent.offered()
        for _ in range(4):
            await silent.pass_time(30)
        booking = await check_ended(silent, booking, S.failed, "model_unavailable")
        assert booking.fallback_url is None
        assert (await silent.trail(booking))[-1].step == "ReasonAndPlan"
        assert (await silent.circuit()).failure_count == 0

    play(story)


@pytest.mark.proves("TC-X9")
@pytest.mark.proves("TC-61")
def test_a_step_of_ours_that_falls_over_ends_the_booking_before_anything_was_found() -> None:
    class Broken:
        threshold, model_id, dimensions = 0.3, "broken", 1024

        def embed_question(self, text: str) -> str:
            raise ZeroDivisionError("with what it was given")

    async def story(trip: Play) -> None:
        broken = trip.with_workshop(embedding=Broken())
        booking = await broken.offered()
        booking = await check_ended(broken, booking, S.failed, "broken")
        [entry] = await broken.trail(booking)
        assert (entry.step, entry.event) == ("EmbedAndRetrieve", AuditEvent.error)
        assert "with what it was given" not in str(entry)

    play(story)


@pytest.mark.proves("TC-X10")
def test_a_choice_that_nobody_makes_ends_by_the_sweeper_with_an_audit_and_the_employee_may_ask_again() -> (
    None
):
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.pass_time(29 * MINUTE)
        assert (await trip.booking(booking)).status is S.options_presented
        with pytest.raises(BookingUnderWay):
            await trip.ask()
        await trip.pass_time(MINUTE)
        await check_ended(trip, booking, S.cancelled, "choice_expired")
        entry = (await trip.trail(booking))[-1]
        assert (entry.event, entry.step) == (AuditEvent.user_selection, "Choice")
        assert entry.output == {"cancelled": "choice_expired"}
        assert (await trip.offered()).status is S.options_presented

    play(story)


@pytest.mark.proves("TC-X10")
def test_how_long_one_may_think_is_set() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.pass_time(MINUTE * 5 - 1)
        assert (await trip.booking(booking)).status is S.options_presented
        await trip.pass_time(1)
        assert (await trip.booking(booking)).status is S.cancelled

    play(story, variables={"TRIPCORTEX_CHOICE_MINUTES": "5"})


@pytest.mark.proves("TC-X9")
@pytest.mark.proves("TC-61")
def test_a_booking_is_cancelled_from_every_state_before_the_commitment_and_from_none_after() -> None:
    async def story(trip: Play) -> None:
        before = ["initiated", "retrieved", "planned", "validated", "options_presented", "user_selected"]
        for state in before:
            booking = await _at(trip, state)
            ended = await trip.cancel(booking)
            assert ended.status is S.cancelled
            await check_ended(trip, booking, S.cancelled, "cancelled_by_employee")
            entry = (await trip.trail(booking))[-1]
            assert (entry.step, entry.input) == ("Cancel", {"state": state})
            # The message of the step that was under way leads nowhere.
            await trip.work()
            assert (await trip.booking(booking)).status is S.cancelled
        for state in ("booking", "confirmed"):
            booking = await _at(trip, state)
            stored, entries = await trip.raw(booking), await trip.trail(booking)
            with pytest.raises(NotCancellable):
                await trip.cancel(booking)
            assert await trip.raw(booking) == stored and await trip.trail(booking) == entries
            await trip.work()
            assert (await trip.booking(booking)).status is S.confirmed
        ended = await trip.offered(OUT_OF_POLICY)
        stored = await trip.raw(ended)
        with pytest.raises(NotCancellable):
            await trip.cancel(ended)
        assert await trip.raw(ended) == stored
        assert len(trip.sandbox.ledger) == 2

    play(story)


async def _at(trip: Play, state: str) -> Booking:
    booking = await trip.ask(EARLY)
    while (booking := await trip.booking(booking)).flow_state != state:
        if booking.flow_state == "options_presented":
            await trip.choose(booking)
        else:
            assert await trip.step() == 1
    return booking


@pytest.mark.proves("TC-75")
def test_entries_of_people_and_of_steps_are_kept_for_as_long_as_is_set() -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.choose(booking)
        await trip.cancel(booking)
        assert {each.expires_at.year for each in await trip.trail(booking)} == {2033}

    play(story, variables={"TRIPCORTEX_AUDIT_YEARS": "7"})
