"""Aircraft types: seats, hold, and the smallest crew that may fly them.

The crew of a flight is measured against it, and a swap asks whether the other aircraft is large enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from skymarshal.reference import Record, Source, document
from skymarshal.statuses import CrewPosition


class AircraftType(Record):
    code: str
    name: str
    seats: int
    cargo_kg: int


class Fleet(Record):
    source: Source
    seats_per_cabin_crew: int
    pilots_min: int
    types: tuple[AircraftType, ...]


@dataclass(frozen=True, slots=True)
class CrewCheck:
    """The crew of a flight against the smallest one allowed; `missing` is empty when it may go."""

    pilots_needed: int
    pilots: int
    cabin_needed: int
    cabin: int
    missing: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        return not self.missing


@cache
def aircraft_types() -> Mapping[str, AircraftType]:
    """Every type in the table, by ICAO designator."""
    return MappingProxyType({entry.code: entry for entry in _fleet().types})


def aircraft_type(code: str) -> AircraftType:
    found = aircraft_types().get(code.strip().upper())
    if found is None:
        raise ValueError(
            f"The aircraft type {code!r} is unknown; the table has {', '.join(aircraft_types())}."
        )
    return found


def cabin_crew_min(seats: int) -> int:
    """One for every 50 seats installed, or part of it (14 CFR 121.391(a), ORO.CC.100): installed, not taken."""
    if seats < 0:
        raise ValueError(f"An aircraft cannot have {seats} seats; give the number installed.")
    return -(-seats // _fleet().seats_per_cabin_crew)


def check_crew(seats: int, positions: Iterable[str | CrewPosition]) -> CrewCheck:
    """Whether these people, by position, may fly an aircraft with that many seats installed."""
    crew = [CrewPosition(position) for position in positions]
    pilots = sum(position.is_flight_deck for position in crew)
    cabin = len(crew) - pilots
    pilots_needed, cabin_needed = _fleet().pilots_min, cabin_crew_min(seats)
    missing = []
    if CrewPosition.CAPTAIN not in crew:
        missing.append("no captain")
    if pilots < pilots_needed:
        missing.append(f"{pilots_needed - pilots} of {pilots_needed} pilots short")
    if cabin < cabin_needed:
        missing.append(f"{cabin_needed - cabin} of {cabin_needed} cabin crew short for {seats} seats")
    return CrewCheck(pilots_needed, pilots, cabin_needed, cabin, tuple(missing))


def _fleet() -> Fleet:
    return document("aircraft.json", Fleet)
