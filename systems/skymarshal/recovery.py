"""What could be done: the options section of a disruption report.

`gathering` has read other flights and other aircraft; `options` knows the costs. Here it is found out which aircraft
is free, and what each delay would mean for connections and crew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from skymarshal import network, options
from skymarshal.gathering import Found
from skymarshal.impact import DELAY_MINUTES_MAX, CostLine, OptionProposed, OptionsSection
from skymarshal.itineraries import Missed, missed_by_passenger
from skymarshal.legality import illegal_crew, standby_for, unknown_crew
from skymarshal.model import CargoAssignment, Flight
from skymarshal.statuses import CargoSpecialHandling

SPARES_MAX: Final = 3
TURNAROUND: Final = options.TURNAROUND
DELAY_MAX: Final = timedelta(minutes=DELAY_MINUTES_MAX)


def options_section(found: Found, missed: Missed) -> OptionsSection:
    return OptionsSection(
        proposed=[_proposed(option) for option in options.recovery_options(_impact(found, missed))],
        traces=[*found.first.traced["options"].traces, *found.second.traced["options"].traces],
        derived_from=["flight", "passengers", "bags", "crew", "cargo"],
    )


def notice_days(found: Found) -> int:
    return max(0, (found.flight.scheduled_departure - found.known_at).days)


def _impact(found: Found, missed: Missed) -> options.Impact:
    flight = found.flight
    illegal = illegal_crew(found, found.delay)
    return options.Impact(
        flight_id=flight.flight_id,
        origin=flight.origin,
        destination=flight.destination,
        carrier=flight.flight_number,
        kind=found.asked.kind,
        delay=found.delay,
        passengers=len(found.people),
        missed_connections=sum(map(bool, missed.values())),
        bags=sum(map(len, found.second.bags.values())),
        cargo=tuple(
            options.CargoLot(each.weight_on_flight_kg or Decimal(0), _handling(each)) for each in found.cargo
        ),
        crew_illegal=len(illegal),
        standby_crew=standby_for(found, illegal),
        crew_unknown=len(unknown_crew(found)),
        too_late=found.too_late,
        alternatives=tuple(
            options.AlternativeFlight(
                f"{each.flight_number} of {each.departure:%d %b}",
                found.second.seats_left[each.flight_id],
                each.arrival - flight.scheduled_arrival,
            )
            for each in found.first.alternatives
        ),
        spare_aircraft=tuple(_with_their_delays(found, _spares(found))),
        delay_code=found.asked.delay_code,
        notice_days=notice_days(found),
    )


def _handling(assignment: CargoAssignment) -> CargoSpecialHandling:
    return min(assignment.special_handling, key=lambda code: code.priority, default=CargoSpecialHandling.GEN)


def _spares(found: Found) -> list[options.SpareAircraft]:
    """The aircraft asked for, whatever stands in its way, then those free: enough seats, soonest, of the same type."""
    wanted = found.asked.swap_to
    spares = [_spare(found, each) for each in found.first.busy]
    possible = [each for each in spares if not each.blockers or each.tail_number == wanted]
    ordered = sorted(
        possible,
        key=lambda each: (
            each.tail_number != wanted,
            max(0, len(found.people) - each.seats),
            options.swap_delay(each),
            network.aircraft(each.tail_number).type != found.flight.aircraft_type,
            each.seats,
            each.tail_number,
        ),
    )
    return ordered[:SPARES_MAX]


def _spare(found: Found, registration: str) -> options.SpareAircraft:
    flight, aircraft = found.flight, network.aircraft(registration)
    planned = found.first.busy[registration]
    before = [each for each in planned if each.departure <= flight.scheduled_departure]
    after = [each for each in planned if each.departure > flight.scheduled_departure]
    stands_at = before[-1].destination if before else aircraft.base
    ready_at = max(found.known_at, before[-1].arrival) if before else found.known_at
    ready_in = ready_at - flight.scheduled_departure
    if registration == found.asked.swap_to:
        ready_in = max(ready_in, found.delay - TURNAROUND)
    return options.SpareAircraft(
        registration,
        aircraft.seats,
        ready_in,
        blockers=_blockers(found, registration, stands_at, after, max(timedelta(), ready_in + TURNAROUND)),
    )


def _blockers(
    found: Found, registration: str, stands_at: str, after: Sequence[Flight], late: timedelta
) -> tuple[str, ...]:
    """Why an aircraft cannot take the flight: it is elsewhere, in the workshop, or wanted before it could be back."""
    flight = found.flight
    blockers = []
    if late > DELAY_MAX:
        blockers.append(f"{registration} could leave only {late.days} days late.")
    if stands_at != flight.origin:
        blockers.append(f"{registration} is at {stands_at}, not at {flight.origin}.")
    block_time = flight.scheduled_arrival - flight.scheduled_departure
    back_at = flight.scheduled_arrival + late + TURNAROUND + block_time + TURNAROUND
    if after and after[0].departure < back_at:
        blockers.append(
            f"{registration} flies {after[0].flight_number} at {after[0].departure:%d %b %H:%M}Z, before it is back."
        )
    held = [order for order in found.second.spare_work[registration] if order.work_status.holds_the_aircraft]
    if held:
        blockers.append(f"{registration} is held by work order {held[0].workorder_id}.")
    return tuple(blockers)


def _with_their_delays(found: Found, spares: Sequence[options.SpareAircraft]) -> list[options.SpareAircraft]:
    """What the delay of each swap means, counted and not estimated."""
    delays = {options.swap_delay(spare) for spare in spares}
    missed = {delay: sum(map(bool, missed_by_passenger(found, delay).values())) for delay in delays}
    illegal = {delay: len(illegal_crew(found, delay)) for delay in delays}
    return [
        replace(spare, missed_connections=missed[delay], crew_illegal=illegal[delay])
        for spare, delay in ((each, options.swap_delay(each)) for each in spares)
    ]


def _proposed(option: options.Option) -> OptionProposed:
    tail = option.tail_number
    return OptionProposed(
        rank=option.rank,
        id=f"{option.kind.value}-{tail}" if tail else option.kind.value,
        kind=option.kind.value,
        title=option.title,
        delay_minutes=round(option.delay.total_seconds() / 60),
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
