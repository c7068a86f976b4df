"""How long something is kept, and how that is said to a person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.errors import DeclarationError

DAY_S: Final = 86400
_UNITS: Final = ((DAY_S, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True)
class Period:
    """How long, in seconds, and why so long. None is for good: then the reason must be told."""

    seconds: float | None
    why: str = ""

    def __post_init__(self) -> None:
        if self.seconds is None and not self.why:
            raise DeclarationError("What is kept for good must say why: give Period(None, why='…').")
        if self.seconds is not None and self.seconds <= 0:
            raise DeclarationError(f"A period of {self.seconds} seconds keeps nothing: give a positive one.")

    @classmethod
    def of(cls, period: timedelta, why: str = "") -> Period:
        return cls(period.total_seconds(), why)

    def __str__(self) -> str:
        return spoken(self.seconds)


def spoken(seconds: float | None) -> str:
    """`30 days`, `36 hours`: in the largest unit that fits it exactly."""
    if seconds is None:
        return "for good"
    for unit, name in _UNITS:
        if seconds >= unit and seconds % unit == 0:
            count = int(seconds // unit)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds:g} seconds"


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
