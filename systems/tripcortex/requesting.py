"""A request for a trip: a booking begins, if the employee has none under way.

Whether one is under way is decided by the store: the booking, the employee's one place and the first step of the flow are
written in one transaction, and of two requests at the same moment one finds the place taken. Bookings are kept for good, also
those that were cancelled at once: so an employee may begin only so many in a minute.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Put, Stores, Ulid
from holdfast.errors import (
    ConditionFailed,
    Conflict,
    InvalidRequest,
    RateLimited,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from tripcortex import patterns
from tripcortex.flow import BOOKING
from tripcortex.ids import ids_of
from tripcortex.model import ActiveBooking, Booking, EmployeeId

TRIES_MAX: Final = 5
REQUEST_CHARS_MAX: Final = 2_000
REQUESTS_A_MINUTE: Final = 20
MINUTE: Final = timedelta(minutes=1)
# What the document calls the ARN of an execution. The flow is driven by its item, so that this names the flow alone.
EXECUTION: Final = "holdfast:flow:booking:{booking_id}"


class BookingUnderWay(Conflict, label="BookingUnderWay"):
    """The employee has a booking that has not ended: it ends, or is cancelled, before another begins."""

    def __init__(self, booking_id: Ulid) -> None:
        super().__init__(
            f"You have a booking under way ({booking_id}): finish or cancel it before you ask for another."
        )
        self.booking_id = booking_id


@dataclass(frozen=True)
class Traveller:
    """Who travels, as far as a booking needs it: known from the token, never from what a client sends."""

    employee_id: EmployeeId
    time_zone: str = "UTC"
    home_airport: str | None = None


async def request_booking(
    stores: Stores,
    traveller: Traveller,
    sentence: str,
    *,
    chars_max: int = REQUEST_CHARS_MAX,
    a_minute: int = REQUESTS_A_MINUTE,
) -> Booking:
    """The booking that now begins. Raises `BookingUnderWay` where the employee has one, `RateLimited` where too many began."""
    booking = _new(stores, traveller, _checked(sentence, chars_max))
    await _refuse_too_many(stores, booking, a_minute)
    for _ in range(TRIES_MAX):
        try:
            await stores.transact(
                patterns.create_booking(booking), _place(booking), *BOOKING.started(stores, booking)
            )
        except TransactionCancelled:
            await _free_place(stores, traveller.employee_id)
        except TransactionConflict:
            continue
        else:
            await BOOKING.hurry(stores, booking)
            return booking
    raise RetryLater("Too many requests of this employee come at once: try again in a moment.")


async def _refuse_too_many(stores: Stores, booking: Booking, a_minute: int) -> None:
    """The newest alone mostly says that there is nothing to count."""
    age = MINUTE
    for limit in (1, a_minute):
        page = await stores.run(patterns.history(booking.employee_id, limit))
        if len(page.items) < limit:
            return
        age = booking.created_at - page.items[-1].created_at
        if not timedelta(0) <= age < MINUTE:
            return
    raise RateLimited(
        f"You have begun {a_minute} bookings within a minute: wait a little before the next.",
        retry_after_s=(MINUTE - age).total_seconds(),
    )


async def _free_place(stores: Stores, employee_id: EmployeeId) -> None:
    """Raises where the place is rightly taken; one that an ended booking has left behind is taken away."""
    place = await stores.run(patterns.place_of(employee_id))
    if place is None:
        return
    holder = await stores.run(patterns.booking(employee_id, place.booking_id))
    if holder is not None and not holder.is_ended:
        raise BookingUnderWay(place.booking_id)
    # Where it is another's by now, that one is found at the next try.
    with suppress(ConditionFailed):
        await stores.run(patterns.leave_place(employee_id, place.booking_id))


def _new(stores: Stores, traveller: Traveller, sentence: str) -> Booking:
    now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
    booking_id = ids_of(stores.clock).new()
    booking = Booking(
        employee_id=traveller.employee_id,
        booking_id=booking_id,
        user_request=sentence,
        execution_arn=EXECUTION.format(booking_id=booking_id),
        time_zone=traveller.time_zone,
        home_airport=traveller.home_airport,
        created_at=now,
        updated_at=now,
    )
    return BOOKING.begun(booking, stores)


def _place(booking: Booking) -> Put[ActiveBooking]:
    marker = ActiveBooking(
        employee_id=booking.employee_id, booking_id=booking.booking_id, since=booking.created_at
    )
    return patterns.take_place(marker)


def _checked(sentence: str, chars_max: int) -> str:
    text = " ".join(sentence.split())
    if not text:
        raise InvalidRequest("Say where you want to go and when: the request is empty.")
    if len(text) > chars_max:
        raise InvalidRequest(
            f"The request has {len(text)} characters, and {chars_max} are enough: shorten it."
        )
    if not text.isprintable():
        raise InvalidRequest("The request has characters that nobody can read: write it as plain text.")
    return text
