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
from skymarshal.duty import FAR_117, FAR_121_CABIN, Duty, Violation, check_duties, rules_for
from skymarshal.gathering import CrewRow, Found
from skymarshal.impact import CrewHit, CrewSection
from skymarshal.queries import flies

# A bunk in the flight deck's rest compartment: what long-haul aircraft have. A working value of ours.
REST_FACILITY: Final = 1
PILOTS: Final = 2


def crew_section(found: Found) -> CrewSection:
    members = [_crew_hit(found, row) for row in found.crew]
    check = check_crew(found.capacity, [row.position_id for row in found.crew])
    return CrewSection(
        count=len(members),
        illegal=sum(not member.is_legal for member in members),
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


def standby_for(found: Found, missing: Sequence[CrewRow]) -> int:
    """How many of them somebody on standby for the same position can replace."""
    wanted = Counter(row.position_id for row in missing)
    return (wanted & Counter(row.position_id for row in found.standby)).total()


def limits_broken(found: Found, row: CrewRow, delay: timedelta) -> list[Violation]:
    """The limits that the delay breaks or worsens. Report time stays: the duty only grows longer."""
    base = row.home_base if row.home_base and row.home_base in airports() else found.flight.origin
    known = found.second.duties.get(row.crew_id, ())
    rostered: list[CrewRow] = [each for each in known if flies(each)] or [row]
    duties = [_duty(found, each, base, _landing(found, each), timedelta()) for each in rostered]
    # A late sector makes the sectors after it late too: the duty is over when the last of them is.
    landings = [
        _landing(found, each)
        for each in (*rostered, row)
        if each.duty_start == row.duty_start and each.crew_id == row.crew_id
    ]
    landing = max((each for each in landings if each is not None), default=None)
    late = _duty(found, row, base, None if landing is None else landing + delay, delay)
    return check_duties(
        duties, utc_offset=utc_offset(base, row.duty_start), proposed=late, rules=rules_for(row.position_id)
    )


def _crew_hit(found: Found, row: CrewRow) -> CrewHit:
    violations = [] if found.is_cancelled else limits_broken(found, row, found.delay)
    return CrewHit(
        crew_id=row.crew_id,
        roster_id=row.roster_id,
        position=row.position_id.label,
        violations=[str(each) for each in violations],
        is_legal=all(each.extendable for each in violations),
    )


def _landing(found: Found, row: CrewRow) -> datetime | None:
    """When the flight of a roster row is on blocks, as planned for this one and as expected for the others."""
    flight = found.third.flights.get(row.flight_id)
    if flight is None:
        return None
    return flight.scheduled_arrival if flight.flight_id == found.flight.flight_id else flight.arrival


def _duty(found: Found, row: CrewRow, base: str, landing: datetime | None, delay: timedelta) -> Duty:
    flight, end = found.third.flights.get(row.flight_id), row.duty_end + delay
    on_blocks = None if landing is None else min(end, landing)
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
