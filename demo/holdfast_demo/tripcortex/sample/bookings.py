"""Bookings of the sample, as table writes: ended ones for each employee, and an active one for a few.

Ended bookings cover every outcome. An active booking is in a state of the flow, with its execution, the
employee's marker, and the token if it waits: it can be answered, and a worker continues it.
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
from holdfast_demo.tripcortex.sample.audit_trails import AuditTrail, build_ulid
from holdfast_demo.tripcortex.sample.trips import ROUTES, Route, Trip, TripGenerator
from holdfast_demo.tripcortex.sandbox.portal_timetable import CARRIERS_BY_CODE
from tripcortex.integrations.portal.fallback_link import build_fallback_url
from tripcortex.integrations.portal.ports import Order
from tripcortex.integrations.portal.purchases import RETENTION_S
from tripcortex.model import patterns
from tripcortex.model.entities import (
    ActiveBooking,
    Approval,
    ApprovalAsk,
    ApprovalStage,
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
from tripcortex.workers.booking_requests import EXECUTION_NAME
from tripcortex.workers.flow import BOOKING_FLOW
from tripcortex.workers.steps.endings import CHOICE_EXPIRED, OUT_OF_POLICY, PORTAL_DOWN
from tripcortex.workers.steps.serializers import option_to_json

# Per employee and year.
BOOKINGS_PER_EMPLOYEE: Final = 5
BOOKING_INTERVAL: Final = timedelta(days=73)
PORTAL_WEB_URL: Final = "https://travel-portal.invalid"
APPROVER: Final = EmployeeId("emp-7")
PNR_CHARS: Final = "BCDFGHJKLMNPQRSTVWXZ23456789"
CONFIRMED, CANCELLED_BY_EMPLOYEE = "confirmed", "cancelled_by_employee"
# Outcomes of twenty bookings.
OUTCOMES: Final = (
    *[CONFIRMED] * 13,
    *[OUT_OF_POLICY] * 2,
    PORTAL_DOWN,
    "price_moved",
    *[CHOICE_EXPIRED] * 2,
    CANCELLED_BY_EMPLOYEE,
)
OUTCOME_STATUSES: Final = {
    CONFIRMED: BookingStatus.confirmed,
    CHOICE_EXPIRED: BookingStatus.cancelled,
    CANCELLED_BY_EMPLOYEE: BookingStatus.cancelled,
}
# Minimum and maximum number of audit entries of an ended booking.
AUDIT_ENTRY_RANGE: Final = (10, 15)
ACTIVE_STATES: Final = (
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
# Age of the active booking, and a lead time short enough to need an approval.
ACTIVE_AGE: Final = timedelta(minutes=5)
APPROVAL_LEAD_DAYS: Final = 9


@dataclass(frozen=True)
class SampleTraveller:
    """An employee of the sample. `now` is the time of the last booking.

    `state` is the flow's state of the active booking, None without one.
    """

    number: int
    employee_id: EmployeeId
    now: datetime
    state: str | None = None

    @property
    def route(self) -> Route:
        """Return the traveller's route, by the traveller's number."""
        return ROUTES[self.number % len(ROUTES)]

    @property
    def count(self) -> int:
        """Return the number of bookings, the active one included."""
        return BOOKINGS_PER_EMPLOYEE


def build_booking_writes(
    stores: Stores, market: TripGenerator, traveller: SampleTraveller, index: int, *, now: datetime
) -> list[Write[Any]]:
    """Return the writes of the traveller's booking number `index` (from 0), for one transaction.

    The last booking of a traveller with a `state` is active; all others have ended.
    """
    if traveller.state is not None and index == traveller.count - 1:
        return list(_build_active(stores, market, traveller, traveller.state, now))
    random = Random(f"{traveller.employee_id} {index}")
    back = BOOKING_INTERVAL * (traveller.count - 1 - index) + timedelta(days=3 + traveller.number % 60)
    at = (traveller.now - back).replace(minute=random.randrange(60), second=random.randrange(60))
    return list(_build_ended(market, traveller, at, random, index, now))


# --- ended bookings -----------------------------------------------------------------------------------------


def _build_ended(
    market: TripGenerator, traveller: SampleTraveller, at: datetime, random: Random, index: int, now: datetime
) -> Iterator[Write[Any]]:
    """Yield the writes of an ended booking and its audit entries; if recent, of its portal call too."""
    end = OUTCOMES[random.randrange(len(OUTCOMES))]
    cabin = Cabin.first if end == OUT_OF_POLICY else Cabin.economy
    trip = market.get_past_trip(traveller.route, at, cabin=cabin)
    booking = _build_planned(market, traveller, trip, at, index)
    trail = AuditTrail(booking, trip, at)
    ending = _END_FUNCTIONS.get(end, _end_with_link)
    wanted = random.randint(*AUDIT_ENTRY_RANGE)
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
    if booking.status is BookingStatus.confirmed and trail.at + timedelta(seconds=RETENTION_S) > now:
        yield PortalCall.create(_build_portal_call(booking, trail.at))


def _end_confirmed(booking: Booking, trail: AuditTrail, outcome: str, entry_count: int) -> Booking:
    """Record choice, approval if needed, price check and purchase; return the confirmed booking."""
    booking = _record_until_options(booking, trail, entry_count, 4)
    option = booking.flight_options[0]
    trail.record_choice(option)
    approval = None
    if option.needs_approval:
        approval = _build_approval(trail.at)
        trail.record_approval(option, approval.asked_of)
        approval = approval.model_copy(
            update={"decision": "approve", "decided_by": approval.asked_of, "decided_at": trail.at}
        )
    trail.record_price(option)
    confirmation = f"{option.carrier}-{_draw_characters(booking, PNR_CHARS, 6)}"
    trail.record_completion(option, confirmation)
    return booking.model_copy(
        update={
            "status": BookingStatus.confirmed,
            "selected_option": option,
            "approval": approval,
            "confirmation_number": confirmation,
            "e_ticket_number": CARRIERS_BY_CODE[option.carrier].prefix
            + _draw_characters(booking, "0123456789", 10),
            "paid_usd": option.price_usd,
            "version": booking.version + 3 + (approval is not None),
        }
    )


def _end_refused(booking: Booking, trail: AuditTrail, outcome: str, entry_count: int) -> Booking:
    """Return the booking as failed by a breach of the policy, before the search."""
    judgement = trail.trip.judgement
    failure = Failure(
        code=outcome,
        text=" ".join(each.text for each in judgement.breaches),
        remedy="; ".join(each.remedy for each in judgement.breaches),
        breaches=list(judgement.breaches),
    )
    booking = _set_failure(_record_until_options(booking, trail, entry_count, 2), trail, failure)
    trail.record_failure("ValidatePlan")
    return booking


def _end_with_link(booking: Booking, trail: AuditTrail, outcome: str, entry_count: int) -> Booking:
    """Return the booking as failed with a fallback link: the portal was down or the fare had risen."""
    failure = Failure(
        code=outcome, text="The travel portal does not answer. Follow the link to book on its own pages."
    )
    link = build_fallback_url(PORTAL_WEB_URL, trail.trip.plan.parameters)
    booking = booking.model_copy(update={"fallback_url": link})
    booking = _set_failure(_record_until_options(booking, trail, entry_count, 2), trail, failure)
    trail.record_failure("BeginBooking")
    return booking


def _end_cancelled(booking: Booking, trail: AuditTrail, outcome: str, entry_count: int) -> Booking:
    """Return the booking as cancelled, by the employee or because no option was chosen in time."""
    failure = Failure(code=outcome, text="No option was chosen in time, or the employee cancelled.")
    booking = _set_failure(_record_until_options(booking, trail, entry_count, 1), trail, failure)
    trail.record_cancellation("options_presented")
    return booking.model_copy(update={"status": BookingStatus.cancelled})


_END_FUNCTIONS: Final[dict[str, Callable[[Booking, AuditTrail, str, int], Booking]]] = {
    CONFIRMED: _end_confirmed,
    OUT_OF_POLICY: _end_refused,
    CHOICE_EXPIRED: _end_cancelled,
    CANCELLED_BY_EMPLOYEE: _end_cancelled,
}


def _record_until_options(booking: Booking, trail: AuditTrail, entry_count: int, later_count: int) -> Booking:
    """Record the audit trail up to the options; return the booking with its answers and options.

    Questions and retries bring the trail to `entry_count` entries, including `later_count` that the caller
    adds.
    """
    questions = (entry_count - later_count - 4) // 3
    retries = entry_count - later_count - 4 - 2 * questions
    answers = [f"{trail.trip.plan.parameters.departure_date:%d %B}"] * questions
    trail.booking = booking = booking.model_copy(
        update={"answers": answers, "version": booking.version + 2 * questions}
    )
    trail.record_until_options(
        questions=questions, retries=retries, confidence=booking.policy_confidence or "none"
    )
    options = trail.trip.get_options_at(trail.at)
    trail.booking = booking = booking.model_copy(update={"flight_options": options})
    return booking


def _set_failure(booking: Booking, trail: AuditTrail, failure: Failure) -> Booking:
    """Return the booking as failed, and set it in the trail too."""
    trail.booking = booking.model_copy(
        update={"failure": failure, "status": BookingStatus.failed, "version": booking.version + 1}
    )
    return trail.booking


def _build_portal_call(booking: Booking, at: datetime) -> PortalCall:
    """Return the idempotency record of the booking's purchase at the portal."""
    option = _get_selected(booking)
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
        expires_at=whole + timedelta(seconds=RETENTION_S),
    )


# --- active bookings ----------------------------------------------------------------------------------------


def _build_active(
    stores: Stores, market: TripGenerator, traveller: SampleTraveller, state: str, now: datetime
) -> Iterator[Write[Any]]:
    """Yield the writes of an active booking in this state: with execution, marker and messages."""
    days = {"days": APPROVAL_LEAD_DAYS} if state == "approving" else {}
    trip = market.build_coming_trip(traveller.route, now, **days)
    at = now - ACTIVE_AGE
    booking = _build_planned(market, traveller, trip, at, traveller.count - 1)
    trail = AuditTrail(booking, trip, at)
    booking = _advance_to(state, booking, trail)
    # With this as the initial state, the flow itself builds the token and the execution.
    flow = copy(BOOKING_FLOW)
    flow.initial_state = state
    booking = flow.initial(stores, booking)
    if booking.approval is not None and booking.approval.decision is None:
        booking = booking.model_copy(update={"flow_due": booking.approval.due_at})
    yield patterns.create_booking(booking)
    marker = ActiveBooking(
        employee_id=booking.employee_id, booking_id=booking.booking_id, since=booking.created_at
    )
    yield patterns.take_place(marker)
    yield from flow.start_writes(stores, booking)
    yield from map(patterns.append_audit, trail.entries)
    yield from map(patterns.put_message, _build_messages(booking, now))


def _advance_to(state: str, booking: Booking, trail: AuditTrail) -> Booking:
    """Return the booking with what the steps before that state write; record their audit entries."""
    reached = ACTIVE_STATES.index(state)
    empty: dict[str, Any] = {"booking_plan": None}
    if reached < ACTIVE_STATES.index("retrieved"):
        return booking.model_copy(update=empty | {"passages": [], "policy_confidence": None, "version": 1})
    trail.record_retrieval(booking.policy_confidence or "none")
    if state == "asking":
        trail.record_question()
        question = OpenQuestion(text="On which day do you want to leave?", missing=["departure_date"])
        return booking.model_copy(update=empty | {"question": question, "version": 3})
    if state == "retrieved":
        return booking.model_copy(update=empty | {"version": 2})
    trail.record_plan()
    if reached >= ACTIVE_STATES.index("validated"):
        trail.record_validation()
    booking = booking.model_copy(update={"version": reached})
    return (
        _advance_past_search(state, booking, trail)
        if reached >= ACTIVE_STATES.index("options_presented")
        else booking
    )


def _advance_past_search(state: str, booking: Booking, trail: AuditTrail) -> Booking:
    """Return the booking in a state after the search: with options and, later, the chosen option."""
    trail.record_offers()
    options = trail.trip.get_options_at(trail.at)
    booking = booking.model_copy(update={"flight_options": options})
    if state == "options_presented":
        return booking
    option = options[0]
    trail.record_choice(option)
    if state == "approving":
        return booking.model_copy(update={"selected_option": option, "approval": _build_approval(trail.at)})
    if state == "booking":
        trail.record_price(option)
    return booking.model_copy(update={"selected_option": option})


def _build_messages(booking: Booking, now: datetime) -> Iterator[Message]:
    """Yield the unacknowledged message about what the booking waits for, if it waits."""
    messages: dict[str, tuple[EmployeeId, str, dict[str, Any]]] = {
        "options_presented": (
            booking.employee_id,
            "options",
            {"options": [option_to_json(each) for each in booking.flight_options]},
        ),
        "approving": (APPROVER, "approval", {"employeeId": booking.employee_id}),
        "asking": (
            booking.employee_id,
            "question",
            {} if booking.question is None else booking.question.model_dump(mode="json", by_alias=True),
        ),
    }
    if booking.flow_state in messages:
        employee_id, about, body = messages[booking.flow_state]
        yield Message(
            employee_id=employee_id,
            message_id=build_ulid(now, "message", booking.booking_id),
            kind=about,
            booking_id=booking.booking_id,
            body=body,
            at=now,
        )


# --- shared -------------------------------------------------------------------------------------------------


def _build_planned(
    market: TripGenerator, traveller: SampleTraveller, trip: Trip, at: datetime, index: int
) -> Booking:
    """Return the booking as it is after planning and validation."""
    booking_id = build_ulid(at, traveller.employee_id, index)
    return Booking(
        employee_id=traveller.employee_id,
        booking_id=booking_id,
        user_request=trip.sentence,
        booking_plan=trip.plan,
        execution_arn=EXECUTION_NAME.format(booking_id=booking_id),
        time_zone=trip.route.time_zone,
        home_airport=trip.route.origin,
        passages=market.citations,
        policy_confidence=market.confidence,
        created_at=at,
        updated_at=at,
        version=5,
    )


def _build_approval(at: datetime) -> Approval:
    """Return an open approval by emp-7, due a day after `at`."""
    due = (at + timedelta(hours=24)).replace(microsecond=0)
    stage = ApprovalStage(asks=[ApprovalAsk(word="line-manager", people=[APPROVER])])
    return Approval(asked_of=APPROVER, due_at=due, stages=[stage])


def _get_selected(booking: Booking) -> FlightOption:
    """Return the selected option, or the first one offered."""
    return booking.selected_option or booking.flight_options[0]


def _draw_characters(booking: Booking, characters: str, count: int) -> str:
    """Return `count` random characters that are the same for the same booking."""
    return "".join(Random(f"{characters} {booking.booking_id}").choices(characters, k=count))
