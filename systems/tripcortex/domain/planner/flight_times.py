"""The earliest hour of arrival of a flight on a day: some deadlines need a departure on the day before.

An estimate from the distance and the time zones, on the early side: where it says that a deadline cannot be
met, no flight of that day meets it.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from tripcortex.domain.planner import gazetteer
from tripcortex.domain.policy_rules.distances import estimate_flight_hours

FIRST_DEPARTURE: Final = time(6)
# Flights of this length and more leave later.
LONG_FLIGHT_HOURS: Final = 6
FIRST_LONG_DEPARTURE: Final = time(8)


def estimate_arrival(origin: str, destination: str, day: date) -> datetime | None:
    """Return the earliest local time at the destination for a flight that leaves on this day.

    None if an airport is unknown.
    """
    leaves, lands = gazetteer.get_time_zone(origin), gazetteer.get_time_zone(destination)
    if leaves is None or lands is None:
        return None
    hours = float(estimate_flight_hours(origin, destination))
    first = FIRST_DEPARTURE if hours < LONG_FLIGHT_HOURS else FIRST_LONG_DEPARTURE
    departure = datetime.combine(day, first, ZoneInfo(leaves))
    # Adding to UTC, because the clocks may change on the way.
    arrival = departure.astimezone(UTC) + timedelta(hours=hours)
    return arrival.astimezone(ZoneInfo(lands)).replace(tzinfo=None)
