"""The crew section of a disruption report: the duty limits that a delay breaks, and the minimum crew.

`context` has read the crew and their duties, `duty_limits` has the rules. This module converts roster rows to
duties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from skymarshal.disruptions.context import CrewRow, DisruptionContext
from skymarshal.disruptions.report import CrewHit, CrewSection
from skymarshal.domain.aircraft_types import check_crew
from skymarshal.domain.airports import get_airports, get_utc_offset
from skymarshal.domain.duty_limits import (
    FAR_117,
    FAR_121_CABIN,
    MAX_TURN,
    Duty,
    Violation,
    check_duties,
    get_rules,
)
from skymarshal.domain.recovery_options import TURNAROUND
from skymarshal.model.queries import is_flying

# A bunk in the flight deck's rest compartment, as on long-haul aircraft. A working value of this project.
REST_FACILITY: Final = 1
STANDARD_PILOTS: Final = 2

UNCHECKED_MESSAGE: Final = (
    "Rest, cumulative limits and other sectors of the same duty: the duty history is unknown."
)


def build_crew_section(context: DisruptionContext) -> CrewSection:
    """Build the section: the limits that each crew member breaks, and what the minimum crew lacks."""
    members = [_build_crew_member(context, row) for row in context.flying_crew]
    check = check_crew(context.capacity, [row.position_id for row in context.flying_crew])
    return CrewSection(
        count=len(members),
        illegal=sum(member.is_legal is False for member in members),
        unknown=sum(member.is_legal is None for member in members),
        history_known=context.first.has_duty_histories,
        rules=f"{FAR_117.name} for pilots, {FAR_121_CABIN.name} for cabin crew",
        members=members,
        minimum_crew_missing=list(check.missing),
        traces=[*context.first.reads["crew"].traces, *context.second.reads["crew"].traces],
    )


def find_illegal_crew(context: DisruptionContext, delay: timedelta) -> list[CrewRow]:
    """Return the rows of crew on board who, with this delay, break a limit that may not be extended."""
    return [
        row
        for row in context.flying_crew
        if not all(each.is_extendable for each in find_broken_limits(context, row, delay))
    ]


def find_unverified_crew(context: DisruptionContext) -> list[CrewRow]:
    """Return the rows of crew on board whose other duties are not all known: their legality is uncertain."""
    return [row for row in context.flying_crew if not context.has_duty_history(row.crew_id)]


def count_standby_replacements(context: DisruptionContext, illegal: Sequence[CrewRow]) -> int:
    """Count how many of the `illegal` crew the standby crew can replace, one each, in the same position."""
    wanted = Counter(row.position_id for row in illegal)
    return (wanted & Counter(row.position_id for row in context.standby_crew)).total()


def find_broken_limits(context: DisruptionContext, row: CrewRow, delay: timedelta) -> list[Violation]:
    """Return the limits of the crew member of `row` that the delay of this flight breaks or worsens.

    The time to report stays as planned: the duty only gets longer.
    """
    base = row.home_base if row.home_base and row.home_base in get_airports() else context.flight.origin
    known: Sequence[CrewRow] = context.second.duties.get(row.crew_id, ())
    rostered = [each for each in known if is_flying(each) and each.roster_id != row.roster_id] + [row]
    late = _compute_late_sectors(context, _find_same_duty(rostered, row), row, delay)
    # All rows of one duty may carry the end of the whole duty, which is as late as the last sector.
    ends = {(each.duty_start, each.duty_end): lateness for each, lateness in late}
    return check_duties(
        [_build_duty(context, each, base) for each in rostered],
        utc_offset=get_utc_offset(base, row.duty_start),
        proposed=[
            _build_duty(context, each, base, lateness, ends[each.duty_start, each.duty_end])
            for each, lateness in late
        ],
        rules=get_rules(row.position_id),
    )


def _find_same_duty(rostered: Sequence[CrewRow], row: CrewRow) -> list[CrewRow]:
    """Return the rows that are sectors of the same duty as `row`, joined as in `duty_limits.join_sectors`."""
    sectors: list[CrewRow] = []
    for each in sorted(rostered, key=lambda each: (each.duty_start, each.duty_end, each.roster_id)):
        if sectors and each.duty_start - max(sector.duty_end for sector in sectors) >= MAX_TURN:
            if row in sectors:
                break
            sectors = []
        sectors.append(each)
    return sectors


def _compute_late_sectors(
    context: DisruptionContext, sectors: Sequence[CrewRow], row: CrewRow, delay: timedelta
) -> list[tuple[CrewRow, timedelta]]:
    """Return the sector `row` and each later one of `sectors`, with the delay of each.

    A delay travels with the crew, less the slack in the ground times.
    """
    ordered = sorted(sectors, key=lambda each: (_get_departure(context, each), each.roster_id))
    late = [(row, delay)]
    for each in ordered[ordered.index(row) + 1 :]:
        before, lateness = late[-1]
        landing, flight = _get_landing(context, before), context.third.flights.get(each.flight_id)
        if landing is not None and flight is not None:
            ready = landing + lateness + TURNAROUND
            lateness = min(lateness, max(timedelta(), ready - flight.departure))
        late.append((each, lateness))
    return late


def _build_crew_member(context: DisruptionContext, row: CrewRow) -> CrewHit:
    """Build the report's entry of one crew member.

    `is_legal` is None if no limit is broken but duties are unknown.
    """
    changes_nothing = context.is_cancelled or not context.delay
    violations = [] if changes_nothing else find_broken_limits(context, row, context.delay)
    is_legal = all(each.is_extendable for each in violations)
    is_unknown = is_legal and not changes_nothing and not context.has_duty_history(row.crew_id)
    return CrewHit(
        crew_id=row.crew_id,
        roster_id=row.roster_id,
        position=row.position_id.label,
        violations=[str(each) for each in violations],
        is_legal=None if is_unknown else is_legal,
        unchecked=UNCHECKED_MESSAGE if is_unknown else None,
    )


def _get_departure(context: DisruptionContext, row: CrewRow) -> datetime:
    """Return the scheduled departure of a row's flight, or the start of duty if the flight is unknown."""
    flight = context.third.flights.get(row.flight_id)
    return row.duty_start if flight is None else flight.scheduled_departure


def _get_landing(context: DisruptionContext, row: CrewRow) -> datetime | None:
    """Return the arrival of a row's flight: scheduled for the disrupted flight, expected for the others.

    Return None if the flight is unknown.
    """
    flight = context.third.flights.get(row.flight_id)
    if flight is None:
        return None
    return flight.scheduled_arrival if flight.flight_id == context.flight.flight_id else flight.arrival


def _build_duty(
    context: DisruptionContext,
    row: CrewRow,
    base: str,
    delay: timedelta = timedelta(),
    end_delay: timedelta = timedelta(),
) -> Duty:
    """Build the duty of a roster row that lands `delay` and ends `end_delay` later than planned.

    `base` is the home base. Only pilots of the disrupted flight count as an augmented crew, if they are three
    or more.
    """
    flight, landing, end = (
        context.third.flights.get(row.flight_id),
        _get_landing(context, row),
        row.duty_end + end_delay,
    )
    on_blocks = None if landing is None else min(end, landing + delay)
    pilots = sum(each.position_id.is_flight_deck for each in context.flying_crew)
    is_augmented = (
        row.flight_id == context.flight.flight_id
        and pilots > STANDARD_PILOTS
        and row.position_id.is_flight_deck
    )
    return Duty(
        duty_id=row.roster_id,
        start=row.duty_start,
        end=end,
        on_blocks=on_blocks if on_blocks is not None and on_blocks > row.duty_start else None,
        flight_time=timedelta() if flight is None else flight.scheduled_arrival - flight.scheduled_departure,
        pilots=pilots if is_augmented else STANDARD_PILOTS,
        rest_facility=REST_FACILITY if is_augmented else None,
        ends_at_base=flight is None or flight.destination == base,
    )
