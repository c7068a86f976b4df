"""Settings of a migration: its speed (`Pace`) and the type of its progress callback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# Called with the step, the number of rows done, and the total (None: unknown).
Progress: TypeAlias = Callable[[str, int, int | None], None]


def ignore_progress(step: str, done: int, total: int | None) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Pace:
    """The speed of a migration.

    After `lease_s` without a renewal another process may continue. Writers of the source wait
    `hold_s` for a switch at most; it is then abandoned and tried again later.
    """

    lease_s: float = 15.0
    hold_s: float = 30.0
    # The backfill reads this many segments of the table in parallel, and the stream after each round.
    segments: int = 4
    batch_size: int = 200
    parallel_writes: int = 16
