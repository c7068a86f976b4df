"""A clock that a test moves by hand."""

from __future__ import annotations


class FakeClock:
    """A clock that a test moves by hand."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.moment = now

    def now(self) -> float:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += seconds
