"""The price of a flight after its approval: bought within the tolerance, otherwise back to people."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from holdfast.core.errors import InvalidRequest, NotWaiting
from tests.systems.tripcortex.unit.steps.booking_bench import EMPLOYEE, Bench
from tests.systems.tripcortex.unit.steps.company import decide, list_kinds, open_company, reach_approval
from tests.systems.tripcortex.unit.steps.test_endings import check_ended
from tests.systems.tripcortex.unit.steps.test_purchase_failures import list_purchases
from tripcortex.api.identity import Employee
from tripcortex.api.routes.schemas import build_booking_view
from tripcortex.api.trips import Trips
from tripcortex.model.entities import Booking, BookingStatus
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.flow import BOOKING_FLOW
from tripcortex.workers.steps.repricing import REPRICING_S, compute_tolerated_price

S = BookingStatus
HOUR = 3600.0


@pytest.fixture
async def company() -> AsyncIterator[Bench]:
    async with open_company() as trip:
        yield trip


async def approve_at(trip: Bench, factor: str, *, offer_expires: bool = False) -> tuple[Booking, Decimal]:
    """Approve a late booking while prices change by `factor`; return it and the price that was chosen."""
    booking = await reach_approval(trip)
    assert booking.selected_option is not None
    trip.sandbox.price_factor = Decimal(factor)
    if offer_expires:
        trip.clock.move(HOUR / 3)
    await decide(trip, booking, "emp-7")
    await trip.work()
    return await trip.booking(booking), booking.selected_option.price_usd


async def settle(trip: Bench, booking: Booking, decision: str) -> Booking:
    employee = Employee(EMPLOYEE)
    await Trips(trip.api).settle_price(employee, booking.booking_id, decision)
    await trip.work()
    return await trip.booking(booking)


@pytest.mark.parametrize("factor", ["1", "1.019", "0.8"])
async def test_buys_within_the_tolerance_and_at_a_lower_price(company: Bench, factor: str) -> None:
    booking, chosen = await approve_at(company, factor)
    assert booking.status is S.confirmed and booking.paid_usd is not None
    assert (booking.paid_usd < chosen) is (factor == "0.8")
    assert list_purchases(company) == [booking.booking_id]


async def test_traveller_accepts_a_higher_price(company: Bench) -> None:
    booking, chosen = await approve_at(company, "1.1")
    assert (booking.flow_state, booking.status) == ("repriced", S.user_selected)
    assert booking.repricing is not None and booking.repricing.accepted_usd == chosen
    shown = build_booking_view(booking)
    assert (shown.waits_for, shown.repricing) == ("price", booking.repricing)
    message = (await company.list_messages())[-1]
    assert (message.kind, message.body["acceptedUsd"]) == ("price_changed", str(chosen))
    assert "the fare rose from" in message.body["text"] and list_purchases(company) == []
    booking = await settle(company, booking, "accept")
    assert booking.status is S.confirmed and booking.repricing is None
    assert booking.paid_usd is not None and booking.paid_usd > chosen
    assert list_purchases(company) == [booking.booking_id]
    # A repeated answer buys nothing more.
    with pytest.raises(NotWaiting):
        await settle(company, booking, "accept")


async def test_price_that_rises_again_after_acceptance_is_asked_again(company: Bench) -> None:
    booking, _ = await approve_at(company, "1.1")
    company.sandbox.price_factor = Decimal("1.3")
    booking = await settle(company, booking, "accept")
    assert booking.flow_state == "repriced" and list_purchases(company) == []
    company.sandbox.price_factor = Decimal("1.05")
    booking = await settle(company, booking, "accept")
    assert booking.status is S.confirmed


async def test_traveller_may_cancel_or_ignore_a_higher_price(company: Bench) -> None:
    booking, _ = await approve_at(company, "1.1")
    await company.cancel(booking)
    await check_ended(company, booking, S.cancelled, "cancelled_by_employee")
    company.sandbox.price_factor = Decimal(1)
    booking, _ = await approve_at(company, "1.1")
    await company.pass_time(REPRICING_S)
    await check_ended(company, booking, S.cancelled, "repricing_expired")
    assert list_purchases(company) == []


async def test_sold_out_flights_are_searched_again_on_request() -> None:
    async with open_company(offer_life_s=HOUR / 4) as trip:
        seats = trip.sandbox.seats
        booking = await reach_approval(trip)
        trip.sandbox.seats = 0
        trip.clock.move(HOUR / 3)
        await decide(trip, booking, "emp-7")
        await trip.work()
        booking = await trip.booking(booking)
        assert booking.flow_state == "repriced"
        assert (await list_kinds(trip, EMPLOYEE))[-1] == "offer_gone"
        with pytest.raises(InvalidRequest, match="sold out"):
            await settle(trip, booking, "accept")
        trip.sandbox.seats = seats
        booking = await settle(trip, booking, "search")
        assert booking.status is S.options_presented and len(booking.flight_options) > 0
        assert (booking.approval, booking.selected_option, booking.repricing) == (None, None, None)
        await trip.choose(booking)
        assert (await trip.booking(booking)).flow_state == "approving"
        assert list_purchases(trip) == []


async def test_expired_offer_is_found_again_at_its_new_price() -> None:
    async with open_company(offer_life_s=HOUR / 4) as trip:
        booking, _ = await approve_at(trip, "1.5", offer_expires=True)
        assert booking.flow_state == "repriced"
        booking = await settle(trip, booking, "accept")
        assert booking.status is S.confirmed


async def test_price_that_needs_more_approval_gets_it_before_the_traveller_is_asked(company: Bench) -> None:
    # Above the cap of $900 the policy asks for an approval of the fare too.
    booking, chosen = await approve_at(company, "10")
    assert booking.flow_state == "approving" and booking.approval is not None
    assert {*booking.approval.codes} == {"fare_above_cap", "late_booking"}
    assert (booking.approval.accepted_usd, booking.approval.decision) == (chosen, None)
    assert booking.approval.price_usd is not None and booking.approval.price_usd > 900
    assert list_purchases(company) == []
    await decide(company, booking, "emp-7")
    await company.work()
    booking = await company.booking(booking)
    # The approvers agreed to the price, and the traveller has not yet.
    assert booking.flow_state == "repriced" and booking.repricing is not None
    booking = await settle(company, booking, "accept")
    assert booking.status is S.confirmed
    assert list_purchases(company) == [booking.booking_id]


async def test_approval_of_a_fare_is_none_of_a_higher_fare(company: Bench) -> None:
    booking, _ = await approve_at(company, "10")
    company.sandbox.price_factor = Decimal("10.5")
    await decide(company, booking, "emp-7")
    await company.work()
    booking = await company.booking(booking)
    assert booking.flow_state == "approving" and booking.approval is not None
    assert booking.approval.decision is None and list_purchases(company) == []


async def test_restart_between_approval_and_purchase_buys_once(company: Bench) -> None:
    booking = await reach_approval(company)
    # The process dies right after the decision: its message is lost, and the sweeper sends it again.
    await decide(company, booking, "emp-7")
    received = await company.workflow.run(BOOKING_FLOW.pattern_set.consumer.receive(10, 0.0))
    for each in received:
        await company.workflow.run(BOOKING_FLOW.pattern_set.consumer.delete(each))
    assert list_purchases(company) == []
    for _ in range(3):
        await company.pass_time(200)
    booking = await company.booking(booking)
    assert booking.status is S.confirmed and list_purchases(company) == [booking.booking_id]


def test_tolerance_is_the_smaller_of_percent_and_usd() -> None:
    settings = TripCortexSettings()
    assert compute_tolerated_price(Decimal(500), settings) == 510
    assert compute_tolerated_price(Decimal(5000), settings) == 5025
