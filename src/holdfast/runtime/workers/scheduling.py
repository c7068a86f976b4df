"""What is done again and again. A schedule never overlaps with itself in one process.

Several processes may run the same schedule at the same time: what it does must be safe under that, or take a lease
first. It is due when the stores' clock says so, so that a run clock moves it too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.clock import Clock, SystemClock
from holdfast.correlation import correlated
from holdfast.model.system import Schedule
from holdfast.runtime.stores import Stores

# How often a clock that others may move is looked at.
LOOK_S: Final = 0.25
# Waiting longer than this at once is not worth a timer of its own.
SLEEP_S_MAX: Final = 3600.0

log = logging.getLogger(__name__)


async def follow(stores: Stores, schedule: Schedule, stop: asyncio.Event, *, grace_s: float) -> None:
    """Runs it at once and then whenever it is due, until the stop. One that took too long is not caught up on."""
    while not stop.is_set():
        began = stores.clock.now()
        running = asyncio.create_task(_run(stores, schedule))
        try:
            await _until_done(running, stop, grace_s)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        await _until(stores.clock, began + schedule.every_s, stop)


async def _run(stores: Stores, schedule: Schedule) -> None:
    with correlated():
        try:
            await schedule.run(stores)
        except Exception:
            log.exception("The schedule %s failed; it goes on when it is due again.", schedule.name)


async def _until_done(running: asyncio.Task[None], stop: asyncio.Event, grace_s: float) -> None:
    """Until it is done; after a stop only for as long as the grace."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait({running}, timeout=grace_s)
    finally:
        stopped.cancel()


async def _until(clock: Clock, moment: float, stop: asyncio.Event) -> None:
    """Until the clock says so, or the stop. The machine's clock can be slept by; another is looked at."""
    look_s = SLEEP_S_MAX if isinstance(clock, SystemClock) else LOOK_S
    while not stop.is_set() and (left := moment - clock.now()) > 0:
        try:
            await asyncio.wait_for(stop.wait(), min(left, look_s))
        except TimeoutError:
            continue
