"""Airports: where they are, which law they lie under, how far apart, and how long a change of planes takes.

Identifiers are checked against this table; passenger rights and connections build on its distances and times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from math import asin, cos, radians, sin, sqrt
from types import MappingProxyType
from typing import Literal, cast
from zoneinfo import ZoneInfo

from skymarshal.reference import Record, Source, document, rows

EARTH_RADIUS_KM = 6371.0088

Zone = Literal["EU", "UK", ""]


@dataclass(frozen=True, slots=True)
class Airport:
    iata: str
    icao: str
    name: str
    city: str
    country: str
    latitude: float
    longitude: float
    time_zone: str
    zone: Zone


class ConnectionTimes(Record):
    source: Source
    default: Mapping[str, int]
    terminal_change: int
    airports: Mapping[str, Mapping[str, int]]


@cache
def airports() -> Mapping[str, Airport]:
    """Every airport in the table, by IATA code."""
    return MappingProxyType({row["iata"]: _airport(row) for row in rows("airports.csv")})


@cache
def airports_by_icao() -> Mapping[str, Airport]:
    return MappingProxyType({airport.icao: airport for airport in airports().values()})


def airport_of(code: str) -> Airport:
    """The airport with that IATA or ICAO code; ValueError for one the table does not have."""
    text = code.strip().upper()
    found = airports().get(text) or airports_by_icao().get(text)
    if found is None:
        raise ValueError(
            f"No airport {code!r} is in the table of {len(airports())}; "
            "check the code, or add the airport to data/airports.csv."
        )
    return found


def distance_km(origin: str, destination: str) -> float:
    """The great-circle distance, by which passenger rights are banded."""
    start, end = airport_of(origin), airport_of(destination)
    latitudes = radians(start.latitude), radians(end.latitude)
    half_height = sin((latitudes[1] - latitudes[0]) / 2)
    half_width = sin(radians(end.longitude - start.longitude) / 2)
    chord = half_height**2 + cos(latitudes[0]) * cos(latitudes[1]) * half_width**2
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(chord)))


def is_international(origin: str, destination: str) -> bool:
    """Whether a flight crosses a border. An airport we do not know counts as abroad: the longer change."""
    start, end = airports().get(origin), airports().get(destination)
    return start is None or end is None or start.country != end.country


def utc_offset(code: str, moment: datetime) -> timedelta:
    """How far local time is ahead of UTC there, at that moment: what duty limits call acclimated time."""
    if moment.tzinfo is None:
        raise ValueError(f"The time {moment.isoformat()} has no zone; give it in UTC.")
    return moment.astimezone(ZoneInfo(airport_of(code).time_zone)).utcoffset() or timedelta(0)


def minimum_connection_minutes(
    airport: str,
    *,
    inbound_international: bool,
    outbound_international: bool,
    same_terminal: bool = True,
) -> int:
    """The shortest time from arrival to departure in which passenger and bag still change planes."""
    times = document("mct.json", ConnectionTimes)
    kind = f"{_scope(inbound_international)}-{_scope(outbound_international)}"
    minutes = times.airports.get(airport, {}).get(kind, times.default[kind])
    return minutes if same_terminal else minutes + times.terminal_change


def _airport(row: Mapping[str, str]) -> Airport:
    return Airport(
        iata=row["iata"],
        icao=row["icao"],
        name=row["name"],
        city=row["city"],
        country=row["country"],
        latitude=float(row["lat"]),
        longitude=float(row["lon"]),
        time_zone=row["tz"],
        zone=cast(Zone, row["zone"]),
    )


def _scope(international: bool) -> str:
    return "international" if international else "domestic"
