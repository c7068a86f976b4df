"""Contract tests of bookings on every engine: keys, order, one active booking, choices and deadlines."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.errors import ConditionFailed, InvalidRequest, NotCancellable, NotWaiting, WaitTokenRefused
from holdfast.model.ulids import Ulid, UlidGenerator
from tripcortex.model import patterns
from tripcortex.model.entities import ActiveBooking, Booking, BookingStatus
from tripcortex.workers.booking_requests import BookingUnderWay
from tripcortex.workers.flow import BOOKING_FLOW

from .conftest import SENTENCE, Bench

S = BookingStatus
ROUNDS = 6
REQUESTS = 6


@pytest.mark.proves("TC-58", "TC-59", "TC-89", "TC-70")
async def test_request_is_stored_as_documented_and_starts_the_flow(bench: Bench) -> None:
    booking = await bench.ask()
    assert await bench.get_item(booking) == {
        "employeeId": bench.employee,
        "bookingId": booking.booking_id,
        "status": "initiated",
        "userRequest": SENTENCE,
        "flightOptions": [],
        "executionArn": f"holdfast:flow:booking:{booking.booking_id}",
        "createdAt": "2126-03-10T14:30:00Z",
        "updatedAt": "2126-03-10T14:30:00Z",
        "flowState": "initiated",
        "flowSince": "2126-03-10T14:30:00.000000Z",
        "version": 1,
        "timeZone": "UTC",
        "passages": [],
        "answers": [],
        "notes": [],
    }
    assert await bench.booking(booking) == booking
    [place] = await bench.list_executions()
    assert (place.key, place.step) == (f"{bench.employee}#{booking.booking_id}", "EmbedAndRetrieve")
    with pytest.raises(ConditionFailed):
        await bench.stores.run(patterns.create_booking(booking))


@pytest.mark.proves("TC-X6", "TC-70", "TC-102")
async def test_history_pages_one_employees_bookings_newest_first(bench: Bench) -> None:
    made = []
    for number in range(7):
        bench.clock.move(60)
        booking = await bench.ask()
        made.append(booking.booking_id)
        if number < 6:
            await BOOKING_FLOW.cancel(bench.stores, booking, "another")
    await bench.ask(bench.another())
    found: list[Ulid] = []
    after = None
    for expected in (3, 3, 1):
        page = await bench.stores.run(patterns.history(bench.employee, 3, after))
        assert len(page.items) == expected
        found += [each.booking_id for each in page.items]
        after = page.cursor
    assert after is None and found == made[::-1]
    active = await bench.stores.all(patterns.active_bookings_of(bench.employee))
    assert [each.booking_id for each in active] == [made[-1]]


# --- one active booking -------------------------------------------------------------------------------------


@pytest.mark.proves("TC-69", "TC-X7")
async def test_concurrent_requests_create_one_booking_per_round(bench: Bench) -> None:
    for number in range(ROUNDS):
        employee = bench.another(number)
        outcomes = await asyncio.gather(
            *(bench.ask(employee) for _ in range(REQUESTS)), return_exceptions=True
        )
        accepted = [each for each in outcomes if isinstance(each, Booking)]
        assert len(accepted) == 1, outcomes
        assert {type(each) for each in outcomes} == {Booking, BookingUnderWay}
        page = await bench.stores.run(patterns.history(employee))
        assert [each.booking_id for each in page.items] == [accepted[0].booking_id]
        refused = [each for each in outcomes if isinstance(each, BookingUnderWay)]
        assert {each.booking_id for each in refused} == {accepted[0].booking_id}
    assert len(await bench.list_executions()) == ROUNDS


@pytest.mark.proves("TC-69", "TC-X7")
async def test_concurrent_requests_and_cancellations_leave_no_active_booking(bench: Bench) -> None:
    async def request_and_cancel(bench: Bench) -> None:
        for _ in range(3):
            try:
                booking = await bench.ask()
                await BOOKING_FLOW.cancel(bench.stores, booking, "no")
            except BookingUnderWay:
                pass

    await asyncio.gather(*(request_and_cancel(bench) for _ in range(4)))
    assert await bench.marker() is None
    assert list(await bench.stores.all(patterns.active_bookings_of(bench.employee))) == []
    assert (await bench.ask()).status is S.initiated


@pytest.mark.proves("TC-69")
async def test_second_request_is_refused_and_names_the_active_booking(bench: Bench) -> None:
    booking = await bench.make_offered_booking()
    with pytest.raises(BookingUnderWay) as refused:
        await bench.ask()
    assert refused.value.booking_id == booking.booking_id
    assert (await bench.ask(bench.another())).status is S.initiated


@pytest.mark.proves("TC-69", "TC-X7")
async def test_takes_over_a_stale_active_booking_marker(bench: Bench) -> None:
    """A marker is stale if its booking has ended or does not exist."""
    ended = await bench.ask()
    await BOOKING_FLOW.cancel(bench.stores, ended, "no")
    for stale in (ended.booking_id, UlidGenerator(bench.clock).new()):
        left = ActiveBooking(employee_id=bench.employee, booking_id=stale, since=bench.clock.moment)
        await bench.stores.run(patterns.take_place(left))
        booking = await bench.ask()
        place = await bench.marker()
        assert place is not None and place.booking_id == booking.booking_id
        await BOOKING_FLOW.cancel(bench.stores, booking, "no")
    assert await bench.marker() is None


@pytest.mark.proves("TC-69", "TC-X10")
async def test_cancelled_expired_and_failed_bookings_remove_the_marker(bench: Bench) -> None:
    cancelled = await bench.make_offered_booking()
    await BOOKING_FLOW.cancel(bench.stores, cancelled, "no")
    assert await bench.marker() is None

    expired = await bench.make_offered_booking()
    bench.clock.move(1799)
    await bench.sweep()
    assert (await bench.booking(expired)).status is S.options_presented
    bench.clock.move(1)
    await bench.sweep()
    assert (await bench.booking(expired)).status is S.cancelled
    [entry] = await bench.stores.all(patterns.trail(expired.booking_id))
    assert (entry.step, entry.output) == ("Choice", {"cancelled": "choice_expired"})
    assert await bench.marker() is None

    failed = await bench.make_offered_booking()
    await bench.choose(failed)
    while await bench.work():
        pass
    assert (await bench.booking(failed)).status is S.failed
    assert await bench.marker() is None
    assert await bench.list_executions() == []


async def test_an_end_never_removes_another_bookings_marker(bench: Bench) -> None:
    """The deletion of a marker under another booking's id fails."""
    booking = await bench.ask()
    with pytest.raises(ConditionFailed):
        await bench.stores.run(patterns.leave_place(bench.employee, UlidGenerator(bench.clock).new()))
    place = await bench.marker()
    assert place is not None and place.booking_id == booking.booking_id


@pytest.mark.proves("TC-95", "TC-X12")
async def test_invalid_choice_leaves_the_item_unchanged(bench: Bench) -> None:
    """A valid choice then ends the wait, and the same token is refused afterwards."""
    booking = await bench.make_offered_booking()
    stored = await bench.get_item(booking)
    token = BOOKING_FLOW.make_token(booking)
    assert stored["taskToken"] != token and len(str(stored["taskToken"])) == 64
    with pytest.raises(InvalidRequest):
        await bench.choose(booking, "4")
    with pytest.raises(WaitTokenRefused):
        await bench.choose(booking, "1", "another")
    assert await bench.get_item(booking) == stored

    bench.clock.move(5)
    chosen = await bench.choose(booking, "2")
    assert (chosen.status, chosen.selected_option) == (S.user_selected, booking.flight_options[1])
    stored = await bench.get_item(booking)
    assert (stored["status"], stored["updatedAt"]) == ("user_selected", "2126-03-10T14:30:05Z")
    assert "taskToken" not in stored and "flowDue" not in stored
    with pytest.raises(NotWaiting):
        await bench.choose(booking, "1", token)
    assert await bench.get_item(booking) == stored


@pytest.mark.proves("TC-95")
async def test_concurrent_choices_accept_one(bench: Bench) -> None:
    booking = await bench.make_offered_booking()
    outcomes = await asyncio.gather(
        *(bench.choose(booking, str(number % 3 + 1)) for number in range(6)),
        return_exceptions=True,
    )
    taken = [each for each in outcomes if isinstance(each, Booking)]
    assert len(taken) == 1 and {type(each) for each in outcomes} == {Booking, NotWaiting}, outcomes
    assert (await bench.booking(booking)).selected_option == taken[0].selected_option
    assert len(await bench.stores.all(patterns.trail(booking.booking_id))) == 1


@pytest.mark.proves("TC-X9")
async def test_concurrent_choice_and_cancellation_leave_a_consistent_booking(bench: Bench) -> None:
    for _ in range(4):
        booking = await bench.make_offered_booking()
        chosen, cancelled = await asyncio.gather(
            bench.choose(booking),
            BOOKING_FLOW.cancel(bench.stores, booking, "no"),
            return_exceptions=True,
        )
        # A choice after the cancellation is refused; a chosen booking can still be cancelled.
        assert isinstance(cancelled, Booking)
        assert isinstance(chosen, Booking | NotWaiting)
        assert (await bench.booking(booking)).status is S.cancelled
        with pytest.raises(NotCancellable):
            await BOOKING_FLOW.cancel(bench.stores, booking, "again")
        assert await bench.marker() is None
