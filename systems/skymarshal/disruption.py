"""One call, one disruption: who and what is hit, and what could be done about it. It writes nothing.

`gathering` reads; the modules of the trade (connections, duty, rights, options) do the arithmetic; here it becomes a
report. `decision` writes what was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final

from holdfast import Stores
from holdfast.errors import InvalidRequest
from skymarshal import connections, network, options
from skymarshal.aircraft import check_crew
from skymarshal.airports import distance_km, utc_offset
from skymarshal.delay_codes import delay_code
from skymarshal.duty import Duty, Violation, check_duties, rules_for
from skymarshal.gathering import Found, gather
from skymarshal.impact import (
    BagsHit,
    CargoHit,
    CargoSection,
    CompensationSection,
    CostLine,
    CrewHit,
    CrewSection,
    DisruptionAsked,
    FlightHit,
    LostConnection,
    MaintenanceSection,
    NextFlight,
    OptionProposed,
    OptionsSection,
    PassengerHit,
    PassengersHit,
    Report,
    RotationSection,
    WorkOrderHit,
)
from skymarshal.model import (
    Booking,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    Flight,
    PassengerId,
    WorkOrder,
)
from skymarshal.queries import on_shift
from skymarshal.rights import DisruptedJourney, exposure
from skymarshal.statuses import CargoSpecialHandling, CrewPosition, LoadingStatus, ReputationRisk



SPARES_MAX = 3
# A bunk in the flight deck's rest compartment: what long-haul aircraft have. A working value of ours.
REST_FACILITY: Final = 1
HIGH_RISK_SCORE, MEDIUM_RISK_SCORE = 200, 60


async def assess(stores: Stores, asked: DisruptionAsked) -> Report:
    """The whole answer. Nothing is written."""
    if asked.delay_code is not None:
        _known_delay_code(asked.delay_code)
    if asked.swap_to is not None:
        network.aircraft(asked.swap_to)
    found = await gather(stores, asked)
    missed: Missed = {
        booking.booking_id: _missed(found, booking.passenger_id) for booking in found.first.booked
    }
    crew = _crew(found)
    return Report(
        kind=asked.kind,
        delay_minutes=asked.delay_minutes,
        delay_code=asked.delay_code,
        known_at=found.known_at,
        flight=_flight_hit(found),
        passengers=_passengers(found, missed),
        bags=_bags(found, missed),
        crew=crew,
        cargo=_cargo(found),
        maintenance=_maintenance(found),
        rotation=_rotation(found),
        compensation=_compensation(found, missed),
        options=_options(found, missed, crew.illegal),
        requests=len(found.total.usages),
        items_read=found.total.items_read,
        read_units=found.total.units.read,
    )


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
        aircraft_registration=found.asked.swap_to or flight.aircraft_registration,
        capacity=flight.capacity,
        version=flight.version,
        traces=found.traced.traces,
    )


def _missed(found: Found, passenger_id: PassengerId) -> list[connections.MissedConnection]:
    legs = [
        _leg(found, found.third.flights[booking.flight_id])
        for booking in found.second.itineraries.get(passenger_id, ())
        if booking.booking_status.holds_a_seat and booking.flight_id in found.third.flights
    ]
    disruption = connections.Disruption(found.flight.flight_id, found.asked.kind, found.delay)
    return connections.missed_connections(legs, disruption)


def _leg(found: Found, flight: Flight) -> connections.Leg:
    is_this = flight.flight_id == found.flight.flight_id
    return connections.Leg(
        flight_id=flight.flight_id,
        origin=flight.origin,
        destination=flight.destination,
        departure=flight.scheduled_departure,
        arrival=flight.scheduled_arrival,
        estimated_departure=None if is_this else flight.estimated_departure,
        estimated_arrival=None if is_this else flight.estimated_arrival,
    )


def _passengers(found: Found, missed: Missed) -> PassengersHit:
    by_passenger = {booking.passenger_id: booking for booking in found.first.booked}
    ranked = connections.rank_passengers(
        connections.Passenger(
            passenger_id=passenger_id,
            special_services=_services(found, booking),
            tier=_tier(found, passenger_id),
            cabin=booking.cabin,
            missed_connections=len(missed[booking.booking_id]),
        )
        for passenger_id, booking in by_passenger.items()
    )
    return PassengersHit(
        count=len(found.first.booked),
        missing_connections=sum(bool(each) for each in missed.values()),
        waitlisted=found.first.waitlisted,
        ranked=[
            _passenger_hit(found, rank, each, by_passenger[PassengerId(each.passenger_id)], missed)
            for rank, each in enumerate(ranked, start=1)
        ],
        traces=[
            *found.first.traced["passengers"].traces,
            *found.second.traced["passengers"].traces,
            *found.third.traced.traces,
        ],
    )


def _services(found: Found, booking: Booking) -> list[str]:
    passenger = found.second.passengers.get(booking.passenger_id)
    own = passenger.special_services if passenger else []
    return list(dict.fromkeys([*own, *booking.special_services]))


def _tier(found: Found, passenger_id: PassengerId) -> str | None:
    passenger = found.second.passengers.get(passenger_id)
    return passenger.tier if passenger else None


def _passenger_hit(
    found: Found, rank: int, ranked: connections.RankedPassenger, booking: Booking, missed: Missed
) -> PassengerHit:
    passenger = found.second.passengers.get(booking.passenger_id)
    return PassengerHit(
        rank=rank,
        passenger_id=booking.passenger_id,
        booking_id=booking.booking_id,
        name=passenger.name if passenger else None,
        seat=booking.seat_number,
        cabin=booking.cabin,
        tier=passenger.tier if passenger else None,
        special_services=_services(found, booking),
        score=ranked.score,
        reasons=[f"{points} for {reason}" for points, reason in ranked.reasons],
        reputation_risk=_risk(ranked.score),
        missed_connections=[_lost(each) for each in missed[booking.booking_id]],
        bags=len(found.second.bags[booking.booking_id]),
    )


def _risk(score: int) -> str:
    """A working rule of ours: what ranks a passenger high also makes the airline's name suffer most."""
    if score >= HIGH_RISK_SCORE:
        return ReputationRisk.HIGH.value
    return (ReputationRisk.MEDIUM if score >= MEDIUM_RISK_SCORE else ReputationRisk.LOW).value


def _lost(missed: connections.MissedConnection) -> LostConnection:
    return LostConnection(
        outbound_flight_id=missed.outbound,
        airport=missed.airport,
        minutes_available=None if missed.available is None else _minutes(missed.available),
        minutes_needed=_minutes(missed.needed),
        told=str(missed),
    )


def _bags(found: Found, missed: Missed) -> BagsHit:
    """Bags travel with their booking; those of a missed connection, or of a flight that is cancelled, go elsewhere."""
    bags = [bag for several in found.second.bags.values() for bag in several]
    rerouted = [
        bag.baggage_tag
        for booking_id, several in found.second.bags.items()
        for bag in several
        if found.is_cancelled or missed[booking_id]
    ]
    return BagsHit(
        count=len(bags),
        by_status=dict(sorted(Counter(bag.baggage_status.value for bag in bags).items())),
        to_reroute=sorted(rerouted),
        traces=found.second.traced["bags"].traces,
    )


def _crew(found: Found) -> CrewSection:
    members = [_crew_hit(found, row) for row in found.first.crew]
    check = check_crew(found.flight.capacity, [row.position_id for row in found.first.crew])
    return CrewSection(
        count=len(members),
        illegal=sum(not member.is_legal for member in members),
        rules=rules_for(CrewPosition.CAPTAIN).name,
        members=members,
        minimum_crew_missing=list(check.missing),
        traces=[*found.first.traced["crew"].traces, *found.second.traced["crew"].traces],
    )


def _crew_hit(found: Found, row: CrewAssignment | CrewDuty) -> CrewHit:
    violations = [] if found.is_cancelled else _violations(found, row)
    return CrewHit(
        crew_id=row.crew_id,
        roster_id=row.roster_id,
        position=row.position_id.label,
        violations=[str(each) for each in violations],
        is_legal=all(each.extendable for each in violations),
    )


def _violations(found: Found, row: CrewAssignment | CrewDuty) -> list[Violation]:
    """The limits that the delay breaks or worsens. Report time stays: the duty only grows longer."""
    base = row.home_base or found.flight.origin
    rostered: Sequence[CrewAssignment | CrewDuty] = found.second.duties.get(row.crew_id) or [row]
    pilots = sum(each.position_id.is_flight_deck for each in found.first.crew)
    duties = [_duty(found, each, base, pilots) for each in rostered]
    late = _duty(found, row, base, pilots, found.delay)
    return check_duties(
        duties, utc_offset=utc_offset(base, row.duty_start), proposed=late, rules=rules_for(row.position_id)
    )


def _duty(
    found: Found, row: CrewAssignment | CrewDuty, base: str, pilots: int, delay: timedelta = timedelta()
) -> Duty:
    flight = found.third.flights.get(row.flight_id)
    end = row.duty_end + delay
    is_this = row.flight_id == found.flight.flight_id
    landing = None if flight is None else flight.scheduled_arrival + delay if is_this else flight.arrival
    arrival = None if landing is None else min(end, landing)
    is_augmented = is_this and pilots > 2 and row.position_id.is_flight_deck
    return Duty(
        duty_id=row.roster_id,
        start=row.duty_start,
        end=end,
        on_blocks=arrival if arrival is not None and arrival > row.duty_start else None,
        flight_time=timedelta() if flight is None else flight.scheduled_arrival - flight.scheduled_departure,
        pilots=pilots if is_augmented else 2,
        rest_facility=REST_FACILITY if is_augmented else None,
        ends_at_base=flight is None or flight.destination == base,
    )


def _cargo(found: Found) -> CargoSection:
    waiting = [each for each in found.first.cargo if each.loading_status is not LoadingStatus.OFFLOADED]
    ordered = sorted(waiting, key=lambda each: (_urgency(each), each.assignment_id))
    weights: Counter[str] = Counter()
    for each in waiting:
        for code in each.special_handling or [CargoSpecialHandling.GEN]:
            weights[code.value] += each.weight_on_flight_kg or Decimal(0)  # type: ignore[assignment]
    return CargoSection(
        count=len(waiting),
        weight_kg=float(sum((each.weight_on_flight_kg or Decimal(0) for each in waiting), Decimal(0))),
        by_special_handling={code: float(weight) for code, weight in sorted(weights.items())},
        assignments=[
            CargoHit(
                assignment_id=each.assignment_id,
                shipment_id=each.shipment_id,
                loading_status=each.loading_status.value,
                weight_kg=float(each.weight_on_flight_kg or 0),
                special_handling=[code.value for code in each.special_handling],
            )
            for each in ordered
        ],
        traces=found.first.traced["cargo"].traces,
    )


def _urgency(assignment: CargoAssignment) -> int:
    return min(
        (code.priority for code in assignment.special_handling), default=CargoSpecialHandling.GEN.priority
    )


def _maintenance(found: Found) -> MaintenanceSection:
    return MaintenanceSection(
        open=[
            _work_order(found, order)
            for order in found.first.work_orders
            if order.work_status.holds_the_aircraft
        ],
        traces=[*found.first.traced["maintenance"].traces, *found.second.traced["maintenance"].traces],
    )


def _work_order(found: Found, order: WorkOrder) -> WorkOrderHit:
    present = on_shift(found.second.staff[order.workorder_id], found.known_at)
    return WorkOrderHit(
        workorder_id=order.workorder_id,
        task=order.task,
        status=order.work_status.value,
        mel_category=order.mel_category.value if order.mel_category else None,
        holds_the_aircraft=order.work_status.holds_the_aircraft,
        staff_on_shift=len(present),
        staff_required=order.staff_required,
        staff_ids=sorted(each.staff_id for each in present),
    )


def _rotation(found: Found) -> RotationSection:
    """The delay travels with the aircraft, less what the ground times swallow."""
    ready = None if found.is_cancelled else found.new_arrival + _turnaround()
    flights = []
    for each in sorted(found.first.rotation, key=lambda flight: flight.scheduled_departure):
        late = timedelta() if ready is None else max(timedelta(), ready - each.departure)
        flights.append(
            NextFlight(
                flight_id=each.flight_id,
                flight_number=each.flight_number,
                scheduled_departure=each.scheduled_departure,
                late_minutes=_minutes(late),
            )
        )
        ready = None if ready is None else each.arrival + late + _turnaround()
    return RotationSection(flights=flights, traces=found.first.traced["rotation"].traces)


def _turnaround() -> timedelta:
    return timedelta(minutes=options.COSTS.turnaround_minutes)


def _compensation(found: Found, missed: Missed) -> CompensationSection:
    """Those who keep their connections have the flight's delay; those who miss one arrive a day later."""
    flight, people = found.flight, len(found.first.booked)
    late = sum(bool(each) for each in missed.values())
    owed = exposure(_journey(found, found.delay), people - late)
    owed_late = exposure(_journey(found, found.delay + timedelta(days=1)), late)
    return CompensationSection(
        regime=owed.regime,
        per_passenger=owed.per_passenger.amount,
        total=owed.total.amount + owed_late.total.amount,
        currency=owed.total.currency,
        distance_km=round(distance_km(flight.origin, flight.destination)),
        rule=owed.rule if owed.total.amount or not late else owed_late.rule,
        care_due=owed.care_due or bool(late),
        refund_due=owed.refund_due,
    )


def _journey(found: Found, arrival_delay: timedelta) -> DisruptedJourney:
    return DisruptedJourney(
        origin=found.flight.origin,
        destination=found.flight.destination,
        carrier=found.flight.flight_number,
        kind=found.asked.kind,
        arrival_delay=arrival_delay,
        departure_delay=found.delay,
        delay_code=found.asked.delay_code,
        notice_days=_notice_days(found),
    )


def _notice_days(found: Found) -> int:
    return max(0, (found.flight.scheduled_departure - found.known_at).days)


def _options(found: Found, missed: Missed, crew_illegal: int) -> OptionsSection:
    proposed = options.recovery_options(_impact(found, missed, crew_illegal))
    spares = {spare.tail_number for spare in _spares(found)}
    return OptionsSection(
        proposed=[_proposed(option, spares) for option in proposed],
        traces=[*found.first.traced["options"].traces, *found.second.traced["options"].traces],
    )


def _impact(found: Found, missed: Missed, crew_illegal: int) -> options.Impact:
    flight = found.flight
    return options.Impact(
        flight_id=flight.flight_id,
        origin=flight.origin,
        destination=flight.destination,
        carrier=flight.flight_number,
        kind=found.asked.kind,
        delay=found.delay,
        passengers=len(found.first.booked),
        missed_connections=sum(bool(each) for each in missed.values()),
        bags=sum(map(len, found.second.bags.values())),
        cargo=tuple(
            options.CargoLot(each.weight_on_flight_kg or Decimal(0), _handling(each))
            for each in found.first.cargo
        ),
        crew_illegal=crew_illegal,
        standby_crew=0,
        alternatives=tuple(
            options.AlternativeFlight(
                each.flight_id,
                found.second.seats_left[each.flight_id],
                each.arrival - flight.scheduled_arrival,
            )
            for each in found.first.alternatives
        ),
        spare_aircraft=tuple(_spares(found)),
        delay_code=found.asked.delay_code,
        notice_days=_notice_days(found),
    )


def _handling(assignment: CargoAssignment) -> CargoSpecialHandling:
    return min(assignment.special_handling, key=lambda code: code.priority, default=CargoSpecialHandling.GEN)


def _spares(found: Found) -> list[options.SpareAircraft]:
    """Aircraft that stand at the airport of departure and fly nothing until this flight would be back."""
    flight, needed_until = found.flight, found.flight.scheduled_arrival + _turnaround()
    spares = []
    for registration, planned in found.first.busy.items():
        aircraft = network.aircraft(registration)
        before = [each for each in planned if each.departure <= flight.scheduled_departure]
        after = [each for each in planned if each.departure > flight.scheduled_departure]
        is_here = before[-1].destination == flight.origin if before else aircraft.base == flight.origin
        ready_at = before[-1].arrival if before else flight.scheduled_departure
        if is_here and not any(each.departure < needed_until for each in after):
            ready_in = max(timedelta(), ready_at - flight.scheduled_departure)
            spares.append(options.SpareAircraft(registration, aircraft.seats, ready_in))
    wanted = found.asked.swap_to
    ordered = sorted(spares, key=lambda each: (each.tail_number != wanted, each.ready_in, each.tail_number))
    return ordered[:SPARES_MAX]


def _proposed(option: options.Option, spares: set[str]) -> OptionProposed:
    tail = next((each for each in spares if each in option.title), None)
    return OptionProposed(
        rank=option.rank,
        id=f"{option.kind.value}-{tail}" if tail else option.kind.value,
        kind=option.kind.value,
        title=option.title,
        delay_minutes=_minutes(option.delay),
        passengers_carried=option.passengers_carried,
        cost=option.cost.amount,
        currency=option.cost.currency,
        breakdown=[
            CostLine(label=line.label, amount=line.amount, basis=line.basis) for line in option.breakdown
        ],
        assumptions=list(option.assumptions),
        blockers=list(option.blockers),
        aircraft_registration=tail,
    )


def _known_delay_code(code: str) -> None:
    try:
        delay_code(code)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _minutes(length: timedelta) -> int:
    return round(length.total_seconds() / 60)
