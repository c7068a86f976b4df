"""Which day it is where the employee is."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from tripcortex.model import Booking


def today_of(booking: Booking, now: datetime) -> date:
    return now.astimezone(ZoneInfo(booking.time_zone)).date()
