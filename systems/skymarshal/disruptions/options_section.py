"""The options section of a disruption report: the ranked recovery options, with spare aircraft for a swap.

`context` has read other flights and aircraft, `recovery_options` has the costs. This module finds the free
aircraft and counts what each delay would mean for connections and crew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from skymarshal.disruptions.context import DisruptionContext
from skymarshal.disruptions.crew_section import (
    count_standby_replacements,
    find_illegal_crew,
    find_unverified_crew,
)
from skymarshal.disruptions.itineraries import MissedByPassenger, find_missed_with_delay
from skymarshal.disruptions.report import MAX_DELAY_MINUTES, CostLine, OptionProposed, OptionsSection
from skymarshal.domain import airline_network, recovery_options
from skymarshal.domain.statuses import CargoSpecialHandling
from skymarshal.model.entities import CargoAssignment, Flight

MAX_SPARES: Final = 3
TURNAROUND: Final = recovery_options.TURNAROUND
MAX_DELAY: Final = timedelta(minutes=MAX_DELAY_MINUTES)


def build_options_section(context: DisruptionContext, missed: MissedByPassenger) -> OptionsSection:
    """Build the section with every recovery option, ranked by feasibility and then by cost."""
    return OptionsSection(
        proposed=[
            _build_proposed_option(option)
            for option in recovery_options.build_recovery_options(_build_impact(context, missed))
        ],
        traces=[*context.first.reads["options"].traces, *context.second.reads["options"].traces],
        derived_from=["flight", "passengers", "bags", "crew", "cargo"],
    )


def get_notice_days(context: DisruptionContext) -> int:
    """Return the whole days from when the disruption became known to the scheduled departure, at least 0."""
    return max(0, (context.flight.scheduled_departure - context.known_at).days)


def _build_impact(context: DisruptionContext, missed: MissedByPassenger) -> recovery_options.Impact:
    """Build the totals from which the recovery options are computed."""
    flight = context.flight
    illegal = find_illegal_crew(context, context.delay)
    return recovery_options.Impact(
        flight_id=flight.flight_id,
        origin=flight.origin,
        destination=flight.destination,
        carrier=flight.flight_number,
        kind=context.request.kind,
        delay=context.delay,
        passengers=len(context.bookings_by_passenger),
        missed_connections=sum(map(bool, missed.values())),
        bags=sum(map(len, context.second.bags.values())),
        cargo=tuple(
            recovery_options.CargoLot(each.weight_on_flight_kg or Decimal(0), _get_handling(each))
            for each in context.cargo
        ),
        crew_illegal=len(illegal),
        standby_crew=count_standby_replacements(context, illegal),
        crew_unknown=len(find_unverified_crew(context)),
        too_late_reason=context.too_late_reason,
        alternatives=tuple(
            recovery_options.AlternativeFlight(
                f"{each.flight_number} of {each.departure:%d %b}",
                context.second.seats_left[each.flight_id],
                each.arrival - flight.scheduled_arrival,
            )
            for each in context.first.alternatives
        ),
        spare_aircraft=tuple(_add_delay_effects(context, _rank_spares(context))),
        delay_code=context.request.delay_code,
        notice_days=get_notice_days(context),
    )


def _get_handling(assignment: CargoAssignment) -> CargoSpecialHandling:
    """Return the most urgent handling code of an assignment, or GEN if it has none."""
    return min(assignment.special_handling, key=lambda code: code.priority, default=CargoSpecialHandling.GEN)


def _rank_spares(context: DisruptionContext) -> list[recovery_options.SpareAircraft]:
    """Return at most three aircraft: the requested one, blocked or not, then the best free ones.

    Aircraft with enough seats come first, then those ready earliest, then those of the same type.
    """
    wanted = context.request.swap_to
    spares = [_build_spare(context, each) for each in context.first.spare_schedules]
    possible = [each for each in spares if not each.blockers or each.tail_number == wanted]
    ordered = sorted(
        possible,
        key=lambda each: (
            each.tail_number != wanted,
            max(0, len(context.bookings_by_passenger) - each.seats),
            recovery_options.compute_swap_delay(each),
            airline_network.get_aircraft(each.tail_number).type != context.flight.aircraft_type,
            each.seats,
            each.tail_number,
        ),
    )
    return ordered[:MAX_SPARES]


def _build_spare(context: DisruptionContext, registration: str) -> recovery_options.SpareAircraft:
    """Build the spare aircraft: when it is ready, by its planned flights, and what blocks it."""
    flight, aircraft = context.flight, airline_network.get_aircraft(registration)
    planned = context.first.spare_schedules[registration]
    before = [each for each in planned if each.departure <= flight.scheduled_departure]
    after = [each for each in planned if each.departure > flight.scheduled_departure]
    location = before[-1].destination if before else aircraft.base
    ready_at = max(context.known_at, before[-1].arrival) if before else context.known_at
    ready_in = ready_at - flight.scheduled_departure
    if registration == context.request.swap_to:
        ready_in = max(ready_in, context.delay - TURNAROUND)
    return recovery_options.SpareAircraft(
        registration,
        aircraft.seats,
        ready_in,
        blockers=_find_blockers(
            context, registration, location, after, max(timedelta(), ready_in + TURNAROUND)
        ),
    )


def _find_blockers(
    context: DisruptionContext, registration: str, location: str, after: Sequence[Flight], delay: timedelta
) -> tuple[str, ...]:
    """List why an aircraft cannot take the flight: late, elsewhere, in maintenance, or needed too soon.

    `location` is the airport where it is at departure, `after` its own later flights, `delay` that of the
    swap.
    """
    flight = context.flight
    blockers = []
    if delay > MAX_DELAY:
        blockers.append(f"{registration} could leave only {delay.days} days late.")
    if location != flight.origin:
        blockers.append(f"{registration} is at {location}, not at {flight.origin}.")
    block_time = flight.scheduled_arrival - flight.scheduled_departure
    back_at = flight.scheduled_arrival + delay + TURNAROUND + block_time + TURNAROUND
    if after and after[0].departure < back_at:
        blockers.append(
            f"{registration} flies {after[0].flight_number} at {after[0].departure:%d %b %H:%M}Z, "
            "before it would be back."
        )
    orders = context.second.spare_work_orders[registration]
    grounding = [order for order in orders if order.work_status.is_grounding]
    if grounding:
        blockers.append(f"{registration} is grounded by work order {grounding[0].workorder_id}.")
    return tuple(blockers)


def _add_delay_effects(
    context: DisruptionContext, spares: Sequence[recovery_options.SpareAircraft]
) -> list[recovery_options.SpareAircraft]:
    """Return the aircraft with the exact missed connections and illegal crew for the delay of each swap."""
    delays = {recovery_options.compute_swap_delay(spare) for spare in spares}
    missed = {delay: sum(map(bool, find_missed_with_delay(context, delay).values())) for delay in delays}
    illegal = {delay: len(find_illegal_crew(context, delay)) for delay in delays}
    return [
        replace(spare, missed_connections=missed[delay], crew_illegal=illegal[delay])
        for spare, delay in ((each, recovery_options.compute_swap_delay(each)) for each in spares)
    ]


def _build_proposed_option(option: recovery_options.Option) -> OptionProposed:
    """Convert an option to its model. The id is the kind, followed by the registration for a swap."""
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
