"""One call, one disruption: who and what is hit, and what could be done about it. It writes nothing.

`gathering` reads; here it becomes a report, section by section. `itineraries`, `legality` and `recovery` make the
sections with the most reasoning in them; the rules of the trade are in connections, duty, rights and options.
`decision` writes what was chosen.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Final

from holdfast import Stores
from holdfast.errors import InvalidRequest
from skymarshal import connections, network
from skymarshal.airports import airport_of, distance_km
from skymarshal.delay_codes import delay_code
from skymarshal.gathering import Found, gather
from skymarshal.impact import (
    BagsHit,
    CargoHit,
    CargoSection,
    Claimants,
    CompensationSection,
    DisruptionAsked,
    FlightHit,
    LostConnection,
    MaintenanceSection,
    NextFlight,
    PassengerHit,
    PassengersHit,
    Report,
    RotationSection,
    WorkOrderHit,
)
from skymarshal.itineraries import Missed, missed_as_asked, rank, services_of
from skymarshal.legality import crew_section
from skymarshal.model import CargoAssignment, Flight, PassengerId, WorkOrder
from skymarshal.queries import on_shift
from skymarshal.recovery import TURNAROUND, notice_days, options_section
from skymarshal.rights import DisruptedJourney, Exposure, exposure
from skymarshal.statuses import (
    CargoSpecialHandling,
    DisruptionKind,
    ReputationRisk,
    WorkOrderStatus,
    repair_due,
)

HIGH_RISK_SCORE: Final = 200
MEDIUM_RISK_SCORE: Final = 60
# Who misses a connection is taken to arrive a day later.
OVERNIGHT: Final = timedelta(days=1)


async def assess(stores: Stores, asked: DisruptionAsked) -> Report:
    """The whole answer. Nothing is written."""
    _check(asked)
    found = await gather(stores, asked)
    _check_airports(found.flight)
    missed = missed_as_asked(found)
    return Report(
        kind=asked.kind,
        delay_minutes=asked.delay_minutes,
        delay_code=asked.delay_code,
        known_at=found.known_at,
        problems=found.problems,
        flight=_flight_hit(found),
        passengers=_passengers(found, missed),
        bags=_bags(found, missed),
        crew=crew_section(found),
        cargo=_cargo(found),
        maintenance=_maintenance(found),
        rotation=_rotation(found),
        compensation=_compensation(found, missed),
        options=options_section(found, missed),
        requests=len(found.total.usages),
        items_read=found.total.items_read,
        read_units=found.total.units.read,
    )


def _check(asked: DisruptionAsked) -> None:
    """What no reading is needed for: whether there is such a delay code, and such an aircraft."""
    if asked.delay_code is not None:
        try:
            delay_code(asked.delay_code)
        except ValueError as error:
            raise InvalidRequest(str(error)) from error
    if asked.swap_to is not None:
        network.aircraft(asked.swap_to)


def _check_airports(flight: Flight) -> None:
    """Distance and local time come from the table of airports."""
    for code in (flight.origin, flight.destination):
        try:
            airport_of(code)
        except ValueError as error:
            raise InvalidRequest(
                f"Flight {flight.flight_number} cannot be assessed: {error} Rights and duty limits go by it."
            ) from error


def _flight_hit(found: Found) -> FlightHit:
    flight = found.flight
    return FlightHit(
        flight_id=flight.flight_id,
        flight_number=flight.flight_number,
        origin=flight.origin,
        destination=flight.destination,
        scheduled_departure=flight.scheduled_departure,
        scheduled_arrival=flight.scheduled_arrival,
        new_departure=None if found.is_cancelled else found.new_departure,
        new_arrival=None if found.is_cancelled else found.new_arrival,
        status=flight.flight_status,
        aircraft_registration=found.asked.swap_to or flight.aircraft_registration,
        capacity=found.capacity,
        version=flight.version,
        traces=found.traced.traces,
    )


# --- passengers and bags -----------------------------------------------------------------------------------------


def _passengers(found: Found, missed: Missed) -> PassengersHit:
    return PassengersHit(
        count=len(found.people),
        missing_connections=sum(map(bool, missed.values())),
        denied_boarding=found.denied_boarding,
        waitlisted=found.first.waitlisted,
        ranked=[
            _passenger_hit(found, place, each, missed)
            for place, each in enumerate(rank(found, missed), start=1)
        ],
        traces=[
            *found.first.traced["passengers"].traces,
            *found.second.traced["passengers"].traces,
            *found.third.traced.traces,
        ],
    )


def _passenger_hit(
    found: Found, place: int, ranked: connections.RankedPassenger, missed: Missed
) -> PassengerHit:
    passenger_id = PassengerId(ranked.passenger_id)
    passenger, bookings = found.second.passengers.get(passenger_id), found.people[passenger_id]
    return PassengerHit(
        rank=place,
        passenger_id=passenger_id,
        booking_id=bookings[0].booking_id,
        name=passenger.name if passenger else None,
        seat=bookings[0].seat_number,
        cabin=bookings[0].cabin,
        tier=passenger.tier if passenger else None,
        special_services=services_of(found, passenger_id),
        score=ranked.score,
        reasons=[f"{points} for {reason}" for points, reason in ranked.reasons],
        reputation_risk=_risk(ranked.score).value,
        missed_connections=[_lost(found, each) for each in missed[passenger_id]],
        bags=sum(len(found.second.bags[each.booking_id]) for each in bookings),
    )


def _risk(score: int) -> ReputationRisk:
    """A working rule of ours: what ranks a passenger high also makes the airline's name suffer most."""
    if score >= HIGH_RISK_SCORE:
        return ReputationRisk.HIGH
    return ReputationRisk.MEDIUM if score >= MEDIUM_RISK_SCORE else ReputationRisk.LOW


def _lost(found: Found, missed: connections.MissedConnection) -> LostConnection:
    number = found.third.flights[missed.outbound].flight_number
    available = None if missed.available is None else _minutes(missed.available)
    return LostConnection(
        outbound_flight_id=missed.outbound,
        outbound_flight_number=number,
        airport=missed.airport,
        minutes_available=available,
        minutes_needed=_minutes(missed.needed),
        told=_told(found.flight.flight_number, number, missed.airport, available, _minutes(missed.needed)),
    )


def _told(inbound: str, outbound: str, airport: str, available: int | None, needed: int) -> str:
    if available is None:
        return f"{inbound} does not fly, so {outbound} from {airport} is lost."
    if available < 0:
        return f"{outbound} leaves {airport} {-available} minutes before {inbound} is there."
    return f"{available} minutes at {airport} for {outbound}, and {needed} are needed."


def _bags(found: Found, missed: Missed) -> BagsHit:
    """Bags travel with their booking; those of a missed connection, or of a flight that is cancelled, go elsewhere."""
    bags = [
        (booking.passenger_id, bag)
        for booking in found.first.booked
        for bag in found.second.bags[booking.booking_id]
    ]
    return BagsHit(
        count=len(bags),
        by_status=dict(sorted(Counter(bag.baggage_status.value for _, bag in bags).items())),
        to_reroute=sorted(bag.baggage_tag for owner, bag in bags if found.is_cancelled or missed[owner]),
        traces=found.second.traced["bags"].traces,
    )


# --- cargo, maintenance, the aircraft's next flights -----------------------------------------------------------------


def _cargo(found: Found) -> CargoSection:
    weights: dict[str, Decimal] = {}
    for each in found.cargo:
        for code in each.special_handling or [CargoSpecialHandling.GEN]:
            weights[code.value] = weights.get(code.value, Decimal(0)) + _weight(each)
    return CargoSection(
        count=len(found.cargo),
        weight_kg=float(sum(map(_weight, found.cargo), Decimal(0))),
        by_special_handling={
            code: float(weight) for code, weight in sorted(weights.items(), key=_by_urgency)
        },
        assignments=[_cargo_hit(each) for each in sorted(found.cargo, key=_urgency)],
        traces=found.first.traced["cargo"].traces,
    )


def _cargo_hit(assignment: CargoAssignment) -> CargoHit:
    return CargoHit(
        assignment_id=assignment.assignment_id,
        shipment_id=assignment.shipment_id,
        loading_status=assignment.loading_status.value,
        weight_kg=float(_weight(assignment)),
        special_handling=[code.value for code in assignment.special_handling],
    )


def _weight(assignment: CargoAssignment) -> Decimal:
    return assignment.weight_on_flight_kg or Decimal(0)


def _urgency(assignment: CargoAssignment) -> tuple[int, str]:
    codes = assignment.special_handling or [CargoSpecialHandling.GEN]
    return min(code.priority for code in codes), assignment.assignment_id


def _by_urgency(weight: tuple[str, Decimal]) -> tuple[int, str]:
    return CargoSpecialHandling(weight[0]).priority, weight[0]


def _maintenance(found: Found) -> MaintenanceSection:
    return MaintenanceSection(
        open=[_work_order(found, order) for order in found.open_work],
        traces=[*found.first.traced["maintenance"].traces, *found.second.traced["maintenance"].traces],
    )


def _work_order(found: Found, order: WorkOrder) -> WorkOrderHit:
    present = on_shift(found.second.staff[order.workorder_id], found.known_at)
    due = repair_due(order.mel_category, order.opened_on) if order.mel_category else None
    is_overdue = due is not None and due < found.new_departure.date()
    is_deferred = order.work_status is WorkOrderStatus.DEFERRED
    return WorkOrderHit(
        workorder_id=order.workorder_id,
        task=order.task,
        status=order.work_status.value,
        mel_category=order.mel_category.value if order.mel_category else None,
        repair_due=due,
        holds_the_aircraft=is_overdue if is_deferred else order.work_status.holds_the_aircraft,
        staff_on_shift=len(present),
        staff_required=order.staff_required,
        staff_ids=sorted(each.staff_id for each in present),
    )


def _rotation(found: Found) -> RotationSection:
    """A delay travels with the aircraft, less what the ground times swallow; a cancelled flight leaves it behind."""
    ready, place = found.new_arrival + TURNAROUND, found.flight.destination
    if found.is_cancelled:
        ready, place = found.flight.scheduled_departure, found.flight.origin
    flights = []
    for each in sorted(found.first.rotation, key=lambda flight: flight.scheduled_departure):
        late, is_there = max(timedelta(), ready - each.departure), each.origin == place
        flights.append(
            NextFlight(
                flight_id=each.flight_id,
                flight_number=each.flight_number,
                scheduled_departure=each.scheduled_departure,
                late_minutes=_minutes(late) if is_there else 0,
                has_no_aircraft=not is_there,
            )
        )
        if is_there:
            ready, place = each.arrival + late + TURNAROUND, each.destination
    return RotationSection(flights=flights, traces=found.first.traced["rotation"].traces)


# --- what passengers may claim -------------------------------------------------------------------------------------


def _compensation(found: Found, missed: Missed) -> CompensationSection:
    """Those who keep their connections have the flight's delay; those who miss one arrive a day later."""
    flight, claims = found.flight, _claims(found, missed)
    main = next(iter(claims.values()))
    return CompensationSection(
        regime=main.regime,
        total=sum((owed.total.amount for owed in claims.values()), Decimal(0)),
        currency=main.total.currency,
        distance_km=round(distance_km(flight.origin, flight.destination)),
        rule=max(claims.values(), key=lambda owed: owed.total.amount).rule,
        claimants=[
            Claimants(
                who=who,
                passengers=owed.passengers,
                per_passenger=owed.per_passenger.amount,
                rule=owed.rule,
            )
            for who, owed in claims.items()
        ],
        care_due=any(owed.care_due for owed in claims.values() if owed.passengers),
        refund_due=any(owed.refund_due for owed in claims.values() if owed.passengers),
        refund_rule=main.refund_rule,
        derived_from=["flight", "passengers"],
    )


def _claims(found: Found, missed: Missed) -> dict[str, Exposure]:
    """Each group of passengers with the same claim. The first is always there, so that its rule can be told."""
    carried = len(found.people) - found.denied_boarding
    if found.is_cancelled:
        return {"whose flight is cancelled": exposure(_journey(found, timedelta()), carried)}
    late = min(carried, sum(map(bool, missed.values())))
    claims = {"who arrive with the flight": exposure(_journey(found, found.delay), carried - late)}
    if late:
        claims["who miss a connection"] = exposure(_journey(found, found.delay + OVERNIGHT), late)
    if found.denied_boarding:
        # Article 4 pays by the bands of a cancellation; neither notice nor the cause excuses the carrier.
        denied = DisruptedJourney(
            origin=found.flight.origin,
            destination=found.flight.destination,
            carrier=found.flight.flight_number,
            kind=DisruptionKind.CANCEL,
        )
        claims["who are denied boarding"] = exposure(denied, found.denied_boarding)
    return claims


def _journey(found: Found, arrival_delay: timedelta) -> DisruptedJourney:
    return DisruptedJourney(
        origin=found.flight.origin,
        destination=found.flight.destination,
        carrier=found.flight.flight_number,
        kind=found.asked.kind,
        arrival_delay=arrival_delay,
        departure_delay=found.delay,
        delay_code=found.asked.delay_code,
        notice_days=notice_days(found),
    )


def _minutes(length: timedelta) -> int:
    return round(length.total_seconds() / 60)
