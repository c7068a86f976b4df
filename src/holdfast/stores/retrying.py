"""Retries: how often and for how long an operation is attempted, with exponential backoff and full jitter.

The SDK's own retries are off. All retries happen here, so that one module decides and one deadline bounds
them. The bound of a pause doubles with each failure, and the pause is drawn uniformly between zero and that
bound ("full jitter"), so that callers refused together do not return together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.errors import SettingsError


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on retries: at most `attempts_max` attempts in a row without progress, and no attempt
    started later than `deadline_s` after the first.

    The last attempt may still use its full timeouts, so an operation ends within the deadline plus those
    timeouts.
    """

    attempts_max: int = 8
    first_pause_s_max: float = 0.05
    pause_s_max: float = 2.0
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or min(self.first_pause_s_max, self.pause_s_max, self.deadline_s) < 0:
            raise SettingsError(f"{self!r}: at least one attempt, and no pause or deadline below zero")

    def pause_s_bound(self, failures: int) -> float:
        """Return the longest pause, in seconds, after this many failures in a row."""
        return min(self.pause_s_max, self.first_pause_s_max * 2.0 ** (failures - 1))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The random numbers, the sleep and the clock of a retry. A test replaces them and does not wait."""

    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = _loop_time


class Patience:
    """The retries that are left for one operation, counted over all of its requests."""

    __slots__ = ("_backoff", "_ends_at", "_failures", "_waiting")

    def __init__(self, backoff: Backoff, waiting: Waiting) -> None:
        self._backoff = backoff
        self._waiting = waiting
        self._ends_at = waiting.now() + backoff.deadline_s
        self._failures = 0

    def renew(self) -> None:
        """Reset the backoff after progress. The deadline does not change."""
        self._failures = 0

    async def pause(self) -> bool:
        """Wait before the next attempt. Return False at once if no attempt is left."""
        self._failures += 1
        if self._failures >= self._backoff.attempts_max:
            return False
        pause_s = self._waiting.chance() * self._backoff.pause_s_bound(self._failures)
        if self._waiting.now() + pause_s > self._ends_at:
            return False
        await self._waiting.sleep(pause_s)
        return True
