"""How fast a migration goes, and how it tells of its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

# Called with what is being done, how many rows of it are done, and how many there are (None: not known).
Progress: TypeAlias = Callable[[str, int, int | None], None]


def silent(step: str, done: int, total: int | None) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Pace:
    """`lease_seconds`: after so long without a sign of life another process may go on. `hold_seconds`: so long
    writers of the source wait for a switch at the most; then it is given up, and tried again later."""

    lease_seconds: float = 15.0
    hold_seconds: float = 30.0
    # The backfill walks so many parts of the table side by side, and looks at the stream after each round.
    segments: int = 4
    page_rows: int = 200
    parallel_writes: int = 16
