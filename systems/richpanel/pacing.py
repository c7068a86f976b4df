"""How fast the help desk is called: not at all until its Retry-After is over, and within a budget that all workers share.

A 429 is nobody's failure. The process waits, with its messages in hand, and receives no more meanwhile: a message that was
given back for every 429 would be among the dead letters before the budget is free again. The budget across processes is a
rate limit on the store, for accounts whose limit is known (RP_MW_CALLS_MAX); without it, the 429s themselves set the pace.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.errors import PartyFailed, RateLimited

T = TypeVar("T")

# How often one call is tried before its message is given back.
TRIES_MAX: Final = 8
PAUSE_S: Final = 1.0
# Those who wait do not come back all at once.
SPREAD_S: Final = 0.25


class TooManyRequests(PartyFailed, label="TooManyRequests"):
    """The account's budget of calls is used up. Nothing was done."""


async def _free() -> None:
    return None


class Pacing:
    """One per process. `take` takes one call from the shared budget; `refused` is told of every 429.

    Where `waits` is off, a 429 is raised at once: for those who can come again at no cost.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[object]] = _free,
        refused: Callable[[], object] = lambda: None,
        *,
        waits: bool = True,
    ) -> None:
        self._take, self._refused, self._waits = take, refused, waits
        self._closed_until = 0.0

    async def paced(self, call: Callable[[], Awaitable[T]]) -> T:
        """Makes a call that may be repeated when it was refused for the budget alone."""
        tried = 0
        while True:
            await self._turn()
            try:
                return await call()
            except TooManyRequests as error:
                self._refused()
                self._close(error.retry_after_s)
                tried += 1
                if tried == TRIES_MAX or not self._waits:
                    raise

    async def _turn(self) -> None:
        """Waits until calls may be made, and takes one."""
        while True:
            loop = asyncio.get_running_loop()
            while self._waits and (wait_s := self._closed_until - loop.time()) > 0:
                await asyncio.sleep(wait_s + random.uniform(0, SPREAD_S))
            try:
                await self._take()
                return
            except RateLimited as full:
                self._close(full.retry_after_s)

    def _close(self, seconds: float | None) -> None:
        until = asyncio.get_running_loop().time() + (PAUSE_S if seconds is None else seconds)
        self._closed_until = max(self._closed_until, until)
