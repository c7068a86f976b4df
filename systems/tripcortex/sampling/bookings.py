"""Bookings of the sample: of each employee some that are over, and of a few one that is under way.

Those that are over ended in every way there is. One that is under way stands in a state of the flow, with its place there, the
employee's marker, and the token where it waits: it can be answered, and a worker goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from holdfast import Stores, Write
from holdfast.guarantees import OnceStatus, fingerprint
from tripcortex import patterns
from tripcortex.flow import BOOKING
from tripcortex.model import (
    ActiveBooking,
    Approval,
    Booking,
    BookingStatus,
    Cabin,
    EmployeeId,
    Failure,
    FlightOption,
    Message,
    OpenQuestion,
    PortalCall,
)
from tripcortex.portal.booking_once import LIFETIME_S
from tripcortex.portal.fallback import fallback_url
from tripcortex.portal.ports import Order
from tripcortex.requesting import EXECUTION
from tripcortex.sampling.trails import Trail, ulid_at
from tripcortex.sampling.trips import ROUTES, Market, Route, Trip
from tripcortex.sandbox.portal_flights import CARRIER_OF
from tripcortex.steps.ending import CHOICE_EXPIRED, OUT_OF_POLICY, PORTAL_DOWN
from tripcortex.steps.showing import shown_option

# Of one employee, in a year.
BOOKINGS: Final = 5
APART: Final = timedelta(days=73)
PORTAL_WEB: Final = "https://travel-portal.invalid"
APPROVER: Final = EmployeeId("emp-7")
PNR: Final = "BCDFGHJKLMNPQRSTVWXZ23456789"
CONFIRMED, CANCELLED_BY_EMPLOYEE = "confirmed", "cancelled_by_employee"
# How twenty bookings end.
ENDS: Final = (
    *[CONFIRMED] * 13,
    *[OUT_OF_POLICY] * 2,
    PORTAL_DOWN,
    "price_moved",
    *[CHOICE_EXPIRED] * 2,
    CANCELLED_BY_EMPLOYEE,
)
STATUSES: Final = {
    CONFIRMED: BookingStatus.confirmed,
    CHOICE_EXPIRED: BookingStatus.cancelled,
    CANCELLED_BY_EMPLOYEE: BookingStatus.cancelled,
}
# How many entries the audit of a booking that is over has.
ENTRIES: Final = (10, 15)
UNDER_WAY: Final = (
    "initiated",
    "retrieved",
    "asking",
    "planned",
    "validated",
    "options_presented",
    "approving",
    "user_selected",
    "booking",
)
# How long ago the one under way was asked for, and how soon before a flight one needs an approval.
BEGAN: Final = timedelta(minutes=5)
LATE_DAYS: Final = 9


@dataclass(frozen=True)
class Traveller:
    """An employee of the sample. `now` is when the last of the bookings was, or is under way."""

    number: int
    employee_id: EmployeeId
    now: datetime
    state: str | None = None

    @property
    def route(self) -> Route:
        return ROUTES[self.number % len(ROUTES)]

    @property
    def count(self) -> int:
        return BOOKINGS


def written(
    stores: Stores, market: Market, traveller: Traveller, place: int, *, now: datetime
) -> list[Write[Any]]:
    """The writes of one booking, the how manieth of the employee: for one transaction."""
    if traveller.state is not None and place == traveller.count - 1:
        return list(_under_way(stores, market, traveller, traveller.state, now))
    random = Random(f"{traveller.employee_id} {place}")
    back = APART * (traveller.count - 1 - place) + timedelta(days=3 + traveller.number % 60)
    at = (traveller.now - back).replace(minute=random.randrange(60), second=random.randrange(60))
    return list(_over(market, traveller, at, random, place, now))


# --- over --------------------------------------------------------------------------------------------------------


def _over(
    market: Market, traveller: Traveller, at: datetime, random: Random, place: int, now: datetime
) -> Iterator[Write[Any]]:
    end = ENDS[random.randrange(len(ENDS))]
    cabin = Cabin.first if end == OUT_OF_POLICY else Cabin.economy
    trip = market.former(traveller.route, at, cabin=cabin)
    booking = _planned(market, traveller, trip, at, place)
    trail = Trail(booking, trip, at)
    ending = _ENDING.get(end, _without_trip)
    wanted = random.randint(*ENTRIES)
    booking = ending(booking, trail, end, wanted)
    booking = booking.model_copy(
        update={
            "updated_at": trail.at.replace(microsecond=0),
            "flow_since": trail.at,
            "flow_state": booking.status,
        }
    )
    yield patterns.create_booking(booking)
    yield from map(patterns.append_audit, trail.entries)
    if booking.status is BookingStatus.confirmed and trail.at + timedelta(seconds=LIFETIME_S) > now:
        yield PortalCall.create(_call(booking, trail.at))


def _confirmed(booking: Booking, trail: Trail, end: str, wanted: int) -> Booking:
    booking = _searched(booking, trail, wanted, 4)
    option = booking.flight_options[0]
    trail.chosen(option)
    approval = None
    if option.needs_approval:
        approval = _approval(trail.at)
        trail.approved(option, approval.asked_of)
        approval = approval.model_copy(
            update={"decision": "approve", "decided_by": approval.asked_of, "decided_at": trail.at}
        )
    trail.priced(option)
    confirmation = f"{option.carrier}-{_drawn(booking, PNR, 6)}"
    trail.completed(option, confirmation)
    return booking.model_copy(
        update={
            "status": BookingStatus.confirmed,
            "selected_option": option,
            "approval": approval,
            "confirmation_number": confirmation,
            "e_ticket_number": CARRIER_OF[option.carrier].prefix + _drawn(booking, "0123456789", 10),
            "paid_usd": option.price_usd,
            "version": booking.version + 3 + (approval is not None),
        }
    )


def _refused(booking: Booking, trail: Trail, end: str, wanted: int) -> Booking:
    """Against the policy, before anything is searched."""
    judgement = trail.trip.judgement
    failure = Failure(
        code=end,
        text=" ".join(each.text for each in judgement.breaches),
        remedy="; ".join(each.remedy for each in judgement.breaches),
        breaches=list(judgement.breaches),
    )
    booking = _with_failure(_searched(booking, trail, wanted, 2), trail, failure)
    trail.failed("ValidatePlan")
    return booking


def _without_trip(booking: Booking, trail: Trail, end: str, wanted: int) -> Booking:
    """The portal stayed away, or the fare had moved: the employee has the link."""
    failure = Failure(
        code=end, text="The travel portal does not answer. Book the trip on its own pages by the link."
    )
    link = fallback_url(PORTAL_WEB, trail.trip.plan.parameters)
    booking = booking.model_copy(update={"fallback_url": link})
    booking = _with_failure(_searched(booking, trail, wanted, 2), trail, failure)
    trail.failed("BeginBooking")
    return booking


def _abandoned(booking: Booking, trail: Trail, end: str, wanted: int) -> Booking:
    failure = Failure(code=end, text="Nobody chose in time, or the trip was called off.")
    booking = _with_failure(_searched(booking, trail, wanted, 1), trail, failure)
    trail.cancelled("options_presented")
    return booking.model_copy(update={"status": BookingStatus.cancelled})


_ENDING: Final[dict[str, Callable[[Booking, Trail, str, int], Booking]]] = {
    CONFIRMED: _confirmed,
    OUT_OF_POLICY: _refused,
    CHOICE_EXPIRED: _abandoned,
    CANCELLED_BY_EMPLOYEE: _abandoned,
}


def _searched(booking: Booking, trail: Trail, wanted: int, after: int) -> Booking:
    """Up to the options. Questions and tries that failed make the trail as long as is wanted, with what comes `after`."""
    questions = (wanted - after - 4) // 3
    retries = wanted - after - 4 - 2 * questions
    answers = [f"{trail.trip.plan.parameters.departure_date:%d %B}"] * questions
    trail.booking = booking = booking.model_copy(
        update={"answers": answers, "version": booking.version + 2 * questions}
    )
    trail.searched(questions=questions, retries=retries, confidence=booking.policy_confidence or "none")
    options = trail.trip.options_at(trail.at)
    trail.booking = booking = booking.model_copy(update={"flight_options": options})
    return booking


def _with_failure(booking: Booking, trail: Trail, failure: Failure) -> Booking:
    trail.booking = booking.model_copy(
        update={"failure": failure, "status": BookingStatus.failed, "version": booking.version + 1}
    )
    return trail.booking


def _call(booking: Booking, at: datetime) -> PortalCall:
    """The record of what was bought."""
    option = _selected(booking)
    order = Order(
        reference=booking.booking_id,
        order_id=f"ORD-{booking.booking_id}",
        offer_id=option.offer_id,
        carrier=option.carrier,
        pnr=(booking.confirmation_number or "").rpartition("-")[2],
        e_ticket_number=booking.e_ticket_number or "",
        price_usd=option.price_usd,
        booked_at=at,
    )
    whole = at.replace(microsecond=0)
    return PortalCall(
        reference=booking.booking_id,
        employee_id=booking.employee_id,
        status=OnceStatus.PROCESSED,
        payload_sha256=fingerprint({"offer": option.offer_id, "traveller": booking.employee_id}),
        attempts=1,
        result=order.model_dump_json(),
        created_at=whole,
        last_processed_at=whole,
        expires_at=whole + timedelta(seconds=LIFETIME_S),
    )


# --- under way ---------------------------------------------------------------------------------------------------


def _under_way(
    stores: Stores, market: Market, traveller: Traveller, state: str, now: datetime
) -> Iterator[Write[Any]]:
    days = {"days": LATE_DAYS} if state == "approving" else {}
    trip = market.coming(traveller.route, now, **days)
    at = now - BEGAN
    booking = _planned(market, traveller, trip, at, traveller.count - 1)
    trail = Trail(booking, trip, at)
    booking = _as_far_as(state, booking, trail)
    # As if bookings began there: so the flow says itself what one in that state has, its token and its place.
    flow = copy(BOOKING)
    flow.begins = state
    booking = flow.begun(booking, stores)
    if booking.approval is not None and booking.approval.decision is None:
        booking = booking.model_copy(update={"flow_due": booking.approval.due_at})
    yield patterns.create_booking(booking)
    marker = ActiveBooking(
        employee_id=booking.employee_id, booking_id=booking.booking_id, since=booking.created_at
    )
    yield patterns.take_place(marker)
    yield from flow.started(stores, booking)
    yield from map(patterns.append_audit, trail.entries)
    yield from map(patterns.put_message, _told(booking, now))


def _as_far_as(state: str, booking: Booking, trail: Trail) -> Booking:
    """With what the steps before that state have written, of the booking and of its audit."""
    reached = UNDER_WAY.index(state)
    empty: dict[str, Any] = {"booking_plan": None}
    if reached < UNDER_WAY.index("retrieved"):
        return booking.model_copy(update=empty | {"passages": [], "policy_confidence": None, "version": 1})
    trail.retrieved(booking.policy_confidence or "none")
    if state == "asking":
        trail.asked()
        question = OpenQuestion(text="On which day do you want to leave?", missing=["departure_date"])
        return booking.model_copy(update=empty | {"question": question, "version": 3})
    if state == "retrieved":
        return booking.model_copy(update=empty | {"version": 2})
    trail.planned()
    if reached >= UNDER_WAY.index("validated"):
        trail.validated()
    booking = booking.model_copy(update={"version": reached})
    return _presented(state, booking, trail) if reached >= UNDER_WAY.index("options_presented") else booking


def _presented(state: str, booking: Booking, trail: Trail) -> Booking:
    trail.found()
    options = trail.trip.options_at(trail.at)
    booking = booking.model_copy(update={"flight_options": options})
    if state == "options_presented":
        return booking
    option = options[0]
    trail.chosen(option)
    if state == "approving":
        return booking.model_copy(update={"selected_option": option, "approval": _approval(trail.at)})
    if state == "booking":
        trail.priced(option)
    return booking.model_copy(update={"selected_option": option})


def _told(booking: Booking, now: datetime) -> Iterator[Message]:
    """What those who are waited for have not seen yet."""
    told: dict[str, tuple[EmployeeId, str, dict[str, Any]]] = {
        "options_presented": (
            booking.employee_id,
            "options",
            {"options": [shown_option(each) for each in booking.flight_options]},
        ),
        "approving": (APPROVER, "approval", {"employeeId": booking.employee_id}),
        "asking": (
            booking.employee_id,
            "question",
            {} if booking.question is None else booking.question.model_dump(mode="json", by_alias=True),
        ),
    }
    if booking.flow_state in told:
        employee_id, about, body = told[booking.flow_state]
        yield Message(
            employee_id=employee_id,
            message_id=ulid_at(now, "message", booking.booking_id),
            kind=about,
            booking_id=booking.booking_id,
            body=body,
            at=now,
        )


# --- of both -----------------------------------------------------------------------------------------------------


def _planned(market: Market, traveller: Traveller, trip: Trip, at: datetime, place: int) -> Booking:
    booking_id = ulid_at(at, traveller.employee_id, place)
    return Booking(
        employee_id=traveller.employee_id,
        booking_id=booking_id,
        user_request=trip.sentence,
        booking_plan=trip.plan,
        execution_arn=EXECUTION.format(booking_id=booking_id),
        time_zone=trip.route.time_zone,
        home_airport=trip.route.origin,
        passages=market.citations,
        policy_confidence=market.confidence,
        created_at=at,
        updated_at=at,
        version=5,
    )


def _approval(at: datetime) -> Approval:
    due = (at + timedelta(hours=24)).replace(microsecond=0)
    return Approval(asked_of=APPROVER, due_at=due)


def _selected(booking: Booking) -> FlightOption:
    return booking.selected_option or booking.flight_options[0]


def _drawn(booking: Booking, characters: str, count: int) -> str:
    return "".join(Random(f"{characters} {booking.booking_id}").choices(characters, k=count))
