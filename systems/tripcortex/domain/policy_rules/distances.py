"""Airports' countries and distances, and flight times estimated from them before any flight is known."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from math import asin, cos, radians, sin, sqrt
from typing import Any, Final

import airportsdata

from holdfast.core.errors import InvalidRequest
from tripcortex.domain.planner.gazetteer import get_country_name
from tripcortex.domain.policy_rules.travel_policy import LONG_HAUL_KM, Route

EARTH_KM: Final = 6_371.0
# The average speed of a jet, and the time that climb and approach add.
CRUISE_KM_PER_HOUR: Final = 850
CLIMB_AND_APPROACH_HOURS: Final = 0.5


def is_airport(code: str) -> bool:
    """Return True if `code` is a known IATA airport code."""
    return code in _load_airports()


def get_country(airport: str) -> str:
    """Return the airport's ISO 3166 two-letter country code, or an empty string for an unknown airport."""
    return str(_load_airports()[airport]["country"]) if is_airport(airport) else ""


def get_place_names(airport: str) -> tuple[str, ...]:
    """Return the airport's city and country as a policy text names them; empty for an unknown airport."""
    if not is_airport(airport):
        return ()
    return tuple(
        filter(None, (str(_load_airports()[airport]["city"]), get_country_name(get_country(airport))))
    )


def compute_distance_km(origin: str, destination: str) -> float:
    """Return the great-circle distance between two airports. Raise `InvalidRequest` for an unknown code."""
    one, other = _get_airport(origin), _get_airport(destination)
    north, further_north = radians(one["lat"]), radians(other["lat"])
    half_up, half_across = (further_north - north) / 2, radians(other["lon"] - one["lon"]) / 2
    chord = sin(half_up) ** 2 + cos(north) * cos(further_north) * sin(half_across) ** 2
    return 2 * EARTH_KM * asin(sqrt(min(1.0, chord)))


def classify_route(origin: str, destination: str, long_haul_km: int = LONG_HAUL_KM) -> Route:
    """Return the kind of route: domestic within one country, otherwise short or long haul by distance."""
    if get_country(origin) == get_country(destination):
        return Route.domestic
    return Route.long_haul if compute_distance_km(origin, destination) >= long_haul_km else Route.short_haul


def estimate_flight_hours(origin: str, destination: str) -> Decimal:
    """Estimate the duration of a non-stop flight, in hours rounded to a tenth."""
    hours = compute_distance_km(origin, destination) / CRUISE_KM_PER_HOUR + CLIMB_AND_APPROACH_HOURS
    return Decimal(hours).quantize(Decimal("0.1"))


def _get_airport(code: str) -> Any:
    """Return the airport's row of `airportsdata`. Raise `InvalidRequest` for an unknown code."""
    if not is_airport(code):
        raise InvalidRequest(f"Invalid airport {code!r}: expected an IATA code such as ORD.")
    return _load_airports()[code]


@cache
def _load_airports() -> dict[str, Any]:
    return dict(airportsdata.load("IATA"))
