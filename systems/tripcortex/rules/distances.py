"""How far two airports are apart, and what follows before any flight is known: the kind of route, the time in the air."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final

import airportsdata

from holdfast.errors import InvalidRequest
from tripcortex.planning.gazetteer import country_name
from tripcortex.rules.policy import LONG_HAUL_KM, Route

EARTH_KM: Final = 6_371.0
# What a jet makes over a flight, and what climb and approach add to it.
CRUISE_KM_PER_HOUR: Final = 850
CLIMB_AND_APPROACH_HOURS: Final = 0.5


def is_airport(code: str) -> bool:
    return code in _airports()


def country_of(airport: str) -> str:
    """ISO 3166, two letters; empty for an airport that is not known."""
    return str(_airports()[airport]["country"]) if is_airport(airport) else ""


def place_names(airport: str) -> tuple[str, ...]:
    """Its city and its country, as a policy's text names them."""
    if not is_airport(airport):
        return ()
    return tuple(filter(None, (str(_airports()[airport]["city"]), country_name(country_of(airport)))))


def distance_km(origin: str, destination: str) -> float:
    """Along the great circle."""
    one, other = _airport(origin), _airport(destination)
    north, further_north = radians(one["lat"]), radians(other["lat"])
    half_up, half_across = (further_north - north) / 2, radians(other["lon"] - one["lon"]) / 2
    chord = sin(half_up) ** 2 + cos(north) * cos(further_north) * sin(half_across) ** 2
    return 2 * EARTH_KM * asin(sqrt(min(1.0, chord)))


def route_of(origin: str, destination: str, long_haul_km: int = LONG_HAUL_KM) -> Route:
    """Within a country, or by distance."""
    if country_of(origin) == country_of(destination):
        return Route.domestic
    return Route.long_haul if distance_km(origin, destination) >= long_haul_km else Route.short_haul


def estimated_hours(origin: str, destination: str) -> Decimal:
    """In the air without a stop, to a tenth of an hour."""
    hours = distance_km(origin, destination) / CRUISE_KM_PER_HOUR + CLIMB_AND_APPROACH_HOURS
    return Decimal(hours).quantize(Decimal("0.1"))


def _airport(code: str) -> Any:
    if not is_airport(code):
        raise InvalidRequest(f"{code!r} is no airport: write its IATA code, such as ORD.")
    return _airports()[code]


@cache
def _airports() -> dict[str, Any]:
    return dict(airportsdata.load("IATA"))
