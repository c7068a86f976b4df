"""The calendar date in the employee's time zone."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from tripcortex.model.entities import Booking


def get_local_date(booking: Booking, now: datetime) -> date:
    """Return the date of `now` in the booking's time zone."""
    return now.astimezone(ZoneInfo(booking.time_zone)).date()
