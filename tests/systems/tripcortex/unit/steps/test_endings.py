"""Bookings that end without a trip: the reason is stored, the employee is notified and may request again."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.core.errors import ExternalServiceFailed, NotCancellable
from holdfast_demo.tripcortex.sandbox.portal_timetable import Timetable
from tests.systems.tripcortex.unit.steps.booking_bench import (
    EARLY,
    EMPLOYEE,
    POLICY_FILE,
    WEB,
    Bench,
    open_bench,
)
from tripcortex.model.entities import AuditEvent, Booking, BookingStatus, CircuitState
from tripcortex.workers.booking_requests import BookingUnderWay
from tripcortex.workers.flow import BOOKING_FLOW

S = BookingStatus
OUT_OF_POLICY = "Book me a business class flight to Chicago on 14 April returning 16 April"
MINUTE = 60.0


async def check_ended(trip: Bench, seen: Booking, status: BookingStatus, code: str) -> Booking:
    """Check that the booking ended with its reason, a message, no active-booking marker and no work left."""
    booking = await trip.booking(seen)
    assert booking.status is status and booking.flow_state == status.value
    assert booking.failure is not None and booking.failure.code == code
    assert booking.confirmation_number is None and booking.flow_token is None
    assert await trip.marker() is None
    assert await BOOKING_FLOW.list_executions(trip.stores) == []
    last = (await trip.list_messages())[-1]
    assert (last.kind, last.booking_id, last.body["code"]) == (status.value, booking.booking_id, code)
    return booking


def check_link(booking: Booking) -> None:
    """Check that the booking has a link to the portal's page with the trip."""
    assert booking.fallback_url is not None
    link = urlsplit(booking.fallback_url)
    assert f"{link.scheme}://{link.netloc}" == WEB
    assert parse_qs(link.query)["to"] == ["ORD"]


@pytest.mark.proves("TC-92", "TC-66")
async def test_refuses_a_trip_out_of_policy_with_citation_and_remedy(trip: Bench) -> None:
    booking = await check_ended(trip, await trip.request_options(OUT_OF_POLICY), S.failed, "out_of_policy")
    assert booking.failure is not None and booking.fallback_url is None
    [breach] = booking.failure.breaches
    assert (breach.code, breach.severity) == ("cabin_above_policy", "hard")
    assert booking.failure.remedy == breach.remedy == "book economy"
    cited = breach.citation
    assert cited is not None
    assert (cited.file_name, cited.source_page, cited.section_title) == (POLICY_FILE, 2, "Cabin class")
    assert cited.quote == "Economy class is required on flights of less than 6 hours."
    judged, error = (await trip.trail(booking))[-2:]
    assert (judged.event, judged.output["ok"]) == (AuditEvent.plan_validation, False)
    assert (error.event, error.error_code) == (AuditEvent.error, "out_of_policy")
    assert error.output["cited"] == [cited.chunk_id]
    message_body = (await trip.list_messages())[-1].body
    assert message_body["remedy"] == "book economy"
    assert message_body["breaches"][0]["citation"]["source_page"] == 2
    # The portal got no request, and the employee may request again.
    assert trip.sandbox.ledger == []
    assert (await trip.request_options()).status is S.options_presented


@pytest.mark.proves("TC-93", "TC-66", "TC-85")
async def test_unreachable_portal_is_tried_three_times_then_offers_the_link(trip: Bench) -> None:
    trip.sandbox.is_down = True
    booking = await trip.request_options()
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
    assert (await trip.list_messages())[-1].body["fallbackUrl"] == booking.fallback_url


@pytest.mark.proves("TC-93", "TC-66", "TC-85")
async def test_open_circuit_offers_the_link_without_calling_the_portal(trip: Bench) -> None:
    trip.sandbox.is_down = True
    first = await trip.request_options()
    for _ in range(2):
        await trip.pass_time(15)
    second = await trip.request_options()
    await trip.pass_time(15)
    await trip.pass_time(15)
    for each in (first, second):
        assert (await trip.booking(each)).status is S.failed
    assert (await trip.circuit()).state is CircuitState.open
    trip.sandbox.is_down = False
    booking = await check_ended(trip, await trip.request_options(), S.failed, "portal_unavailable")
    check_link(booking)
    # After the recovery timeout one call is admitted and the booking continues.
    await trip.pass_time(61)
    assert (await trip.request_options()).status is S.options_presented
    assert (await trip.circuit()).state is CircuitState.closed


@pytest.mark.proves("TC-66")
async def test_portal_down_after_the_choice_offers_the_link_and_buys_nothing(trip: Bench) -> None:
    booking = await trip.request_options()
    await trip.choose(booking)
    trip.sandbox.is_down = True
    await trip.work()
    for _ in range(3):
        await trip.pass_time(15)
    check_link(await check_ended(trip, booking, S.failed, "portal_unavailable"))
    assert (await trip.trail(booking))[-1].step == "BeginBooking"
    assert trip.sandbox.ledger == []


@pytest.mark.proves("TC-96")
async def test_failed_payment_ends_the_booking_with_the_portals_code(trip: Bench) -> None:
    trip.sandbox.declined = {EMPLOYEE}
    booking = await trip.request_options()
    await trip.choose(booking)
    await trip.work()
    booking = await check_ended(trip, booking, S.failed, "payment_failed")
    check_link(booking)
    assert trip.sandbox.ledger == []
    error = (await trip.trail(booking))[-1]
    assert (error.event, error.step) == (AuditEvent.error, "CompleteBooking")


@pytest.mark.proves("TC-X9")
async def test_expired_offer_without_a_replacement_is_not_bought() -> None:
    async with open_bench(offer_life_s=1000.0) as trip:
        booking = await trip.request_options()
        await trip.choose(booking)
        trip.clock.move(1200)
        trip.sandbox.timetable = Timetable(7, 0, 1000.0)
        await trip.work()
        check_link(await check_ended(trip, booking, S.failed, "offer_expired"))


@pytest.mark.proves("TC-X9")
async def test_unavailable_model_ends_the_booking_and_leaves_the_circuit_alone(trip: Bench) -> None:
    class Silent:
        model_id, thinking_budget = "silent", None

        async def plan(self, asked: Any) -> Any:
            raise ExternalServiceFailed("The model answered 503.", may_be_done=False)

    silent = trip.with_dependencies(planner=Silent())
    booking = await silent.request_options()
    for _ in range(4):
        await silent.pass_time(30)
    booking = await check_ended(silent, booking, S.failed, "model_unavailable")
    assert booking.fallback_url is None
    assert (await silent.trail(booking))[-1].step == "ReasonAndPlan"
    assert (await silent.circuit()).failure_count == 0


@pytest.mark.proves("TC-X9", "TC-61")
async def test_crashing_step_ends_the_booking(trip: Bench) -> None:
    class Broken:
        threshold, model_id, dimensions = 0.3, "broken", 1024

        def embed_question(self, text: str) -> str:
            raise ZeroDivisionError("with what it was given")

    broken = trip.with_dependencies(embedding=Broken())
    booking = await broken.request_options()
    booking = await check_ended(broken, booking, S.failed, "broken")
    [entry] = await broken.trail(booking)
    assert (entry.step, entry.event) == ("EmbedAndRetrieve", AuditEvent.error)
    assert "with what it was given" not in str(entry)


@pytest.mark.proves("TC-X10")
async def test_sweeper_ends_a_booking_without_a_choice(trip: Bench) -> None:
    booking = await trip.request_options()
    await trip.pass_time(29 * MINUTE)
    assert (await trip.booking(booking)).status is S.options_presented
    with pytest.raises(BookingUnderWay):
        await trip.ask()
    await trip.pass_time(MINUTE)
    await check_ended(trip, booking, S.cancelled, "choice_expired")
    entry = (await trip.trail(booking))[-1]
    assert (entry.event, entry.step) == (AuditEvent.user_selection, "Choice")
    assert entry.output == {"cancelled": "choice_expired"}
    assert (await trip.request_options()).status is S.options_presented


@pytest.mark.proves("TC-X10")
async def test_time_to_choose_is_configurable() -> None:
    async with open_bench(variables={"TRIPCORTEX_CHOICE_MINUTES": "5"}) as trip:
        booking = await trip.request_options()
        await trip.pass_time(MINUTE * 5 - 1)
        assert (await trip.booking(booking)).status is S.options_presented
        await trip.pass_time(1)
        assert (await trip.booking(booking)).status is S.cancelled


@pytest.mark.proves("TC-X9", "TC-61")
async def test_booking_can_be_cancelled_only_before_the_commitment(trip: Bench) -> None:
    before = ["initiated", "retrieved", "planned", "validated", "options_presented", "user_selected"]
    for state in before:
        booking = await reach_state(trip, state)
        ended = await trip.cancel(booking)
        assert ended.status is S.cancelled
        await check_ended(trip, booking, S.cancelled, "cancelled_by_employee")
        entry = (await trip.trail(booking))[-1]
        assert (entry.step, entry.input) == ("Cancel", {"state": state})
        # The message of the interrupted step changes nothing.
        await trip.work()
        assert (await trip.booking(booking)).status is S.cancelled
    for state in ("booking", "confirmed"):
        booking = await reach_state(trip, state)
        stored, entries = await trip.get_item(booking), await trip.trail(booking)
        with pytest.raises(NotCancellable):
            await trip.cancel(booking)
        assert await trip.get_item(booking) == stored and await trip.trail(booking) == entries
        await trip.work()
        assert (await trip.booking(booking)).status is S.confirmed
    ended = await trip.request_options(OUT_OF_POLICY)
    stored = await trip.get_item(ended)
    with pytest.raises(NotCancellable):
        await trip.cancel(ended)
    assert await trip.get_item(ended) == stored
    assert len(trip.sandbox.ledger) == 2


async def reach_state(trip: Bench, state: str) -> Booking:
    """Request a trip and drive it until it is in this state."""
    booking = await trip.ask(EARLY)
    while (booking := await trip.booking(booking)).flow_state != state:
        if booking.flow_state == "options_presented":
            await trip.choose(booking)
        else:
            assert await trip.step() == 1
    return booking


@pytest.mark.proves("TC-75")
async def test_audit_retention_is_configurable() -> None:
    async with open_bench(variables={"TRIPCORTEX_AUDIT_YEARS": "7"}) as trip:
        booking = await trip.request_options()
        await trip.choose(booking)
        await trip.cancel(booking)
        assert {each.expires_at.year for each in await trip.trail(booking)} == {2033}
