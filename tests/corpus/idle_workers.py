"""Wait until the workers of this event loop have nothing left to do, moving the clock while they are idle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast.core.clock import RunClock
from holdfast.runtime.workers.consumer import QueueConsumer
from holdfast.runtime.workers.scheduler import _run_once

LOOK_S: Final = 0.05
MAX_LOOKS: Final = 2_400
# After this many polls with the same work left and no busy worker, all workers wait for a later time.
QUIET_LOOKS: Final = 15
JUMP_S: Final = 20.0
# The coroutines that handle queue messages and run schedules.
WORK: Final = frozenset({QueueConsumer._process_lane.__code__, _run_once.__code__})


async def settle(clock: RunClock, left: Callable[[], Awaitable[Any]]) -> None:
    """Return when `left`, which returns the work that is left, returns nothing; fail after two minutes.

    Advance the clock whenever its result has stayed the same for a while and no worker is busy: on a slow
    machine the lease of a busy worker would expire, and another worker would repeat its work.
    """
    seen: Any = None
    quiet = 0
    for _ in range(MAX_LOOKS):
        now = await left()
        if not now:
            return
        quiet = quiet + 1 if now == seen and not _is_any_worker_busy() else 0
        seen = now
        if quiet == QUIET_LOOKS:
            clock.advance(JUMP_S)
            quiet = 0
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"This is still to do: {seen}")


def _is_any_worker_busy() -> bool:
    """Return True if a task of this loop handles a message or runs a schedule."""
    return any(getattr(task.get_coro(), "cr_code", None) in WORK for task in asyncio.all_tasks())
