"""Whose duty limits a delay breaks: the crew section of a disruption report.

`gathering` has read who flies and what else they fly; `duty` knows the limits. Here rosters become duties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from skymarshal.aircraft import check_crew
from skymarshal.airports import airports, utc_offset
from skymarshal.duty import FAR_117, FAR_121_CABIN, TURN_MAX, Duty, Violation, check_duties, rules_for
from skymarshal.gathering import CrewRow, Found
from skymarshal.impact import CrewHit, CrewSection
from skymarshal.options import TURNAROUND
from skymarshal.queries import flies

# A bunk in the flight deck's rest compartment: what long-haul aircraft have. A working value of ours.
REST_FACILITY: Final = 1
PILOTS: Final = 2

UNCHECKED: Final = (
    "Rest, cumulative limits and other sectors of the same duty: the duty history is not known."
)


def crew_section(found: Found) -> CrewSection:
    members = [_crew_hit(found, row) for row in found.crew]
    check = check_crew(found.capacity, [row.position_id for row in found.crew])
    return CrewSection(
        count=len(members),
        illegal=sum(member.is_legal is False for member in members),
        unknown=sum(member.is_legal is None for member in members),
        history_known=found.first.has_histories,
        rules=f"{FAR_117.name} for pilots, {FAR_121_CABIN.name} for cabin crew",
        members=members,
        minimum_crew_missing=list(check.missing),
        traces=[*found.first.traced["crew"].traces, *found.second.traced["crew"].traces],
    )


def illegal_crew(found: Found, delay: timedelta) -> list[CrewRow]:
    """Those who may not fly so late: a limit breaks that nobody may extend."""
    return [
        row for row in found.crew if not all(each.extendable for each in limits_broken(found, row, delay))
    ]


def unknown_crew(found: Found) -> list[CrewRow]:
    """Those whose other duties are not all known, so that nobody can say that they may fly late."""
    return [row for row in found.crew if not found.knows_history_of(row.crew_id)]


def standby_for(found: Found, missing: Sequence[CrewRow]) -> int:
    """How many of them somebody on standby for the same position can replace."""
    wanted = Counter(row.position_id for row in missing)
    return (wanted & Counter(row.position_id for row in found.standby)).total()


def limits_broken(found: Found, row: CrewRow, delay: timedelta) -> list[Violation]:
    """The limits that the delay breaks or worsens. Report time stays: the duty only grows longer."""
    base = row.home_base if row.home_base and row.home_base in airports() else found.flight.origin
    known: Sequence[CrewRow] = found.second.duties.get(row.crew_id, ())
    rostered = [each for each in known if flies(each) and each.roster_id != row.roster_id] + [row]
    late = _late_sectors(found, _same_duty(rostered, row), row, delay)
    # Rows of one duty may all tell the end of the whole duty, which is as late as the last sector.
    ends = {(each.duty_start, each.duty_end): lateness for each, lateness in late}
    return check_duties(
        [_duty(found, each, base) for each in rostered],
        utc_offset=utc_offset(base, row.duty_start),
        proposed=[
            _duty(found, each, base, lateness, ends[each.duty_start, each.duty_end])
            for each, lateness in late
        ],
        rules=rules_for(row.position_id),
    )


def _same_duty(rostered: Sequence[CrewRow], row: CrewRow) -> list[CrewRow]:
    """The rows that are sectors of one duty with this one, as `duty.joined` joins them."""
    sectors: list[CrewRow] = []
    for each in sorted(rostered, key=lambda each: (each.duty_start, each.duty_end, each.roster_id)):
        if sectors and each.duty_start - max(sector.duty_end for sector in sectors) >= TURN_MAX:
            if row in sectors:
                break
            sectors = []
        sectors.append(each)
    return sectors


def _late_sectors(
    found: Found, sectors: Sequence[CrewRow], row: CrewRow, delay: timedelta
) -> list[tuple[CrewRow, timedelta]]:
    """How late this sector is and each after it: a delay goes with the crew, less what the ground times swallow."""
    ordered = sorted(sectors, key=lambda each: (_departure(found, each), each.roster_id))
    late = [(row, delay)]
    for each in ordered[ordered.index(row) + 1 :]:
        before, lateness = late[-1]
        landing, flight = _landing(found, before), found.third.flights.get(each.flight_id)
        if landing is not None and flight is not None:
            ready = landing + lateness + TURNAROUND
            lateness = min(lateness, max(timedelta(), ready - flight.departure))
        late.append((each, lateness))
    return late


def _crew_hit(found: Found, row: CrewRow) -> CrewHit:
    changes_nothing = found.is_cancelled or not found.delay
    violations = [] if changes_nothing else limits_broken(found, row, found.delay)
    is_legal = all(each.extendable for each in violations)
    is_unknown = is_legal and not changes_nothing and not found.knows_history_of(row.crew_id)
    return CrewHit(
        crew_id=row.crew_id,
        roster_id=row.roster_id,
        position=row.position_id.label,
        violations=[str(each) for each in violations],
        is_legal=None if is_unknown else is_legal,
        unchecked=UNCHECKED if is_unknown else None,
    )


def _departure(found: Found, row: CrewRow) -> datetime:
    flight = found.third.flights.get(row.flight_id)
    return row.duty_start if flight is None else flight.scheduled_departure


def _landing(found: Found, row: CrewRow) -> datetime | None:
    """When the flight of a roster row is on blocks, as planned for this one and as expected for the others."""
    flight = found.third.flights.get(row.flight_id)
    if flight is None:
        return None
    return flight.scheduled_arrival if flight.flight_id == found.flight.flight_id else flight.arrival


def _duty(
    found: Found,
    row: CrewRow,
    base: str,
    late: timedelta = timedelta(),
    ends_late: timedelta = timedelta(),
) -> Duty:
    flight, landing, end = (
        found.third.flights.get(row.flight_id),
        _landing(found, row),
        row.duty_end + ends_late,
    )
    on_blocks = None if landing is None else min(end, landing + late)
    pilots = sum(each.position_id.is_flight_deck for each in found.crew)
    is_augmented = (
        row.flight_id == found.flight.flight_id and pilots > PILOTS and row.position_id.is_flight_deck
    )
    return Duty(
        duty_id=row.roster_id,
        start=row.duty_start,
        end=end,
        on_blocks=on_blocks if on_blocks is not None and on_blocks > row.duty_start else None,
        flight_time=timedelta() if flight is None else flight.scheduled_arrival - flight.scheduled_departure,
        pilots=pilots if is_augmented else PILOTS,
        rest_facility=REST_FACILITY if is_augmented else None,
        ends_at_base=flight is None or flight.destination == base,
    )
