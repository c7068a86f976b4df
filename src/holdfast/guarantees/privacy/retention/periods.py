"""Retention periods and their text form."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.core.errors import DeclarationError

DAY_S: Final = 86400
_UNITS: Final = ((DAY_S, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True)
class Period:
    """A retention period in seconds, with its reason. None means indefinitely, and needs a reason."""

    seconds: float | None
    why: str = ""

    def __post_init__(self) -> None:
        if self.seconds is None and not self.why:
            raise DeclarationError(
                "Invalid Period: one without an end must say why. Use Period(None, why='…')."
            )
        if self.seconds is not None and self.seconds <= 0:
            raise DeclarationError(f"Invalid Period of {self.seconds} seconds: expected a positive number.")

    @classmethod
    def from_timedelta(cls, period: timedelta, why: str = "") -> Period:
        return cls(period.total_seconds(), why)

    def __str__(self) -> str:
        return format_period(self.seconds)


def format_period(seconds: float | None) -> str:
    """Format seconds in the largest unit that divides them: `30 days`, `36 hours`; None is `for good`."""
    if seconds is None:
        return "for good"
    for unit, name in _UNITS:
        if seconds >= unit and seconds % unit == 0:
            count = int(seconds // unit)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds:g} seconds"


def format_time(at: float) -> str:
    """Format epoch seconds as `2026-02-04T01:00:00Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
