"""How long an operation is tried for, and how long between two tries.

The SDK's own retries are off: all of them are here, so that there is one place that decides and one deadline
that bounds. Pauses grow by two and are drawn evenly between nothing and their bound ("full jitter"), so that
callers who were refused together do not come back together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.errors import SettingsError


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """At most `attempts_max` tries in a row without progress, none begun later than `deadline_s` after the
    first.

    The last try may still take its time-outs: an operation ends within the deadline and those.
    """

    attempts_max: int = 8
    first_pause_s_max: float = 0.05
    pause_s_max: float = 2.0
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or min(self.first_pause_s_max, self.pause_s_max, self.deadline_s) < 0:
            raise SettingsError(f"{self!r}: at least one attempt, and no pause or deadline below zero")

    def pause_s_bound(self, failures: int) -> float:
        """The longest pause after so many failures in a row."""
        return min(self.pause_s_max, self.first_pause_s_max * 2.0 ** (failures - 1))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Chance, sleep and time, as parts: a test brings its own and waits for nothing."""

    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = _loop_time


class Patience:
    """What is left of it for one operation, all of its requests together."""

    __slots__ = ("_backoff", "_ends_at", "_failures", "_waiting")

    def __init__(self, backoff: Backoff, waiting: Waiting) -> None:
        self._backoff = backoff
        self._waiting = waiting
        self._ends_at = waiting.now() + backoff.deadline_s
        self._failures = 0

    def renew(self) -> None:
        """There was progress: pauses begin small again. The deadline stays."""
        self._failures = 0

    async def pause(self) -> bool:
        """Wait before another try; False, at once, if there shall be none."""
        self._failures += 1
        if self._failures >= self._backoff.attempts_max:
            return False
        pause_s = self._waiting.chance() * self._backoff.pause_s_bound(self._failures)
        if self._waiting.now() + pause_s > self._ends_at:
            return False
        await self._waiting.sleep(pause_s)
        return True
