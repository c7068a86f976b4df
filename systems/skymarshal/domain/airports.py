"""Airports: position, legal zone, distances, time zones and minimum connection times.

`identifiers` checks airport codes against this table; `passenger_rights` and `connections` use its distances
and times.
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

from skymarshal.domain.reference_data import Record, Source, load_document, load_rows

EARTH_RADIUS_KM = 6371.0088

Zone = Literal["EU", "UK", ""]


@dataclass(frozen=True, slots=True)
class Airport:
    """One airport of the table. `zone` is its territory for passenger rights: EU, UK or neither."""

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
    """The data file of minimum connection times in minutes, by kind of connection, with its source."""

    source: Source
    default: Mapping[str, int]
    terminal_change: int
    airports: Mapping[str, Mapping[str, int]]


@cache
def get_airports() -> Mapping[str, Airport]:
    """Return every airport in the table, by IATA code."""
    return MappingProxyType({row["iata"]: _parse_airport(row) for row in load_rows("airports.csv")})


@cache
def get_airports_by_icao() -> Mapping[str, Airport]:
    """Return every airport in the table, by ICAO code."""
    return MappingProxyType({airport.icao: airport for airport in get_airports().values()})


def get_airport(code: str) -> Airport:
    """Return the airport with an IATA or ICAO code. Raise ValueError if the table does not have it."""
    text = code.strip().upper()
    found = get_airports().get(text) or get_airports_by_icao().get(text)
    if found is None:
        raise ValueError(
            f"Unknown airport {code!r}: it is not among the {len(get_airports())} airports of the table. "
            "Check the code, or add the airport to data/airports.csv."
        )
    return found


def compute_distance_km(origin: str, destination: str) -> float:
    """Return the great-circle distance in kilometres, which selects the band of passenger compensation.

    Raise ValueError for an unknown airport.
    """
    start, end = get_airport(origin), get_airport(destination)
    latitudes = radians(start.latitude), radians(end.latitude)
    half_height = sin((latitudes[1] - latitudes[0]) / 2)
    half_width = sin(radians(end.longitude - start.longitude) / 2)
    chord = half_height**2 + cos(latitudes[0]) * cos(latitudes[1]) * half_width**2
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(chord)))


def is_international(origin: str, destination: str) -> bool:
    """Return whether a flight crosses a border.

    An unknown airport counts as abroad: its connections take longer.
    """
    start, end = get_airports().get(origin), get_airports().get(destination)
    return start is None or end is None or start.country != end.country


def get_utc_offset(code: str, moment: datetime) -> timedelta:
    """Return the airport's offset from UTC at a moment. Duty limits go by this local time.

    Raise ValueError for an unknown airport or a moment without a time zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"Invalid time {moment.isoformat()}: expected a time zone. Give it in UTC.")
    return moment.astimezone(ZoneInfo(get_airport(code).time_zone)).utcoffset() or timedelta(0)


def get_min_connection_minutes(
    airport: str,
    *,
    inbound_international: bool,
    outbound_international: bool,
    same_terminal: bool = True,
) -> int:
    """Return the shortest time from arrival to departure in which passenger and bag can connect.

    An airport without values of its own has the default; a change of terminal adds time.
    """
    times = load_document("mct.json", ConnectionTimes)
    kind = f"{_format_scope(inbound_international)}-{_format_scope(outbound_international)}"
    minutes = times.airports.get(airport, {}).get(kind, times.default[kind])
    return minutes if same_terminal else minutes + times.terminal_change


def _parse_airport(row: Mapping[str, str]) -> Airport:
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


def _format_scope(international: bool) -> str:
    """Return the word that names a flight in the keys of the connection times."""
    return "international" if international else "domestic"
