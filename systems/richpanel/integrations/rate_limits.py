"""Pacing of help desk calls: wait after a 429, and stay within a budget that all workers share.

A 429 is not a failure. The process waits, keeps its messages and receives no more meanwhile: a message
returned to the queue for every 429 would reach the dead-letter queue before the budget is free again. The
shared budget is a rate limit in the store, for accounts with a known limit (RP_MW_CALLS_MAX); without it, the
429s alone set the pace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.core.errors import ExternalServiceFailed, RateLimited
from holdfast.core.rng import RNG

T = TypeVar("T")

# Attempts of one call before its message returns to the queue.
MAX_ATTEMPTS: Final = 8
PAUSE_S: Final = 1.0
# Jitter, so that waiting calls do not resume at once.
SPREAD_S: Final = 0.25


class TooManyRequests(ExternalServiceFailed, label="TooManyRequests"):
    """The account's call budget is used up. The call had no effect."""


async def _take_nothing() -> None:
    """Take nothing: there is no shared budget."""


class CallPacer:
    """Paces the calls of one process. `take_call` takes a call from the shared budget; `on_refused` is called
    for every 429.

    With `should_wait` off, a 429 is raised at once, for callers that can retry at no cost.
    """

    def __init__(
        self,
        take_call: Callable[[], Awaitable[object]] = _take_nothing,
        on_refused: Callable[[], object] = lambda: None,
        *,
        should_wait: bool = True,
    ) -> None:
        self._take_call, self._on_refused, self._should_wait = take_call, on_refused, should_wait
        self._paused_until = 0.0

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Wait for a turn and call `function`. Repeat it after a 429, in all at most `MAX_ATTEMPTS` times;
        then raise `TooManyRequests`.
        """
        tried = 0
        while True:
            await self._wait_for_turn()
            try:
                return await function()
            except TooManyRequests as error:
                self._on_refused()
                self._pause(error.retry_after_s)
                tried += 1
                if tried == MAX_ATTEMPTS or not self._should_wait:
                    raise

    async def _wait_for_turn(self) -> None:
        """Wait until calls are allowed, and take one from the budget."""
        while True:
            loop = asyncio.get_running_loop()
            while self._should_wait and (wait_s := self._paused_until - loop.time()) > 0:
                await asyncio.sleep(wait_s + RNG.uniform(0, SPREAD_S))
            try:
                await self._take_call()
                return
            except RateLimited as full:
                self._pause(full.retry_after_s)

    def _pause(self, seconds: float | None) -> None:
        """Allow no calls for some seconds; without a number, for `PAUSE_S`."""
        until = asyncio.get_running_loop().time() + (PAUSE_S if seconds is None else seconds)
        self._paused_until = max(self._paused_until, until)
