"""`run_schedule`: runs a recurring task when it is due or woken, never twice at the same time in a process.

Several processes may run the same schedule at the same time: it must tolerate that, or acquire a lease first.
It is due after its interval, on the machine's clock or the stores' run clock. A schedule with a wake source
also runs when it is signalled, and one that reports more work runs again at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.core.clock import Clock, SystemClock, read_elapsed
from holdfast.core.correlation import bind_correlation_id
from holdfast.model.components import Schedule
from holdfast.runtime.stores import Stores

# Poll interval of a clock that others may move.
CLOCK_POLL_S: Final = 0.25
# The longest single wait.
MAX_SLEEP_S: Final = 3600.0
# Delay before listening again after a failure.
LISTEN_RETRY_S: Final = 1.0

log = logging.getLogger(__name__)


async def run_schedule(stores: Stores, schedule: Schedule, stop: asyncio.Event, *, grace_s: float) -> None:
    """Run the schedule at once, then whenever it is due or woken, until the stop.

    Missed runs are not made up for. A run that is still going after the stop gets `grace_s` seconds, then it
    is cancelled.
    """
    woken = asyncio.Event()
    listening = asyncio.create_task(_forward_wakeups(stores, schedule, woken))
    try:
        while not stop.is_set():
            began = read_elapsed(stores.clock)
            woken.clear()  # this run may miss signals from here on
            if not await _run_with_grace(stores, schedule, stop, grace_s):
                await _wait_until(stores.clock, began + schedule.every_s, stop, woken)
    finally:
        listening.cancel()
        await asyncio.wait({listening})


async def _run_with_grace(stores: Stores, schedule: Schedule, stop: asyncio.Event, grace_s: float) -> bool:
    """Run once, with a grace period after the stop; return True if there is more work at once."""
    running = asyncio.create_task(_run_once(stores, schedule))
    try:
        await _wait_until_done(running, stop, grace_s)
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    return not running.cancelled() and running.result()


async def _run_once(stores: Stores, schedule: Schedule) -> bool:
    """Run the task and return True if it reports more work; log an error and return False."""
    with bind_correlation_id():
        try:
            return bool(getattr(await schedule.run(stores), "more", False))
        except Exception:
            log.exception("The schedule %s failed; it runs again when it is due.", schedule.name)
            return False


async def _wait_until_done(running: asyncio.Task[bool], stop: asyncio.Event, grace_s: float) -> None:
    """Wait until the run is done; after the stop only for the grace period."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait({running}, timeout=grace_s)
    finally:
        stopped.cancel()


async def _forward_wakeups(stores: Stores, schedule: Schedule, woken: asyncio.Event) -> None:
    """Forward the signals of the wake source. While it fails, the schedule only runs when due."""
    while schedule.wake_source is not None:
        try:
            async with schedule.wake_source(stores) as source:
                woken.set()  # covers signals from before the listening began
                while True:
                    if await source.wait(MAX_SLEEP_S) is not None:
                        woken.set()
        except Exception as error:
            log.warning(
                "The wake source of the schedule %s failed, so it only polls: %s", schedule.name, error
            )
        await asyncio.sleep(LISTEN_RETRY_S)


async def _wait_until(clock: Clock, moment: float, stop: asyncio.Event, woken: asyncio.Event) -> None:
    """Wait until a time, a wake-up or the stop.

    The machine's clock allows sleeping; a run clock is polled.
    """
    look_s = MAX_SLEEP_S if isinstance(clock, SystemClock) else CLOCK_POLL_S
    events = [asyncio.create_task(each.wait()) for each in (stop, woken)]
    try:
        while (left := moment - read_elapsed(clock)) > 0:
            done, _ = await asyncio.wait(
                events, timeout=min(left, look_s), return_when=asyncio.FIRST_COMPLETED
            )
            if done:
                return
    finally:
        for each in events:
            each.cancel()
