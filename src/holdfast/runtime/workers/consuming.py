"""One queue worked off: several messages at the same time, those of one group one after the other.

A receive gives up to ten messages. Each takes a place of the consumer's `at_once`; those of one group stand in a lane
and are handled in order. If one of a lane is not done, those behind it are given back untried: order asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from holdfast.errors import DeclarationError, HoldfastError, RetryLater, StoreClosed
from holdfast.model.queues import BATCH_MAX, Received
from holdfast.model.system import Consumer, Handler
from holdfast.runtime.stores import Stores
from holdfast.runtime.workers.handling import InHand
from holdfast.runtime.workers.pauses import jittered

RECEIVE_PAUSE_S: Final = 0.1
RECEIVE_PAUSE_S_MAX: Final = 10.0

log = logging.getLogger(__name__)


class Consuming:
    """A consumer at work, from entering its `handling` until the stop."""

    def __init__(
        self,
        stores: Stores,
        consumer: Consumer,
        stop: asyncio.Event,
        *,
        grace_s: float,
        wait_s: float,
        on_handler: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_handler = on_handler
        self._stores, self._consumer, self._stop = stores, consumer, stop
        self._grace_s, self._wait_s = grace_s, wait_s
        self._visibility_s = _visibility_s(consumer)
        self._free = consumer.at_once
        self._has_free = asyncio.Event()
        self._has_free.set()
        self._lanes: set[asyncio.Task[None]] = set()
        # Some engines give several messages of a group at once. One that fails would draw those behind it to the
        # dead letters untried, since each receive counts for all: from then on they are taken one by one.
        self._one_by_one = False

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            handler = await self._handler(stack)
            self._on_handler()
            try:
                await self._receive_all(handler)
                await self._finish()
            finally:
                await self._break_off()

    async def _handler(self, stack: AsyncExitStack) -> Handler:
        try:
            return await stack.enter_async_context(self._consumer.handling(self._stores))
        except HoldfastError:
            raise
        except Exception as error:
            refusal = DeclarationError(
                f"{self._consumer.name} cannot be worked off, because its handling did not begin: "
                f"{type(error).__name__}: {error}"
            )
            refusal.add_note("Set or mend what it asks for; with `holdfast --debug` the traceback is shown.")
            raise refusal from error

    async def _receive_all(self, handler: Handler) -> None:
        failures = 0
        while await self._has_place():
            count = 1 if self._one_by_one else min(BATCH_MAX, self._free)
            try:
                received = await self._stores.run(self._consumer.receive(count, self._wait_s))
                failures = 0
            except StoreClosed:
                raise
            except RetryLater as error:
                failures += 1
                await self._rest(failures, error)
                continue
            self._dispatch(handler, received)

    async def _has_place(self) -> bool:
        """Waits for a place; False after the stop."""
        if self._free > 0 or self._stop.is_set():
            return not self._stop.is_set()
        stopped = asyncio.create_task(self._stop.wait())
        freed = asyncio.create_task(self._has_free.wait())
        try:
            await asyncio.wait({stopped, freed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            freed.cancel()
        return not self._stop.is_set()

    async def _rest(self, failures: int, error: HoldfastError) -> None:
        pause_s = jittered(failures, RECEIVE_PAUSE_S, RECEIVE_PAUSE_S_MAX)
        log.warning("%s cannot be received from, next try in %.1f s: %s", self._consumer.name, pause_s, error)
        try:
            await asyncio.wait_for(self._stop.wait(), pause_s)
        except TimeoutError:
            pass

    def _dispatch(self, handler: Handler, received: Sequence[Received[Any]]) -> None:
        lanes: dict[str, list[InHand]] = {}
        for each in received:
            place = each.id if each.group is None else f"group {each.group}"
            lanes.setdefault(place, []).append(self._in_hand(each))
        self._one_by_one = self._one_by_one or any(len(lane) > 1 for lane in lanes.values())
        for lane in lanes.values():
            self._take_places(len(lane))
            task = asyncio.create_task(self._work_off(handler, lane))
            self._lanes.add(task)
            task.add_done_callback(self._lane_ended)

    def _in_hand(self, received: Received[Any]) -> InHand:
        return InHand(self._stores, self._consumer, received, visibility_s=self._visibility_s)

    async def _work_off(self, handler: Handler, lane: list[InHand]) -> None:
        """In order. After one that is not done, or a stop, the rest is given back."""
        goes_on, taken = True, len(lane)
        try:
            while lane and goes_on and not self._stop.is_set():
                goes_on = await lane.pop(0).handle(handler)
        finally:
            for each in lane:
                await each.give_back()
            self._take_places(-taken)

    def _lane_ended(self, lane: asyncio.Task[None]) -> None:
        self._lanes.discard(lane)
        if not lane.cancelled() and (error := lane.exception()) is not None:
            log.error("A message of %s was left as it was.", self._consumer.name, exc_info=error)

    async def _finish(self) -> None:
        """What is in work may go on for as long as the grace."""
        if self._lanes:
            await asyncio.wait(self._lanes, timeout=self._grace_s)

    async def _break_off(self) -> None:
        for lane in self._lanes:
            lane.cancel()
        if self._lanes:
            await asyncio.wait(self._lanes)

    def _take_places(self, count: int) -> None:
        self._free -= count
        if self._free > 0:
            self._has_free.set()
        else:
            self._has_free.clear()


def _visibility_s(consumer: Consumer) -> float:
    """What the consumer's receives ask for, or else its queue's."""
    asked = getattr(consumer.receive(1, 0.0), "visibility_s", None)
    return float(asked or consumer.queue.visibility_s)
