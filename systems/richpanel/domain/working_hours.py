"""Working hours of the support team: whether it is open at a time, and its next opening as text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class WorkingHours:
    """The same hours on each working day; Monday is 0. Times are local to `zone`, including daylight saving
    time.
    """

    opens: time = time(9)
    closes: time = time(18)
    days: frozenset[int] = frozenset(range(5))
    zone: str = "UTC"

    def is_open(self, now: datetime) -> bool:
        """Return whether the team works at a time."""
        local = now.astimezone(ZoneInfo(self.zone))
        return local.weekday() in self.days and self.opens <= local.time() < self.closes

    def format_next_opening(self, now: datetime) -> str:
        """Return the next opening, as `Monday 09:00` in local time."""
        local = now.astimezone(ZoneInfo(self.zone))
        for ahead in range(8):
            day = local.date() + timedelta(days=ahead)
            if day.weekday() in self.days and (ahead or local.time() < self.opens):
                return f"{day:%A} {self.opens:%H:%M}"
        return "our next working day"
