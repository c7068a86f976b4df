"""What is done again and again. A schedule never overlaps with itself in one process.

Several processes may run the same schedule at the same time: what it does must be safe under that, or take a lease
first. It is due when so much time has passed, or a run clock of the stores was moved so far; one that can be woken also
runs when it is, and one that says that there is more goes on at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from holdfast.clock import Clock, SystemClock
from holdfast.correlation import correlated
from holdfast.model.system import Schedule
from holdfast.runtime.stores import Stores

# How often a clock that others may move is looked at.
LOOK_S: Final = 0.25
# Waiting longer than this at once is not worth a timer of its own.
SLEEP_S_MAX: Final = 3600.0
# How long after it could not listen it tries to again.
LISTEN_AGAIN_S: Final = 1.0

log = logging.getLogger(__name__)


async def follow(stores: Stores, schedule: Schedule, stop: asyncio.Event, *, grace_s: float) -> None:
    """Runs it at once and then whenever it is due or woken, until the stop. One that took too long is not caught up on."""
    woken = asyncio.Event()
    listening = asyncio.create_task(_listen(stores, schedule, woken))
    try:
        while not stop.is_set():
            began = _time(stores.clock)
            woken.clear()  # what is told from here on, this run may miss
            if not await _run_until(stores, schedule, stop, grace_s):
                await _until(stores.clock, began + schedule.every_s, stop, woken)
    finally:
        listening.cancel()
        await asyncio.wait({listening})


async def _run_until(stores: Stores, schedule: Schedule, stop: asyncio.Event, grace_s: float) -> bool:
    """One run, for as long as it is allowed to; whether there is more to do at once."""
    running = asyncio.create_task(_run(stores, schedule))
    try:
        await _until_done(running, stop, grace_s)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    return not running.cancelled() and running.result()


async def _run(stores: Stores, schedule: Schedule) -> bool:
    with correlated():
        try:
            return bool(getattr(await schedule.run(stores), "more", False))
        except Exception:
            log.exception("The schedule %s failed; it goes on when it is due again.", schedule.name)
            return False


async def _until_done(running: asyncio.Task[bool], stop: asyncio.Event, grace_s: float) -> None:
    """Until it is done; after a stop only for as long as the grace."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait({running}, timeout=grace_s)
    finally:
        stopped.cancel()


async def _listen(stores: Stores, schedule: Schedule, woken: asyncio.Event) -> None:
    """Passes on what wakes it, for as long as there is something to hear; without, it runs when it is due."""
    while schedule.wakes is not None:
        try:
            async with schedule.wakes(stores) as heard:
                woken.set()  # what was told before anybody listened
                while True:
                    if await heard.wait(SLEEP_S_MAX) is not None:
                        woken.set()
        except Exception as error:
            log.warning("The schedule %s cannot be woken and only polls: %s", schedule.name, error)
        await asyncio.sleep(LISTEN_AGAIN_S)


def _time(clock: Clock) -> float:
    """Of the machine, what has passed since it started: its clock may be set back, and nothing is due the later for it."""
    return time.monotonic() if isinstance(clock, SystemClock) else clock.now()


async def _until(clock: Clock, moment: float, stop: asyncio.Event, woken: asyncio.Event) -> None:
    """Until that time, or it is woken, or the stop. The machine's clock can be slept by; another is looked at."""
    look_s = SLEEP_S_MAX if isinstance(clock, SystemClock) else LOOK_S
    events = [asyncio.create_task(each.wait()) for each in (stop, woken)]
    try:
        while (left := moment - _time(clock)) > 0:
            done, _ = await asyncio.wait(
                events, timeout=min(left, look_s), return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                return
    finally:
        for each in events:
            each.cancel()
