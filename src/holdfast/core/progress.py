"""The callback that long operations report their progress to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# Called with the current task, the number of steps done, and the total.
Progress: TypeAlias = Callable[[str, int, int], None]


def ignore_progress(task: str, done: int, total: int) -> None:
    """Ignore progress."""
