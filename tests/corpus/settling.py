"""Wait until workers have nothing left to do, with a clock that moves only while they all wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast.clock import RunClock

LOOK_S: Final = 0.05
LOOKS_MAX: Final = 600
# After so many looks at the same work everybody waits for a time to come.
QUIET_LOOKS: Final = 15
JUMP_S: Final = 20.0


async def settle(clock: RunClock, left: Callable[[], Awaitable[Any]]) -> None:
    """Return when `left` returns nothing. Move the clock on whenever what it returns has stayed the same for a while."""
    seen: Any = None
    quiet = 0
    for _ in range(LOOKS_MAX):
        now = await left()
        if not now:
            return
        quiet = quiet + 1 if now == seen else 0
        seen = now
        if quiet == QUIET_LOOKS:
            clock.advance(JUMP_S)
            quiet = 0
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"This is still to do: {seen}")
