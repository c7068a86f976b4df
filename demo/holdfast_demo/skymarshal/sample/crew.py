"""The crew assignments of a block. Close flights of one aircraft are the sectors of one duty.

The design document's flight has nine crew, fewer than its seats require: the minimum-crew check reports it.
They came back from London two days before, and a delay of some hours breaks the limits of some of them: the
first officer flies again eleven hours after release, and one of the cabin crew arrives from another sector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from holdfast_demo.skymarshal.sample.messages import add_message
from holdfast_demo.skymarshal.sample.schedule import SAMPLE_TIME, Block, Departure, LegKey
from skymarshal.domain.aircraft_types import get_min_cabin_crew
from skymarshal.domain.statuses import CrewPosition, CrewStatus
from skymarshal.model.entities import CrewAssignment, CrewId, RosterId

ASSIGNMENTS: Final = 600
CREW_MEMBERS: Final = 600
FIRST_CREW_ID: Final = 201

REPORT_BEFORE = timedelta(minutes=75)
RELEASE_AFTER = timedelta(minutes=30)
MAX_TURN = timedelta(hours=3)
MAX_DUTY = timedelta(hours=12)
# Flights longer than these have a third and a fourth pilot.
THREE_PILOTS_OVER, FOUR_PILOTS_OVER = timedelta(hours=8), timedelta(hours=12)

CrewSlot = tuple[str, CrewPosition]

CAPTAIN, FIRST_OFFICER = ("123", CrewPosition.CAPTAIN), ("124", CrewPosition.FIRST_OFFICER)
CABIN: Final = (
    ("125", CrewPosition.CABIN_MANAGER),
    *((str(number), CrewPosition.CABIN_CREW) for number in range(126, 131)),
)
FROM_BAHRAIN: Final = ("131", CrewPosition.CABIN_CREW)
# The rosters that are listed here: the design document's flight, and its crew's flights before and after it.
KNOWN_CREWS: Final[dict[LegKey, tuple[CrewSlot, ...]]] = {
    ("EY11", 0): (CAPTAIN, FIRST_OFFICER, *CABIN, FROM_BAHRAIN),
    ("EY391", -1): (FROM_BAHRAIN,),
    ("EY11", -3): (CAPTAIN, FIRST_OFFICER, *CABIN),
    ("EY12", -2): (CAPTAIN, FIRST_OFFICER, *CABIN),
    ("EY18", 0): (FIRST_OFFICER,),
    ("EY12", 1): (CAPTAIN, *CABIN),
}
COMPLETE_LEGS: Final[frozenset[LegKey]] = frozenset({("EY11", 0)})
# Two sectors of one duty on two aircraft: both rows have the same start.
DUTY_CHAINS: Final[dict[str, tuple[LegKey, ...]]] = {FROM_BAHRAIN[0]: (("EY391", -1), ("EY11", 0))}


def build_crew_assignments(block: Block) -> Iterator[CrewAssignment]:
    """Yield every assignment of the block.

    The design document's flight comes first, with its captain as R-0001.
    """
    numbers, crew_ids = count(1), count(FIRST_CREW_ID)
    duties = sorted(_split_duties(block), key=lambda sectors: sectors[0].leg_key != ("EY11", 0))
    for sectors in duties:
        for departure in sectors:
            for crew_id, position in KNOWN_CREWS.get(departure.leg_key, ()) if block.is_first else ():
                chain = [block.departures[leg] for leg in DUTY_CHAINS.get(crew_id, (departure.leg_key,))]
                yield _build_assignment(
                    block, next(numbers), crew_id, position, departure, *_get_duty_times(chain)
                )
        for position in _list_open_positions(block, sectors):
            crew_id = str(block.to_global_number(CREW_MEMBERS, next(crew_ids)))
            for departure in sectors:
                yield _build_assignment(
                    block, next(numbers), crew_id, position, departure, *_get_duty_times(sectors)
                )


def _split_duties(block: Block) -> Iterator[list[Departure]]:
    """Yield the flights of each duty: an aircraft's flights, split at long ground times and at 12 hours."""
    for line in block.lines_of_flying:
        sectors = [line[0]]
        for departure in line[1:]:
            turn = departure.flight.scheduled_departure - sectors[-1].flight.scheduled_arrival
            together = departure.flight.scheduled_arrival - sectors[0].flight.scheduled_departure
            if turn > MAX_TURN or together > MAX_DUTY:
                yield sectors
                sectors = []
            sectors.append(departure)
        yield sectors


def _get_duty_times(sectors: Sequence[Departure]) -> tuple[datetime, datetime]:
    """Return the report and the release time of a duty with these sectors in order of time."""
    first, last = sectors[0].flight, sectors[-1].flight
    return first.scheduled_departure - REPORT_BEFORE, last.scheduled_arrival + RELEASE_AFTER


def _list_open_positions(block: Block, sectors: Sequence[Departure]) -> list[CrewPosition]:
    """Return the positions that the longest flight of the duty needs and that no named crew member fills."""
    if block.is_first and any(each.leg_key in COMPLETE_LEGS for each in sectors):
        return []
    flight = sectors[0].flight
    longest = max(each.flight.scheduled_arrival - each.flight.scheduled_departure for each in sectors)
    pilots = 2 + (longest > THREE_PILOTS_OVER) + (longest > FOUR_PILOTS_OVER)
    relief = [CrewPosition.RELIEF_PILOT] * (pilots - 2)
    cabin = get_min_cabin_crew(flight.capacity)
    needed = [CrewPosition.CAPTAIN, CrewPosition.FIRST_OFFICER, *relief]
    needed += [CrewPosition.CABIN_MANAGER] * bool(cabin) + [CrewPosition.CABIN_CREW] * (cabin - 1)
    if block.is_first and len(sectors) == 1:
        for _, position in KNOWN_CREWS.get(sectors[0].leg_key, ()):
            needed.remove(position)
    return needed


def _build_assignment(
    block: Block,
    number: int,
    crew_id: str,
    position: CrewPosition,
    departure: Departure,
    start: datetime,
    end: datetime,
) -> CrewAssignment:
    """Build the roster row of a crew member on one flight. `number` is its number in the block.

    `start` and `end` are those of the whole duty.
    """
    flight = departure.flight
    route = f"{flight.origin}-{flight.destination}"
    head = (
        f"{flight.flight_number}/{flight.scheduled_departure:%d%b} {route}\n".upper()
        + f"CREW {crew_id} POS {position} REPORT {start:%d%H%M}Z RELEASE {end:%d%H%M}Z"
    )
    fields = {
        "roster_id": RosterId(f"R-{block.to_global_number(ASSIGNMENTS, number):04d}"),
        "crew_id": CrewId(crew_id),
        "flight_id": flight.flight_id,
        "position_id": position,
        "duty_start": start,
        "duty_end": end,
        "roster_status": CrewStatus.COMPLETED if end < SAMPLE_TIME else CrewStatus.ASSIGNED,
        "home_base": "AUH",
        "version": 1,
    }
    return CrewAssignment(**add_message("CRW", head, fields))
