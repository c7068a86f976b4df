"""The airline's own timetable and fleet: which flight numbers serve a route, which aircraft there are.

Reference data, read from files: where the flights of a day are, the tables say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from holdfast.errors import NotFound
from skymarshal.reference import Record, Source, document


class Aircraft(Record):
    registration: str
    type: str
    seats: int
    base: str


class Service(Record):
    """One flight number: its route and its times in UTC, on every day."""

    flight_number: str
    origin: str
    destination: str
    departure: str
    minutes: int


class FleetList(Record):
    source: Source
    aircraft: tuple[Aircraft, ...]


class Timetable(Record):
    source: Source
    services: tuple[Service, ...]


@cache
def fleet() -> Mapping[str, Aircraft]:
    """Every aircraft, by registration."""
    return MappingProxyType({each.registration: each for each in document("fleet.json", FleetList).aircraft})


def services() -> Sequence[Service]:
    return document("timetable.json", Timetable).services


def aircraft(registration: str) -> Aircraft:
    found = fleet().get(registration)
    if found is None:
        raise NotFound(f"There is no aircraft {registration} in the fleet (data/fleet.json).")
    return found


def spare_registrations(registration: str, wanted: str | None = None) -> list[str]:
    """The other aircraft of the same base that do the same work, and the one wanted: whether one is free, its flights say."""
    own = fleet().get(registration)
    return [
        each.registration
        for each in fleet().values()
        if each.registration == wanted
        or (own and each.registration != registration and each.base == own.base and _alike(each, own))
    ]


def _alike(one: Aircraft, other: Aircraft) -> bool:
    """A freighter has no seats, and replaces only a freighter."""
    return bool(one.seats) == bool(other.seats)


def flight_numbers(origin: str, destination: str) -> list[str]:
    """The flight numbers on a route."""
    return [
        each.flight_number for each in services() if (each.origin, each.destination) == (origin, destination)
    ]
