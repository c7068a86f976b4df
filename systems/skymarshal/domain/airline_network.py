"""The airline's timetable and fleet: flight numbers by route, aircraft by registration.

This is reference data from files; the tables hold the flights of each day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from holdfast.core.errors import NotFound
from skymarshal.domain.reference_data import Record, Source, load_document


class Aircraft(Record):
    """One aircraft of the fleet list. `seats` is 0 for a freighter; `base` is its airport."""

    registration: str
    type: str
    seats: int
    base: str


class Service(Record):
    """One flight number with its route, its daily departure (UTC, as text) and its length in minutes."""

    flight_number: str
    origin: str
    destination: str
    departure: str
    minutes: int


class FleetList(Record):
    """The data file of the fleet, with its source."""

    source: Source
    aircraft: tuple[Aircraft, ...]


class Timetable(Record):
    """The data file of the timetable, with its source."""

    source: Source
    services: tuple[Service, ...]


@cache
def get_fleet() -> Mapping[str, Aircraft]:
    """Return every aircraft, by registration."""
    return MappingProxyType(
        {each.registration: each for each in load_document("fleet.json", FleetList).aircraft}
    )


def get_services() -> Sequence[Service]:
    """Return every service of the timetable."""
    return load_document("timetable.json", Timetable).services


def get_aircraft(registration: str) -> Aircraft:
    """Return the aircraft with a registration. Raise `NotFound` if the fleet does not have it."""
    found = get_fleet().get(registration)
    if found is None:
        raise NotFound(f"Aircraft {registration} is not in the fleet (data/fleet.json).")
    return found


def find_spare_registrations(registration: str, wanted: str | None = None) -> list[str]:
    """Return the interchangeable aircraft at the same base, and `wanted` if the fleet has it.

    They are candidates only: their flights decide whether one is free. An aircraft outside of the fleet has
    none.
    """
    own = get_fleet().get(registration)
    return [
        each.registration
        for each in get_fleet().values()
        if each.registration == wanted
        or (
            own
            and each.registration != registration
            and each.base == own.base
            and _is_interchangeable(each, own)
        )
    ]


def _is_interchangeable(one: Aircraft, other: Aircraft) -> bool:
    """Return whether both carry passengers or both are freighters, which have no seats."""
    return bool(one.seats) == bool(other.seats)


def find_flight_numbers(origin: str, destination: str) -> list[str]:
    """Return the flight numbers of the timetable on a route."""
    return [
        each.flight_number
        for each in get_services()
        if (each.origin, each.destination) == (origin, destination)
    ]
