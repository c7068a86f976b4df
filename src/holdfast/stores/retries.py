"""Retries with exponential backoff and full jitter: the limits, the timing, and the count for one operation.

The SDK's own retries are off. All retries happen here, so that one module decides and one deadline bounds
them. The longest pause doubles with each failure, and the pause is drawn uniformly between zero and that
bound ("full jitter"), so that callers refused together do not return together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.errors import SettingsError
from holdfast.core.rng import RNG


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on retries: at most `max_attempts` attempts in a row without progress, and no attempt
    started later than `deadline_s` after the first.

    The last attempt may still use its full timeouts, so an operation ends within the deadline plus those
    timeouts.
    """

    max_attempts: int = 8
    first_pause_s_max: float = 0.05
    pause_s_max: float = 2.0
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if self.max_attempts < 1 or min(self.first_pause_s_max, self.pause_s_max, self.deadline_s) < 0:
            raise SettingsError(
                f"Invalid {self!r}: expected at least one attempt, and no negative pause or deadline."
            )

    def get_max_pause_s(self, failures: int) -> float:
        """Return the longest pause, in seconds, after this many failures in a row."""
        return min(self.pause_s_max, self.first_pause_s_max * 2.0 ** (failures - 1))


def _get_loop_time() -> float:
    """Return the running event loop's monotonic time in seconds."""
    return asyncio.get_running_loop().time()


class RetryTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The random numbers, the sleep and the clock of a retry.

    Tests replace them, so that they do not wait.
    """

    draw_random: Callable[[], float] = RNG.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = _get_loop_time


class Retries:
    """The retries that are left for one operation, counted over all of its requests.

    The deadline starts at creation.
    """

    __slots__ = ("_backoff", "_deadline", "_failures", "_timing")

    def __init__(self, backoff: Backoff, timing: RetryTiming) -> None:
        self._backoff = backoff
        self._timing = timing
        self._deadline = timing.now() + backoff.deadline_s
        self._failures = 0

    def reset(self) -> None:
        """Reset the backoff after progress. The deadline does not change."""
        self._failures = 0

    async def pause(self) -> bool:
        """Count a failure and wait before the next attempt.

        Return False at once if no attempt or time is left.
        """
        self._failures += 1
        if self._failures >= self._backoff.max_attempts:
            return False
        pause_s = self._timing.draw_random() * self._backoff.get_max_pause_s(self._failures)
        if self._timing.now() + pause_s > self._deadline:
            return False
        await self._timing.sleep(pause_s)
        return True
