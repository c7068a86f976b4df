"""The assessment of one disruption: `assess` reads the data and builds the report; it writes nothing.

The report has the affected passengers, bags, crew, cargo, maintenance and rotation, the claims and the
recovery options. `context` reads the data; this module builds the report section by section. `itineraries`,
`crew_section` and `options_section` build the sections with the most logic, on the rules in `domain`.
`decision` writes the chosen option.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Final

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from skymarshal.disruptions.context import DisruptionContext, fetch_context
from skymarshal.disruptions.crew_section import build_crew_section
from skymarshal.disruptions.itineraries import (
    MissedByPassenger,
    find_missed_by_passenger,
    get_special_services,
    rank_passengers,
)
from skymarshal.disruptions.options_section import TURNAROUND, build_options_section, get_notice_days
from skymarshal.disruptions.report import (
    BagsHit,
    CargoHit,
    CargoSection,
    Claimants,
    CompensationSection,
    DisruptionRequest,
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
from skymarshal.domain import airline_network, connections
from skymarshal.domain.airports import compute_distance_km, get_airport
from skymarshal.domain.delay_codes import parse_delay_code
from skymarshal.domain.passenger_rights import DisruptedJourney, Exposure, compute_exposure
from skymarshal.domain.statuses import (
    CargoSpecialHandling,
    DisruptionKind,
    ReputationRisk,
    WorkOrderStatus,
    compute_repair_due,
)
from skymarshal.model.entities import CargoAssignment, Flight, PassengerId, WorkOrder
from skymarshal.model.queries import select_on_shift

HIGH_RISK_SCORE: Final = 200
MEDIUM_RISK_SCORE: Final = 60
# Passengers who miss a connection are assumed to arrive a day later.
OVERNIGHT: Final = timedelta(days=1)


async def assess(stores: Stores, request: DisruptionRequest) -> Report:
    """Assess a disruption and return the full report. Nothing is written.

    Raise `NotFound` for an unknown flight or swap aircraft, `Conflict` if several flights match,
    `InvalidRequest` for an invalid delay code or a flight that cannot be assessed.
    """
    _check_request(request)
    context = await fetch_context(stores, request)
    _check_airports(context.flight)
    missed = find_missed_by_passenger(context)
    return Report(
        kind=request.kind,
        delay_minutes=request.delay_minutes,
        delay_code=request.delay_code,
        known_at=context.known_at,
        problems=context.problems,
        flight=_build_flight(context),
        passengers=_build_passengers_section(context, missed),
        bags=_build_bags_section(context, missed),
        crew=build_crew_section(context),
        cargo=_build_cargo_section(context),
        maintenance=_build_maintenance_section(context),
        rotation=_build_rotation_section(context),
        compensation=_build_compensation_section(context, missed),
        options=build_options_section(context, missed),
        requests=len(context.meter.usages),
        items_read=context.meter.items_read,
        read_units=context.meter.units.read,
    )


def _check_request(request: DisruptionRequest) -> None:
    """Check the delay code and the swap aircraft before any read.

    Raise `InvalidRequest` for an unknown code and `NotFound` for an unknown aircraft.
    """
    if request.delay_code is not None:
        try:
            parse_delay_code(request.delay_code)
        except ValueError as error:
            raise InvalidRequest(str(error)) from error
    if request.swap_to is not None:
        airline_network.get_aircraft(request.swap_to)


def _check_airports(flight: Flight) -> None:
    """Raise `InvalidRequest` unless the airport table has both airports of the flight.

    Distance and local time come from it.
    """
    for code in (flight.origin, flight.destination):
        try:
            get_airport(code)
        except ValueError as error:
            raise InvalidRequest(
                f"Flight {flight.flight_number} is not assessable: {error} "
                "Passenger rights and duty limits need it."
            ) from error


def _build_flight(context: DisruptionContext) -> FlightHit:
    """Build the flight section. A cancelled flight has no new times."""
    flight = context.flight
    return FlightHit(
        flight_id=flight.flight_id,
        flight_number=flight.flight_number,
        origin=flight.origin,
        destination=flight.destination,
        scheduled_departure=flight.scheduled_departure,
        scheduled_arrival=flight.scheduled_arrival,
        new_departure=None if context.is_cancelled else context.new_departure,
        new_arrival=None if context.is_cancelled else context.new_arrival,
        status=flight.flight_status,
        aircraft_registration=context.request.swap_to or flight.aircraft_registration,
        capacity=context.capacity,
        version=flight.version,
        traces=context.flight_reads.traces,
    )


# --- passengers and bags --------------------------------------------------------------------------


def _build_passengers_section(context: DisruptionContext, missed: MissedByPassenger) -> PassengersHit:
    """Build the passengers section: the counts, and every passenger with a seat, ranked."""
    return PassengersHit(
        count=len(context.bookings_by_passenger),
        missing_connections=sum(map(bool, missed.values())),
        denied_boarding=context.denied_boarding,
        waitlisted=context.first.waitlisted,
        ranked=[
            _build_passenger(context, position, each, missed)
            for position, each in enumerate(rank_passengers(context, missed), start=1)
        ],
        traces=[
            *context.first.reads["passengers"].traces,
            *context.second.reads["passengers"].traces,
            *context.third.reads.traces,
        ],
    )


def _build_passenger(
    context: DisruptionContext, rank: int, ranked: connections.RankedPassenger, missed: MissedByPassenger
) -> PassengerHit:
    """Build the entry of a ranked passenger.

    Seat, cabin and booking are those of the first booking on the flight.
    """
    passenger_id = PassengerId(ranked.passenger_id)
    passenger, bookings = (
        context.second.passengers.get(passenger_id),
        context.bookings_by_passenger[passenger_id],
    )
    return PassengerHit(
        rank=rank,
        passenger_id=passenger_id,
        booking_id=bookings[0].booking_id,
        name=passenger.name if passenger else None,
        seat=bookings[0].seat_number,
        cabin=bookings[0].cabin,
        tier=passenger.tier if passenger else None,
        special_services=get_special_services(context, passenger_id),
        score=ranked.score,
        reasons=[f"{points} for {reason}" for points, reason in ranked.reasons],
        reputation_risk=_classify_risk(ranked.score).value,
        missed_connections=[_build_lost_connection(context, each) for each in missed[passenger_id]],
        bags=sum(len(context.second.bags[each.booking_id]) for each in bookings),
    )


def _classify_risk(score: int) -> ReputationRisk:
    """Classify the reputation risk by score.

    A working rule of this project: the most urgent passengers carry the most risk.
    """
    if score >= HIGH_RISK_SCORE:
        return ReputationRisk.HIGH
    return ReputationRisk.MEDIUM if score >= MEDIUM_RISK_SCORE else ReputationRisk.LOW


def _build_lost_connection(
    context: DisruptionContext, missed: connections.MissedConnection
) -> LostConnection:
    """Convert a missed connection to the report's model, with flight numbers, minutes and a sentence."""
    number = context.third.flights[missed.outbound].flight_number
    available = None if missed.available is None else _to_minutes(missed.available)
    return LostConnection(
        outbound_flight_id=missed.outbound,
        outbound_flight_number=number,
        airport=missed.airport,
        minutes_available=available,
        minutes_needed=_to_minutes(missed.needed),
        told=_describe_lost_connection(
            context.flight.flight_number, number, missed.airport, available, _to_minutes(missed.needed)
        ),
    )


def _describe_lost_connection(
    inbound: str, outbound: str, airport: str, available: int | None, needed: int
) -> str:
    """Describe a missed connection in a sentence, by flight numbers and minutes.

    `available` is None if cancelled.
    """
    if available is None:
        return f"{inbound} does not fly, so {outbound} from {airport} is lost."
    if available < 0:
        return f"{outbound} leaves {airport} {-available} minutes before {inbound} arrives."
    return f"{available} minutes at {airport} for {outbound}, {needed} are needed."


def _build_bags_section(context: DisruptionContext, missed: MissedByPassenger) -> BagsHit:
    """Build the bags section.

    Bags travel with their booking; those of cancelled flights and missed connections are re-routed.
    """
    bags = [
        (booking.passenger_id, bag)
        for booking in context.first.bookings
        for bag in context.second.bags[booking.booking_id]
    ]
    return BagsHit(
        count=len(bags),
        by_status=dict(sorted(Counter(bag.baggage_status.value for _, bag in bags).items())),
        to_reroute=sorted(bag.baggage_tag for owner, bag in bags if context.is_cancelled or missed[owner]),
        traces=context.second.reads["bags"].traces,
    )


# --- cargo, maintenance, rotation -----------------------------------------------------------------


def _build_cargo_section(context: DisruptionContext) -> CargoSection:
    """Build the cargo section without offloaded cargo.

    Cargo without a handling code counts as general cargo.
    """
    weights: dict[str, Decimal] = {}
    for each in context.cargo:
        for code in each.special_handling or [CargoSpecialHandling.GEN]:
            weights[code.value] = weights.get(code.value, Decimal(0)) + _get_weight(each)
    return CargoSection(
        count=len(context.cargo),
        weight_kg=float(sum(map(_get_weight, context.cargo), Decimal(0))),
        by_special_handling={
            code: float(weight) for code, weight in sorted(weights.items(), key=_get_code_urgency)
        },
        assignments=[_build_cargo(each) for each in sorted(context.cargo, key=_get_urgency)],
        traces=context.first.reads["cargo"].traces,
    )


def _build_cargo(assignment: CargoAssignment) -> CargoHit:
    return CargoHit(
        assignment_id=assignment.assignment_id,
        shipment_id=assignment.shipment_id,
        loading_status=assignment.loading_status.value,
        weight_kg=float(_get_weight(assignment)),
        special_handling=[code.value for code in assignment.special_handling],
    )


def _get_weight(assignment: CargoAssignment) -> Decimal:
    """Return the weight in kilograms, 0 if it is unknown."""
    return assignment.weight_on_flight_kg or Decimal(0)


def _get_urgency(assignment: CargoAssignment) -> tuple[int, str]:
    """Return the sort key of an assignment: the priority of its most urgent handling code, then its id."""
    codes = assignment.special_handling or [CargoSpecialHandling.GEN]
    return min(code.priority for code in codes), assignment.assignment_id


def _get_code_urgency(weight: tuple[str, Decimal]) -> tuple[int, str]:
    """Return the sort key of a pair of handling code and weight: the code's priority, then the code."""
    return CargoSpecialHandling(weight[0]).priority, weight[0]


def _build_maintenance_section(context: DisruptionContext) -> MaintenanceSection:
    """Build the maintenance section from the work orders on the aircraft that are not closed."""
    return MaintenanceSection(
        open=[_build_work_order(context, order) for order in context.open_work_orders],
        traces=[*context.first.reads["maintenance"].traces, *context.second.reads["maintenance"].traces],
    )


def _build_work_order(context: DisruptionContext, order: WorkOrder) -> WorkOrderHit:
    """Build the entry of a work order with the staff on shift when the disruption became known.

    Deferred work holds the aircraft once its repair is overdue on the day of the new departure.
    """
    present = select_on_shift(context.second.staff[order.workorder_id], context.known_at)
    due = compute_repair_due(order.mel_category, order.opened_on) if order.mel_category else None
    is_overdue = due is not None and due < context.new_departure.date()
    is_deferred = order.work_status is WorkOrderStatus.DEFERRED
    return WorkOrderHit(
        workorder_id=order.workorder_id,
        task=order.task,
        status=order.work_status.value,
        mel_category=order.mel_category.value if order.mel_category else None,
        repair_due=due,
        holds_the_aircraft=is_overdue if is_deferred else order.work_status.is_grounding,
        staff_on_shift=len(present),
        staff_required=order.staff_required,
        staff_ids=sorted(each.staff_id for each in present),
    )


def _build_rotation_section(context: DisruptionContext) -> RotationSection:
    """Build the rotation section.

    A delay travels with the aircraft, less the slack in the ground times; a cancelled flight leaves the
    aircraft behind.
    """
    ready, location = context.new_arrival + TURNAROUND, context.flight.destination
    if context.is_cancelled:
        ready, location = context.flight.scheduled_departure, context.flight.origin
    flights = []
    for each in sorted(context.first.rotation, key=lambda flight: flight.scheduled_departure):
        delay, has_aircraft = max(timedelta(), ready - each.departure), each.origin == location
        flights.append(
            NextFlight(
                flight_id=each.flight_id,
                flight_number=each.flight_number,
                scheduled_departure=each.scheduled_departure,
                late_minutes=_to_minutes(delay) if has_aircraft else 0,
                has_no_aircraft=not has_aircraft,
            )
        )
        if has_aircraft:
            ready, location = each.arrival + delay + TURNAROUND, each.destination
    return RotationSection(flights=flights, traces=context.first.reads["rotation"].traces)


# --- compensation ---------------------------------------------------------------------------------


def _build_compensation_section(context: DisruptionContext, missed: MissedByPassenger) -> CompensationSection:
    """Build the compensation section.

    Passengers who keep their connections have the flight's delay; those who miss one arrive a day later.
    """
    flight, claims = context.flight, _compute_claims(context, missed)
    main = next(iter(claims.values()))
    return CompensationSection(
        regime=main.regime,
        total=sum((owed.total.amount for owed in claims.values()), Decimal(0)),
        currency=main.total.currency,
        distance_km=round(compute_distance_km(flight.origin, flight.destination)),
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


def _compute_claims(context: DisruptionContext, missed: MissedByPassenger) -> dict[str, Exposure]:
    """Compute the claim of each group of passengers, by a description of the group.

    The first group is always present, so that its rule can be shown.
    """
    carried = len(context.bookings_by_passenger) - context.denied_boarding
    if context.is_cancelled:
        return {
            "passengers of the cancelled flight": compute_exposure(
                _build_journey(context, timedelta()), carried
            )
        }
    late = min(carried, sum(map(bool, missed.values())))
    claims = {
        "passengers arriving with the flight": compute_exposure(
            _build_journey(context, context.delay), carried - late
        )
    }
    if late:
        journey = _build_journey(context, context.delay + OVERNIGHT)
        claims["passengers missing a connection"] = compute_exposure(journey, late)
    if context.denied_boarding:
        # Article 4 compensates like a cancellation; neither notice nor the cause excuses the carrier.
        denied = DisruptedJourney(
            origin=context.flight.origin,
            destination=context.flight.destination,
            carrier=context.flight.flight_number,
            kind=DisruptionKind.CANCEL,
        )
        claims["passengers denied boarding"] = compute_exposure(denied, context.denied_boarding)
    return claims


def _build_journey(context: DisruptionContext, arrival_delay: timedelta) -> DisruptedJourney:
    """Build the flight's journey with this delay at the destination, as input of the passenger rights."""
    return DisruptedJourney(
        origin=context.flight.origin,
        destination=context.flight.destination,
        carrier=context.flight.flight_number,
        kind=context.request.kind,
        arrival_delay=arrival_delay,
        departure_delay=context.delay,
        delay_code=context.request.delay_code,
        notice_days=get_notice_days(context),
    )


def _to_minutes(length: timedelta) -> int:
    """Return the length in minutes, rounded."""
    return round(length.total_seconds() / 60)
