"""Purchases with an unknown outcome, through the flow: everyone gets a result, nothing is bought twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.tripcortex.sandbox import portal
from tests.systems.tripcortex.unit.steps.booking_bench import EARLY, Bench, open_bench
from tests.systems.tripcortex.unit.steps.test_endings import check_ended, check_link
from tripcortex.api.identity import EMPLOYEE_FORM
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT, GuardedPortal
from tripcortex.integrations.portal.client import HttpPortal, make_client
from tripcortex.integrations.portal.purchases import SETTLED_S
from tripcortex.model.entities import AuditEvent, AuditRecord, Booking, BookingStatus, EmployeeId
from tripcortex.workers.booking_requests import BookingUnderWay, Requester
from tripcortex.workers.flow import BOOKING_FLOW
from tripcortex.workers.steps.endings import RETRIED

S = BookingStatus
MINUTE, HOUR = 60.0, 3600.0
NOWHERE = "http://127.0.0.1:1"


async def commit_booking(trip: Bench) -> Booking:
    """Choose and price a trip, so that the next step buys it."""
    booking = await trip.request_options()
    await trip.choose(booking)
    assert await trip.step() == 1
    booking = await trip.booking(booking)
    assert booking.flow_state == "booking"
    return booking


async def list_errors(trip: Bench, booking: Booking) -> list[str | None]:
    """Return the error codes of the purchase step's audit entries, without those of retries."""
    return [each.error_code for each in await list_error_entries(trip, booking) if each.error_code != RETRIED]


async def list_error_entries(trip: Bench, booking: Booking) -> list[AuditRecord]:
    """Return the purchase step's audit entries of errors."""
    trail = await trip.trail(booking)
    return [each for each in trail if each.event is AuditEvent.error and each.step == "CompleteBooking"]


async def list_messages(trip: Bench) -> list[tuple[str, str | None]]:
    """Return kind and code of each message to the employee."""
    return [(each.kind, each.body.get("code")) for each in await trip.list_messages()]


def list_purchases(trip: Bench) -> list[str]:
    """Return the references of the orders in the portal's ledger."""
    return [each["reference"] for each in trip.sandbox.ledger if each["what"] == "order"]


@pytest.mark.proves("TC-66", "TC-X8", "TC-X21")
async def test_portal_unreachable_after_the_commitment_offers_the_link(trip: Bench) -> None:
    booking = await commit_booking(trip)
    async with make_client(NOWHERE, "") as http:
        guarded = GuardedPortal(trip.workflow, HttpPortal(http, trip.clock), BREAKER)
        away = trip.with_dependencies(portal=guarded)
        await away.work()
        for _ in range(2):
            assert (await trip.booking(booking)).status is S.booking
            await away.pass_time(15)
    booking = await trip.booking(booking)
    assert booking.status is S.failed and booking.failure is not None and booking.fallback_url
    assert booking.failure.code == "portal_unavailable"
    assert await list_errors(trip, booking) == ["portal_unavailable"]
    retries = [each for each in await list_error_entries(trip, booking) if each.error_code == RETRIED]
    assert [each.input["attempt"] for each in retries] == [1, 2]
    assert all(each.output["error"] == "PartyFailed" and each.error_message for each in retries)
    assert await trip.marker() is None and await BOOKING_FLOW.list_executions(trip.stores) == []
    assert list_purchases(trip) == []


@pytest.mark.proves("TC-66", "TC-85")
async def test_circuit_opened_after_the_commitment_offers_the_link(trip: Bench) -> None:
    booking = await commit_booking(trip)
    for _ in range(5):
        with pytest.raises(ExternalServiceFailed):
            await BREAKER.call(trip.workflow, PORTAL_CIRCUIT, fail_as_down)
    await trip.work()
    booking = await trip.booking(booking)
    assert booking.failure is not None and booking.failure.code == "portal_unavailable"
    assert booking.fallback_url and list_purchases(trip) == []


async def fail_as_down() -> None:
    raise ExternalServiceFailed("down", may_be_done=False)


@pytest.mark.parametrize("has_acted", [True, False])
@pytest.mark.proves("TC-66", "TC-X8")
async def test_outage_during_a_purchase_is_reported_once_and_resolved_later(has_acted: bool) -> None:
    """If the portal acted, the trip is confirmed; if not, the offer has expired and there is a link."""
    async with open_bench(offer_life_s=HOUR) as trip:
        booking = await commit_booking(trip)
        trip.sandbox.faults = Faults(failed_after=1.0) if has_acted else Faults(failed_before=1.0)
        await trip.work()
        trip.sandbox.faults, trip.sandbox.is_down = Faults(), True
        await trip.pass_time(4 * MINUTE)
        assert await list_errors(trip, booking) == []
        for _ in range(12):
            await trip.pass_time(10 * MINUTE)
        assert (await trip.booking(booking)).status is S.booking
        assert await list_errors(trip, booking) == ["outcome_open"]
        retries = [each for each in await list_error_entries(trip, booking) if each.error_code == RETRIED]
        assert [each.input["attempt"] for each in retries] == [1, 2, 3, 4, 5, 8]
        assert [each for each in await list_messages(trip) if each[0] == "pending"] == [
            ("pending", "outcome_open")
        ]
        with pytest.raises(BookingUnderWay):
            await trip.ask()
        trip.sandbox.is_down = False
        for _ in range(2):
            await trip.pass_time(10 * MINUTE)
        booking = await trip.booking(booking)
        if has_acted:
            assert booking.status is S.confirmed and list_purchases(trip) == [booking.booking_id]
        else:
            assert booking.failure is not None and booking.failure.code == "offer_expired"
            assert booking.fallback_url and list_purchases(trip) == []
        assert await trip.marker() is None
        assert (await trip.request_options(EARLY)).status is S.options_presented


@pytest.mark.proves("TC-X8")
async def test_parks_after_a_day_for_the_travel_desk_and_can_be_resumed(trip: Bench) -> None:
    booking = await commit_booking(trip)
    trip.sandbox.faults = Faults(failed_after=1.0)
    await trip.work()
    trip.sandbox.faults, trip.sandbox.is_down = Faults(), True
    for _ in range(25):
        await trip.pass_time(HOUR)
    [place] = await BOOKING_FLOW.list_executions(trip.stores)
    assert place.is_parked and place.parked is not None and "holdfast flows resume" in place.parked
    assert await list_errors(trip, booking) == ["outcome_open", "outcome_unknown"]
    assert (await list_messages(trip))[-1] == ("pending", "outcome_unknown")
    # Resumed too early, it is parked again without a second message.
    await BOOKING_FLOW.resume(trip.workflow)
    await trip.work()
    assert [each.is_parked for each in await BOOKING_FLOW.list_executions(trip.stores)] == [True]
    assert len(await list_errors(trip, booking)) == 2
    trip.sandbox.is_down = False
    await trip.pass_time(2 * MINUTE)
    assert (await trip.booking(booking)).status is S.booking
    await BOOKING_FLOW.resume(trip.workflow)
    await trip.work()
    assert (await trip.booking(booking)).status is S.confirmed
    assert list_purchases(trip) == [booking.booking_id]


@pytest.mark.proves("TC-X8")
async def test_interrupted_step_is_retried_and_finds_its_purchase(trip: Bench) -> None:
    booking = await commit_booking(trip)
    trip.sandbox.faults = Faults(silent_after=1.0, silence_s=1.0)
    with limit_step(0.5):
        await trip.work()
    assert list_purchases(trip) == [booking.booking_id]
    assert (await trip.booking(booking)).status is S.booking
    trip.sandbox.faults = Faults()
    for _ in range(2):
        await trip.pass_time(MINUTE)
    assert (await trip.booking(booking)).status is S.confirmed
    assert list_purchases(trip) == [booking.booking_id]


@contextmanager
def limit_step(seconds: float) -> Iterator[None]:
    """Cut off the purchase step after this many seconds."""
    state = BOOKING_FLOW.states["booking"]
    step: Any = state.action
    object.__setattr__(state, "action", dataclasses.replace(step, timeout_s=seconds))
    try:
        yield
    finally:
        object.__setattr__(state, "action", step)


@pytest.mark.proves("TC-X8")
async def test_crash_during_the_purchase_is_parked_reported_and_resumable(trip: Bench) -> None:
    class Broken(HttpPortal):
        async def book(self, *_: Any) -> Any:
            raise ZeroDivisionError("with what it was given")

    booking = await commit_booking(trip)
    async with make_client(NOWHERE, "") as http:
        broken = trip.with_dependencies(portal=Broken(http, trip.clock))
        await broken.work()
    [place] = await BOOKING_FLOW.list_executions(trip.stores)
    assert place.is_parked
    assert await list_errors(trip, booking) == ["outcome_unknown"]
    assert (await list_messages(trip))[-1] == ("pending", "outcome_unknown")
    assert "with what it was given" not in str(await trip.trail(booking)) + str(place)
    trip.clock.move(2 * MINUTE)
    await BOOKING_FLOW.resume(trip.workflow)
    await trip.work()
    # The outcome was unknown: nothing was bought, the retry bought it, and it is looked up again.
    await trip.pass_time(SETTLED_S + 1)
    assert (await trip.booking(booking)).status is S.confirmed
    assert list_purchases(trip) == [booking.booking_id]


async def test_late_purchase_is_cancelled_and_audited(trip: Bench) -> None:
    booking = await commit_booking(trip)
    trip.sandbox.late_orders, trip.sandbox.late_s = 1, 45.0
    await trip.work()
    for _ in range(4):
        await trip.pass_time(30)
    booking = await trip.booking(booking)
    assert booking.status is S.confirmed and len(list_purchases(trip)) == 2
    orders = trip.sandbox.orders.find_orders(booking.booking_id)
    [live] = [each for each in orders if each.status == "confirmed"]
    assert booking.confirmation_number == live.confirmation
    assert await list_errors(trip, booking) == ["surplus_order"]
    entry = next(each for each in await trip.trail(booking) if each.error_code == "surplus_order")
    [other] = [each.order_id for each in orders if each is not live]
    assert entry.output == {"kept": live.order_id, "cancelled": [other], "not_cancelled": []}


async def test_purchase_is_confirmed_even_if_the_second_look_up_is_refused(trip: Bench) -> None:
    class Forgetful(HttpPortal):
        asked = 0

        async def look_up(self, reference: str) -> Any:
            type(self).asked += 1
            if type(self).asked > 1:
                raise ExternalServiceRefused("404", "gone")
            return await super().look_up(reference)

    booking = await commit_booking(trip)
    guarded: Any = trip.dependencies.portal
    forgetful = trip.with_dependencies(portal=Forgetful(guarded.portal.http, trip.clock))
    trip.sandbox.faults = Faults(failed_before=1.0)
    await forgetful.work()
    trip.sandbox.faults = Faults()
    for _ in range(3):
        await forgetful.pass_time(SETTLED_S + 1)
    assert (await trip.booking(booking)).status is S.confirmed
    assert Forgetful.asked == 2 and list_purchases(trip) == [booking.booking_id]


@pytest.mark.proves("TC-96")
@pytest.mark.parametrize(
    ("begun", "ends", "failure"),
    [
        ("1.05", "1.05", None),
        ("1.00", "1.05", None),
        ("1.04", "1.05", None),
        ("1.06", "1.06", "price_moved"),
        ("1.04", "1.06", "price_changed"),
    ],
)
async def test_buys_a_fare_at_most_five_percent_above_the_chosen_one(
    trip: Bench, begun: str, ends: str, failure: str | None
) -> None:
    booking = await trip.request_options()
    chosen = booking.flight_options[0].price_usd
    await trip.choose(booking)
    trip.sandbox.price_factor = Decimal(begun)
    await trip.step()
    trip.sandbox.price_factor = Decimal(ends)
    await trip.work()
    if failure is not None:
        check_link(await check_ended(trip, booking, S.failed, failure))
        assert list_purchases(trip) == []
        return
    booking = await trip.booking(booking)
    assert booking.status is S.confirmed and booking.selected_option is not None
    assert booking.paid_usd == booking.selected_option.price_usd
    assert chosen < booking.paid_usd <= chosen * Decimal("1.05")


async def test_employee_with_the_longest_id_can_book(trip: Bench) -> None:
    longest = "a" * 128
    assert EMPLOYEE_FORM.fullmatch(longest) and not EMPLOYEE_FORM.fullmatch(longest + "a")
    booking = await trip.request_options(EARLY, Requester(EmployeeId(longest), "America/New_York", "BOS"))
    await trip.choose(booking)
    await trip.work()
    assert (await trip.booking(booking)).status is S.confirmed


async def test_invalid_portal_responses_offer_the_link(trip: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        portal, "_dump_offer", lambda offer: {"offer_id": offer.offer_id, "price_usd": "much"}
    )
    booking = await trip.request_options()
    for _ in range(2):
        await trip.pass_time(15)
    booking = await trip.booking(booking)
    assert booking.failure is not None and booking.failure.code == "portal_unavailable"
    assert booking.fallback_url


@pytest.mark.parametrize(("factor", "ends"), [("1", S.confirmed), ("1.5", S.failed)])
async def test_expired_offer_is_searched_again_by_its_flights(factor: str, ends: BookingStatus) -> None:
    async with open_bench(offer_life_s=HOUR) as trip:
        booking = await trip.request_options()
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
        assert (await trip.booking(booking)).status is S.confirmed and len(list_purchases(trip)) == 1
