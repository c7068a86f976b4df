"""Starts a booking from an employee's sentence, if the employee has no active one.

The store decides whether one is active: the booking, the employee's marker and the first step of the flow are
written in one transaction, so of two simultaneous requests one fails. Bookings are kept permanently, even if
they are cancelled at once, so the number of bookings per employee and minute is limited.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Put, Stores
from holdfast.core.errors import (
    ConditionFailed,
    Conflict,
    InvalidRequest,
    RateLimited,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.model.ulids import Ulid
from tripcortex.model import patterns
from tripcortex.model.entities import ActiveBooking, Booking, EmployeeId
from tripcortex.model.ids import get_ulids
from tripcortex.workers.flow import BOOKING_FLOW

MAX_ATTEMPTS: Final = 5
MAX_REQUEST_CHARS: Final = 2_000
REQUESTS_A_MINUTE: Final = 20
MINUTE: Final = timedelta(minutes=1)
# The document's execution ARN. The flow is driven by its item, so this only names the execution.
EXECUTION_NAME: Final = "holdfast:flow:booking:{booking_id}"


class BookingUnderWay(Conflict, label="BookingUnderWay"):
    """The employee has an active booking; it must end or be cancelled before another begins."""

    def __init__(self, booking_id: Ulid) -> None:
        super().__init__(
            f"You have an active booking ({booking_id}): finish or cancel it before you request another."
        )
        self.booking_id = booking_id


@dataclass(frozen=True)
class Requester:
    """The traveller as far as a booking needs it: taken from the token, never from the client's payload."""

    employee_id: EmployeeId
    time_zone: str = "UTC"
    home_airport: str | None = None


async def request_booking(
    stores: Stores,
    traveller: Requester,
    sentence: str,
    *,
    chars_max: int = MAX_REQUEST_CHARS,
    a_minute: int = REQUESTS_A_MINUTE,
) -> Booking:
    """Start a booking and return it; its first step is dispatched at once.

    Raise `InvalidRequest` for an empty or too long sentence, `BookingUnderWay` if the employee has an active
    booking, `RateLimited` if too many were started within a minute.
    """
    booking = _build_booking(stores, traveller, validate_sentence(sentence, chars_max))
    await _refuse_too_many(stores, booking, a_minute)
    for _ in range(MAX_ATTEMPTS):
        try:
            await stores.transact(
                patterns.create_booking(booking),
                _build_marker_write(booking),
                *BOOKING_FLOW.start_writes(stores, booking),
            )
        except TransactionCancelled:
            await _release_stale_marker(stores, traveller.employee_id)
        except TransactionConflict:
            continue
        else:
            await BOOKING_FLOW.dispatch_now(stores, booking)
            return booking
    raise RetryLater("Too many simultaneous requests from this employee. Retry in a moment.")


async def _refuse_too_many(stores: Stores, booking: Booking, a_minute: int) -> None:
    """Raise `RateLimited` if the employee started `a_minute` bookings within the last minute.

    The newest one alone usually settles it.
    """
    age = MINUTE
    for limit in (1, a_minute):
        page = await stores.run(patterns.history(booking.employee_id, limit))
        if len(page.items) < limit:
            return
        age = booking.created_at - page.items[-1].created_at
        if not timedelta(0) <= age < MINUTE:
            return
    raise RateLimited(
        f"You have started {a_minute} bookings within a minute: wait before you start another.",
        retry_after_s=(MINUTE - age).total_seconds(),
    )


async def _release_stale_marker(stores: Stores, employee_id: EmployeeId) -> None:
    """Delete a marker left behind by an ended booking. Raise `BookingUnderWay` if its booking is active."""
    place = await stores.run(patterns.place_of(employee_id))
    if place is None:
        return
    holder = await stores.run(patterns.booking(employee_id, place.booking_id))
    if holder is not None and not holder.is_ended:
        raise BookingUnderWay(place.booking_id)
    # If another booking has taken the marker meanwhile, the next attempt finds it.
    with suppress(ConditionFailed):
        await stores.run(patterns.leave_place(employee_id, place.booking_id))


def _build_booking(stores: Stores, traveller: Requester, sentence: str) -> Booking:
    """Return a new booking in the flow's initial state."""
    now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
    booking_id = get_ulids(stores.clock).new()
    booking = Booking(
        employee_id=traveller.employee_id,
        booking_id=booking_id,
        user_request=sentence,
        execution_arn=EXECUTION_NAME.format(booking_id=booking_id),
        time_zone=traveller.time_zone,
        home_airport=traveller.home_airport,
        created_at=now,
        updated_at=now,
    )
    return BOOKING_FLOW.initial(stores, booking)


def _build_marker_write(booking: Booking) -> Put[ActiveBooking]:
    """Return the write that creates the employee's active-booking marker; it fails if one exists."""
    marker = ActiveBooking(
        employee_id=booking.employee_id, booking_id=booking.booking_id, since=booking.created_at
    )
    return patterns.take_place(marker)


def validate_sentence(sentence: str, chars_max: int) -> str:
    """Return the sentence with single spaces.

    Raise `InvalidRequest` if it is empty, too long or unprintable.
    """
    text = " ".join(sentence.split())
    if not text:
        raise InvalidRequest("The request is empty: say where you want to go and when.")
    if len(text) > chars_max:
        raise InvalidRequest(f"The request has {len(text)} characters: shorten it to at most {chars_max}.")
    if not text.isprintable():
        raise InvalidRequest("The request has unprintable characters: write it as plain text.")
    return text
