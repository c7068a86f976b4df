"""Aircraft types with their seats and cargo capacity, and the check of a crew against the legal minimum.

The CSV import takes seats from the types; the queries and the disruption report check crews.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from skymarshal.domain.reference_data import Record, Source, load_document
from skymarshal.domain.statuses import CrewPosition


class AircraftType(Record):
    """One aircraft type, by ICAO designator."""

    code: str
    name: str
    seats: int
    cargo_kg: int


class AircraftTypeTable(Record):
    """The data file of aircraft types and minimum crew, with its source."""

    source: Source
    seats_per_cabin_crew: int
    pilots_min: int
    types: tuple[AircraftType, ...]


@dataclass(frozen=True, slots=True)
class CrewCheck:
    """The crew of a flight compared with the legal minimum. `missing` is empty if the flight may depart."""

    pilots_needed: int
    pilots: int
    cabin_needed: int
    cabin: int
    missing: tuple[str, ...]

    @property
    def is_enough(self) -> bool:
        """Whether the crew meets the minimum."""
        return not self.missing


@cache
def get_aircraft_types() -> Mapping[str, AircraftType]:
    """Return every type in the table, by ICAO designator."""
    return MappingProxyType({entry.code: entry for entry in _load_type_table().types})


def get_aircraft_type(code: str) -> AircraftType:
    """Return the type with an ICAO designator. Raise ValueError if the table does not have it."""
    found = get_aircraft_types().get(code.strip().upper())
    if found is None:
        raise ValueError(
            f"Unknown aircraft type {code!r}: expected one of {', '.join(get_aircraft_types())}."
        )
    return found


def get_min_cabin_crew(seats: int) -> int:
    """Return the minimum cabin crew for the seats installed. Raise ValueError for a negative number.

    One for every 50 seats or part of it (14 CFR 121.391(a), ORO.CC.100), occupied or not.
    """
    if seats < 0:
        raise ValueError(f"Invalid number of seats {seats}: expected 0 or more. Give the number installed.")
    return -(-seats // _load_type_table().seats_per_cabin_crew)


def check_crew(seats: int, positions: Iterable[str | CrewPosition]) -> CrewCheck:
    """Check a crew, one position per member, against the minimum of pilots and cabin crew for these seats."""
    crew = [CrewPosition(position) for position in positions]
    pilots = sum(position.is_flight_deck for position in crew)
    cabin = len(crew) - pilots
    pilots_needed, cabin_needed = _load_type_table().pilots_min, get_min_cabin_crew(seats)
    missing = []
    if CrewPosition.CAPTAIN not in crew:
        missing.append("no captain")
    if pilots < pilots_needed:
        missing.append(f"{pilots_needed - pilots} of {pilots_needed} pilots short")
    if cabin < cabin_needed:
        missing.append(f"{cabin_needed - cabin} of {cabin_needed} cabin crew short for {seats} seats")
    return CrewCheck(pilots_needed, pilots, cabin_needed, cabin, tuple(missing))


def _load_type_table() -> AircraftTypeTable:
    return load_document("aircraft.json", AircraftTypeTable)
