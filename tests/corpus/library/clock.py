"""The clock of the corpus: it starts at the time when the archives were written, and tests move it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

# Every archive is written at this time, so that no lifetime in it has ended when a test opens it.
WRITTEN_AT: Final = datetime(2026, 2, 4, 12, tzinfo=UTC).timestamp()


class ManualClock:
    """Clock that moves only when `advance` moves it."""

    def __init__(self, now: float = WRITTEN_AT) -> None:
        self.moment = now

    def now(self) -> float:
        return self.moment

    def time(self) -> datetime:
        return datetime.fromtimestamp(self.moment, UTC)

    def advance(self, seconds: float) -> None:
        self.moment += seconds
