"""Who flies the aircraft. Flights of one aircraft that follow each other closely are the sectors of one duty.

The document's flight has nine crew, fewer than the rules ask for its seats: the minimum-crew check says so. They
came back from London two days before, and a delay of some hours breaks the limits of some and not of others: the
first officer flies again eleven hours after he is released, and one of the cabin crew comes in from another sector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

from skymarshal.aircraft import cabin_crew_min
from skymarshal.model import CrewAssignment, CrewId, RosterId
from skymarshal.sampling.messages import with_message
from skymarshal.sampling.schedule import NOW, Block, Departure, Leg
from skymarshal.statuses import CrewPosition, CrewStatus

ASSIGNMENTS: Final = 600
CREW_MEMBERS: Final = 600
FIRST_CREW_ID: Final = 201

REPORT_BEFORE = timedelta(minutes=75)
RELEASE_AFTER = timedelta(minutes=30)
TURN_MAX = timedelta(hours=3)
DUTY_MAX = timedelta(hours=12)
# Beyond these a third and a fourth pilot are on board.
THREE_PILOTS_OVER, FOUR_PILOTS_OVER = timedelta(hours=8), timedelta(hours=12)

Seat = tuple[str, CrewPosition]

CAPTAIN, FIRST_OFFICER = ("123", CrewPosition.CAPTAIN), ("124", CrewPosition.FIRST_OFFICER)
CABIN: Final = (
    ("125", CrewPosition.CABIN_MANAGER),
    *((str(number), CrewPosition.CABIN_CREW) for number in range(126, 131)),
)
FROM_BAHRAIN: Final = ("131", CrewPosition.CABIN_CREW)
# The rosters that are written out: the document's flight, how its crew came to it and how they go home.
KNOWN_CREWS: Final[dict[Leg, tuple[Seat, ...]]] = {
    ("EY11", 0): (CAPTAIN, FIRST_OFFICER, *CABIN, FROM_BAHRAIN),
    ("EY391", -1): (FROM_BAHRAIN,),
    ("EY11", -3): (CAPTAIN, FIRST_OFFICER, *CABIN),
    ("EY12", -2): (CAPTAIN, FIRST_OFFICER, *CABIN),
    ("EY18", 0): (FIRST_OFFICER,),
    ("EY12", 1): (CAPTAIN, *CABIN),
}
COMPLETE: Final[frozenset[Leg]] = frozenset({("EY11", 0)})
# Two sectors of one duty on two aircraft: the same start on both rows.
CHAINS: Final[dict[str, tuple[Leg, ...]]] = {FROM_BAHRAIN[0]: (("EY391", -1), ("EY11", 0))}


def crew_assignments(block: Block) -> Iterator[CrewAssignment]:
    """Every crew member on every flight. The document's flight comes first, its captain as R-0001."""
    numbers, crew_ids = count(1), count(FIRST_CREW_ID)
    duties = sorted(_duties(block), key=lambda sectors: sectors[0].leg != ("EY11", 0))
    for sectors in duties:
        for departure in sectors:
            for crew_id, position in KNOWN_CREWS.get(departure.leg, ()) if block.is_first else ():
                chain = [block.departures[leg] for leg in CHAINS.get(crew_id, (departure.leg,))]
                yield _assignment(block, next(numbers), crew_id, position, departure, *_times(chain))
        for position in _positions_left(block, sectors):
            crew_id = str(block.number(CREW_MEMBERS, next(crew_ids)))
            for departure in sectors:
                yield _assignment(block, next(numbers), crew_id, position, departure, *_times(sectors))


def _duties(block: Block) -> Iterator[list[Departure]]:
    """Each aircraft's flights, cut where the crew changes."""
    for line in block.lines_of_flying:
        sectors = [line[0]]
        for departure in line[1:]:
            turn = departure.flight.scheduled_departure - sectors[-1].flight.scheduled_arrival
            together = departure.flight.scheduled_arrival - sectors[0].flight.scheduled_departure
            if turn > TURN_MAX or together > DUTY_MAX:
                yield sectors
                sectors = []
            sectors.append(departure)
        yield sectors


def _times(sectors: Sequence[Departure]) -> tuple[datetime, datetime]:
    first, last = sectors[0].flight, sectors[-1].flight
    return first.scheduled_departure - REPORT_BEFORE, last.scheduled_arrival + RELEASE_AFTER


def _positions_left(block: Block, sectors: Sequence[Departure]) -> list[CrewPosition]:
    """What the largest flight of the duty needs, less who is named for any of its flights."""
    if block.is_first and any(each.leg in COMPLETE for each in sectors):
        return []
    flight = sectors[0].flight
    longest = max(each.flight.scheduled_arrival - each.flight.scheduled_departure for each in sectors)
    pilots = 2 + (longest > THREE_PILOTS_OVER) + (longest > FOUR_PILOTS_OVER)
    relief = [CrewPosition.RELIEF_PILOT] * (pilots - 2)
    cabin = cabin_crew_min(flight.capacity)
    needed = [CrewPosition.CAPTAIN, CrewPosition.FIRST_OFFICER, *relief]
    needed += [CrewPosition.CABIN_MANAGER] * bool(cabin) + [CrewPosition.CABIN_CREW] * (cabin - 1)
    if block.is_first and len(sectors) == 1:
        for _, position in KNOWN_CREWS.get(sectors[0].leg, ()):
            needed.remove(position)
    return needed


def _assignment(
    block: Block,
    number: int,
    crew_id: str,
    position: CrewPosition,
    departure: Departure,
    start: datetime,
    end: datetime,
) -> CrewAssignment:
    flight = departure.flight
    head = (
        f"{flight.flight_number}/{flight.scheduled_departure:%d%b} {flight.origin}-{flight.destination}\n".upper()
        + f"CREW {crew_id} POS {position} REPORT {start:%d%H%M}Z RELEASE {end:%d%H%M}Z"
    )
    fields = {
        "roster_id": RosterId(f"R-{block.number(ASSIGNMENTS, number):04d}"),
        "crew_id": CrewId(crew_id),
        "flight_id": flight.flight_id,
        "position_id": position,
        "duty_start": start,
        "duty_end": end,
        "roster_status": CrewStatus.COMPLETED if end < NOW else CrewStatus.ASSIGNED,
        "home_base": "AUH",
        "version": 1,
    }
    return CrewAssignment(**with_message("CRW", head, fields))
