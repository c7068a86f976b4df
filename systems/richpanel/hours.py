"""Working hours: when people are there, and when they are back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class WorkingHours:
    """The same hours on each working day; Monday is 0. They are those of the zone, summer time included."""

    opens: time = time(9)
    closes: time = time(18)
    days: frozenset[int] = frozenset(range(5))
    zone: str = "UTC"

    def are_open(self, now: datetime) -> bool:
        local = now.astimezone(ZoneInfo(self.zone))
        return local.weekday() in self.days and self.opens <= local.time() < self.closes

    def next_opening(self, now: datetime) -> str:
        """`Monday 09:00`, in the zone's own time."""
        local = now.astimezone(ZoneInfo(self.zone))
        for ahead in range(8):
            day = local.date() + timedelta(days=ahead)
            if day.weekday() in self.days and (ahead or local.time() < self.opens):
                return f"{day:%A} {self.opens:%H:%M}"
        return "our next working day"
