"""A booking that was asked for and whose end is open: nobody waits for ever without a word, and nothing is bought twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web.sandbox_faults import Faults
from tests.unit.tripcortex.steps.trip_play import EARLY, Play, play
from tripcortex.integrations.portal.circuit import GuardedPortal, PortalCircuit
from tripcortex.integrations.portal.client import HttpPortal, make_client
from tripcortex.integrations.portal.purchases import SETTLED_S
from tripcortex.model.entities import AuditEvent, Booking, BookingStatus, EmployeeId
from tripcortex.workers.booking_requests import BookingUnderWay, Traveller
from tripcortex.workers.flow import BOOKING_FLOW

S = BookingStatus
MINUTE, HOUR = 60.0, 3600.0
NOWHERE = "http://127.0.0.1:1"


async def committed(trip: Play) -> Booking:
    """Chosen and priced: the next step buys."""
    booking = await trip.offered()
    await trip.choose(booking)
    assert await trip.step() == 1
    booking = await trip.booking(booking)
    assert booking.flow_state == "booking"
    return booking


async def errors(trip: Play, booking: Booking) -> list[str | None]:
    trail = await trip.trail(booking)
    return [
        each.error_code for each in trail if each.event is AuditEvent.error and each.step == "CompleteBooking"
    ]


async def told(trip: Play) -> list[tuple[str, str | None]]:
    return [(each.kind, each.body.get("code")) for each in await trip.told()]


def bought(trip: Play) -> list[str]:
    return [each["reference"] for each in trip.sandbox.ledger if each["what"] == "order"]


@pytest.mark.proves("TC-66")
@pytest.mark.proves("TC-X8")
def test_a_portal_that_cannot_be_reached_after_the_commitment_ends_in_the_link_after_three_tries() -> None:
    async def story(trip: Play) -> None:
        booking = await committed(trip)
        async with make_client(NOWHERE, "") as http:
            guarded = GuardedPortal(trip.workflow, HttpPortal(http, trip.clock), PortalCircuit())
            away = trip.with_workshop(portal=guarded)
            await away.work()
            for _ in range(2):
                assert (await trip.booking(booking)).status is S.booking
                await away.pass_time(15)
        booking = await trip.booking(booking)
        assert booking.status is S.failed and booking.failure is not None and booking.fallback_url
        assert booking.failure.code == "portal_unavailable"
        assert await errors(trip, booking) == ["portal_unavailable"]
        assert await trip.marker() is None and await BOOKING_FLOW.list_executions(trip.stores) == []
        assert bought(trip) == []

    play(story)


@pytest.mark.proves("TC-66")
@pytest.mark.proves("TC-85")
def test_behind_a_circuit_that_opened_after_the_commitment_the_link_is_there_at_once() -> None:
    async def story(trip: Play) -> None:
        booking = await committed(trip)
        for _ in range(5):
            with pytest.raises(ExternalServiceFailed):
                await PortalCircuit().call(trip.workflow, _down)
        await trip.work()
        booking = await trip.booking(booking)
        assert booking.failure is not None and booking.failure.code == "portal_unavailable"
        assert booking.fallback_url and bought(trip) == []

    play(story)


async def _down() -> None:
    raise ExternalServiceFailed("down", may_be_done=False)


@pytest.mark.parametrize("has_acted", [True, False])
@pytest.mark.proves("TC-66")
@pytest.mark.proves("TC-X8")
def test_an_outage_over_a_purchase_is_told_once_and_ends_as_the_portal_says_afterwards(
    has_acted: bool,
) -> None:
    """Where it never acted the offer is gone meanwhile: nothing is bought, and the employee has the link."""

    async def story(trip: Play) -> None:
        booking = await committed(trip)
        trip.sandbox.faults = Faults(failed_after=1.0) if has_acted else Faults(failed_before=1.0)
        await trip.work()
        trip.sandbox.faults, trip.sandbox.is_down = Faults(), True
        await trip.pass_time(4 * MINUTE)
        assert await errors(trip, booking) == []
        for _ in range(12):
            await trip.pass_time(10 * MINUTE)
        assert (await trip.booking(booking)).status is S.booking
        assert await errors(trip, booking) == ["outcome_open"]
        assert [each for each in await told(trip) if each[0] == "pending"] == [("pending", "outcome_open")]
        with pytest.raises(BookingUnderWay):
            await trip.ask()
        trip.sandbox.is_down = False
        for _ in range(2):
            await trip.pass_time(10 * MINUTE)
        booking = await trip.booking(booking)
        if has_acted:
            assert booking.status is S.confirmed and bought(trip) == [booking.booking_id]
        else:
            assert booking.failure is not None and booking.failure.code == "offer_expired"
            assert booking.fallback_url and bought(trip) == []
        assert await trip.marker() is None
        assert (await trip.offered(EARLY)).status is S.options_presented

    play(story, offer_life_s=HOUR)


@pytest.mark.proves("TC-X8")
def test_after_a_day_it_is_set_aside_for_the_travel_desk_and_goes_on_when_it_is_resumed() -> None:
    async def story(trip: Play) -> None:
        booking = await committed(trip)
        trip.sandbox.faults = Faults(failed_after=1.0)
        await trip.work()
        trip.sandbox.faults, trip.sandbox.is_down = Faults(), True
        for _ in range(25):
            await trip.pass_time(HOUR)
        [place] = await BOOKING_FLOW.list_executions(trip.stores)
        assert place.is_parked and place.parked is not None and "holdfast flows resume" in place.parked
        assert await errors(trip, booking) == ["outcome_open", "outcome_unknown"]
        assert (await told(trip))[-1] == ("pending", "outcome_unknown")
        # Resumed too early it is set aside again, and nobody is told twice.
        await BOOKING_FLOW.resume(trip.workflow)
        await trip.work()
        assert [each.is_parked for each in await BOOKING_FLOW.list_executions(trip.stores)] == [True]
        assert len(await errors(trip, booking)) == 2
        trip.sandbox.is_down = False
        await trip.pass_time(2 * MINUTE)
        assert (await trip.booking(booking)).status is S.booking
        await BOOKING_FLOW.resume(trip.workflow)
        await trip.work()
        assert (await trip.booking(booking)).status is S.confirmed
        assert bought(trip) == [booking.booking_id]

    play(story)


@pytest.mark.proves("TC-X8")
def test_a_step_that_was_cut_off_is_tried_again_and_what_it_had_bought_is_found() -> None:
    async def story(trip: Play) -> None:
        booking = await committed(trip)
        trip.sandbox.faults = Faults(silent_after=1.0, silence_s=1.0)
        with limited(0.5):
            await trip.work()
        assert bought(trip) == [booking.booking_id]
        assert (await trip.booking(booking)).status is S.booking
        trip.sandbox.faults = Faults()
        for _ in range(2):
            await trip.pass_time(MINUTE)
        assert (await trip.booking(booking)).status is S.confirmed
        assert bought(trip) == [booking.booking_id]

    play(story)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """As if a step were cut off after so long."""
    state = BOOKING_FLOW.states["booking"]
    step: Any = state.action
    object.__setattr__(state, "action", dataclasses.replace(step, timeout_s=seconds))
    try:
        yield
    finally:
        object.__setattr__(state, "action", step)


@pytest.mark.proves("TC-X8")
def test_what_falls_over_after_the_commitment_is_never_set_aside_in_silence() -> None:
    class Broken(HttpPortal):
        async def book(self, *_: Any) -> Any:
            raise ZeroDivisionError("with what it was given")

    async def story(trip: Play) -> None:
        booking = await committed(trip)
        async with make_client(NOWHERE, "") as http:
            broken = trip.with_workshop(portal=Broken(http, trip.clock))
            await broken.work()
        [place] = await BOOKING_FLOW.list_executions(trip.stores)
        assert place.is_parked
        assert await errors(trip, booking) == ["outcome_unknown"]
        assert (await told(trip))[-1] == ("pending", "outcome_unknown")
        assert "with what it was given" not in str(await trip.trail(booking)) + str(place)
        trip.clock.move(2 * MINUTE)
        await BOOKING_FLOW.resume(trip.workflow)
        await trip.work()
        # Nobody knew whether it was bought: it was not, was bought by the repeat, and is looked at once more.
        await trip.pass_time(SETTLED_S + 1)
        assert (await trip.booking(booking)).status is S.confirmed
        assert bought(trip) == [booking.booking_id]

    play(story)


def test_a_purchase_that_comes_through_late_is_cancelled_and_written_down() -> None:
    async def story(trip: Play) -> None:
        booking = await committed(trip)
        trip.sandbox.late_orders, trip.sandbox.late_s = 1, 45.0
        await trip.work()
        for _ in range(4):
            await trip.pass_time(30)
        booking = await trip.booking(booking)
        assert booking.status is S.confirmed and len(bought(trip)) == 2
        orders = trip.sandbox.orders.find_orders(booking.booking_id)
        [live] = [each for each in orders if each.status == "confirmed"]
        assert booking.confirmation_number == live.confirmation
        assert await errors(trip, booking) == ["surplus_order"]
        entry = next(each for each in await trip.trail(booking) if each.error_code == "surplus_order")
        [other] = [each.order_id for each in orders if each is not live]
        assert entry.output == {"kept": live.order_id, "cancelled": [other], "not_cancelled": []}

    play(story)


def test_a_purchase_is_confirmed_though_it_cannot_be_looked_up_a_second_time() -> None:
    class Forgetful(HttpPortal):
        asked = 0

        async def look_up(self, reference: str) -> Any:
            type(self).asked += 1
            if type(self).asked > 1:
                raise ExternalServiceRefused("404", "gone")
            return await super().look_up(reference)

    async def story(trip: Play) -> None:
        booking = await committed(trip)
        guarded: Any = trip.workshop.portal
        forgetful = trip.with_workshop(portal=Forgetful(guarded.portal.http, trip.clock))
        trip.sandbox.faults = Faults(failed_before=1.0)
        await forgetful.work()
        trip.sandbox.faults = Faults()
        for _ in range(3):
            await forgetful.pass_time(SETTLED_S + 1)
        assert (await trip.booking(booking)).status is S.confirmed
        assert Forgetful.asked == 2 and bought(trip) == [booking.booking_id]

    play(story)


@pytest.mark.proves("TC-96")
@pytest.mark.parametrize(("begun", "ends"), [("1.00", "1.05"), ("1.04", "1.05"), ("1.04", "1.06")])
def test_a_fare_that_moves_again_at_the_last_moment_is_held_to_what_was_chosen(begun: str, ends: str) -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        chosen = booking.flight_options[0].price_usd
        await trip.choose(booking)
        trip.sandbox.price_factor = Decimal(begun)
        await trip.step()
        trip.sandbox.price_factor = Decimal(ends)
        await trip.work()
        booking = await trip.booking(booking)
        if ends == "1.06":
            assert booking.failure is not None and booking.failure.code == "price_changed"
            assert bought(trip) == []
            return
        assert booking.status is S.confirmed and booking.selected_option is not None
        assert booking.paid_usd == booking.selected_option.price_usd
        assert chosen < booking.paid_usd <= chosen * Decimal("1.05")

    play(story)


def test_an_employee_with_the_longest_id_gets_a_trip() -> None:
    async def story(trip: Play) -> None:
        somebody = Traveller(EmployeeId("a" * 128), "America/New_York", "BOS")
        booking = await trip.offered(EARLY, somebody)
        await trip.choose(booking)
        await trip.work()
        assert (await trip.booking(booking)).status is S.confirmed

    play(story)


def test_a_portal_of_nonsense_ends_in_the_link() -> None:
    async def story(trip: Play) -> None:
        real = trip.sandbox._apply_price_factor
        trip.sandbox._apply_price_factor = lambda offer: real(offer).model_copy(  # type: ignore[method-assign]
            update={"price_usd": Decimal("354.2100000000000000000000000000000000000001")}
        )
        booking = await trip.offered()
        for _ in range(2):
            await trip.pass_time(15)
        booking = await trip.booking(booking)
        assert booking.failure is not None and booking.failure.code == "portal_unavailable"
        assert booking.fallback_url

    play(story)


@pytest.mark.parametrize(("factor", "ends"), [("1", S.confirmed), ("1.5", S.failed)])
def test_an_offer_that_ended_meanwhile_is_looked_for_anew_by_its_flights(
    factor: str, ends: BookingStatus
) -> None:
    async def story(trip: Play) -> None:
        booking = await trip.offered()
        await trip.choose(booking)
        chosen = (await trip.booking(booking)).selected_option
        assert chosen is not None
        trip.clock.move(HOUR + 1)
        trip.sandbox.price_factor = Decimal(factor)
        assert await trip.step() == 1
        found = await trip.booking(booking)
        if ends is S.failed:
            assert (found.status, found.failure and found.failure.code) == (S.failed, "price_moved")
            return
        agreed = found.selected_option
        assert agreed is not None and agreed.offer_id != chosen.offer_id
        assert [each.flight_number for each in agreed.outbound] == [
            each.flight_number for each in chosen.outbound
        ]
        await trip.work()
        assert (await trip.booking(booking)).status is S.confirmed and len(bought(trip)) == 1

    play(story, offer_life_s=HOUR)
