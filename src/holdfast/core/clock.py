"""The clocks: all time in Holdfast comes from here, and no other module asks the machine for it.

`SystemClock` is the machine's. `RunClock` is a time kept in a file that every process of a run reads, so that
demos and fault tests can move long waits forward; it only moves forward.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

__all__ = [
    "SYSTEM_CLOCK",
    "Clock",
    "RunClock",
    "SystemClock",
    "read_elapsed",
]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return the seconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.time()


class RunClock:
    """A time kept in a file. `advance` moves it for every process that reads the file. `start` is the first
    time, if the file does not exist yet.
    """

    def __init__(self, path: Path, *, start: float | None = None) -> None:
        self._path = path
        if start is not None and not path.exists():
            self._write(start)

    def now(self) -> float:
        """Read the time from the file."""
        return float(self._path.read_text())

    def advance(self, seconds: float) -> float:
        """Move the clock forward and return the new time. Raise `ValueError` for negative seconds."""
        if seconds < 0:
            raise ValueError("the run clock only moves forward")
        moved = self.now() + seconds
        self._write(moved)
        return moved

    def _write(self, moment: float) -> None:
        """Replace the file in one step, so that no reader sees half a number."""
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fresh.write_text(repr(moment))
        fresh.replace(self._path)


SYSTEM_CLOCK: Clock = SystemClock()
"""The machine's clock."""


def read_elapsed(clock: Clock) -> float:
    """Return seconds to measure elapsed time with: monotonic for the machine's clock, which may be set, and
    the clock's own time for any other.
    """
    return time.monotonic() if isinstance(clock, SystemClock) else clock.now()
