"""`QueueConsumer`: receives from one queue, handles messages concurrently, those of one group in order.

A receive returns up to ten messages. Each takes one of the consumer's `concurrency` slots; messages of one
group form a lane and are handled in order. If a message of a lane fails, those behind it are released
unhandled, to keep the order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from holdfast.core.errors import DeclarationError, HoldfastError, RetryLater, StoreClosed
from holdfast.model.components import Consumer, Handler
from holdfast.model.queues import MAX_BATCH, ReceivedMessage
from holdfast.runtime.stores import Stores
from holdfast.runtime.workers.backoff import compute_backoff
from holdfast.runtime.workers.in_flight_message import InFlightMessage

RECEIVE_PAUSE_S: Final = 0.1
MAX_RECEIVE_PAUSE_S: Final = 10.0

log = logging.getLogger(__name__)


class QueueConsumer:
    """A running consumer, from opening its handler until the stop."""

    def __init__(
        self,
        stores: Stores,
        consumer: Consumer,
        stop: asyncio.Event,
        *,
        grace_s: float,
        wait_s: float,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_ready = on_ready
        self._stores, self._consumer, self._stop = stores, consumer, stop
        self._grace_s, self._wait_s = grace_s, wait_s
        self._free_slots = consumer.concurrency
        self._slot_freed = asyncio.Event()
        self._slot_freed.set()
        self._lanes: set[asyncio.Task[None]] = set()
        # Some engines return several messages of a group at once. A failing one would send those behind it to
        # the dead-letter queue unhandled, because each receive counts for all. From then on they are received
        # one by one.
        self._one_by_one = False

    async def run(self) -> None:
        """Receive and handle messages until the stop, then wait for the grace period and cancel the rest."""
        async with AsyncExitStack() as stack:
            handler = await self._open_handler(stack)
            self._on_ready()
            try:
                await self._receive_all(handler)
                await self._finish()
            finally:
                await self._cancel_lanes()

    async def _open_handler(self, stack: AsyncExitStack) -> Handler:
        """Open the consumer's handler; raise `DeclarationError` that names the queue if that fails."""
        try:
            return await stack.enter_async_context(self._consumer.open_handler(self._stores))
        except HoldfastError:
            raise
        except Exception as error:
            refusal = DeclarationError(
                f"Opening the handler of the queue {self._consumer.name} failed: {type(error).__name__}: "
                f"{error}"
            )
            refusal.add_note("Fix the cause named above; `holdfast --debug` shows the traceback.")
            raise refusal from error

    async def _receive_all(self, handler: Handler) -> None:
        """Receive and dispatch messages until the stop; retry a failing store with growing pauses."""
        failures = 0
        while await self._wait_for_slot():
            count = 1 if self._one_by_one else min(MAX_BATCH, self._free_slots)
            try:
                received = await self._stores.run(self._consumer.patterns.receive(count, self._wait_s))
                failures = 0
            except StoreClosed:
                raise
            except RetryLater as error:
                failures += 1
                await self._wait_before_retry(failures, error)
                continue
            self._dispatch(handler, received)

    async def _wait_for_slot(self) -> bool:
        """Wait for a free slot; return False after the stop."""
        if self._free_slots > 0 or self._stop.is_set():
            return not self._stop.is_set()
        stopped = asyncio.create_task(self._stop.wait())
        freed = asyncio.create_task(self._slot_freed.wait())
        try:
            await asyncio.wait({stopped, freed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            freed.cancel()
        return not self._stop.is_set()

    async def _wait_before_retry(self, failures: int, error: HoldfastError) -> None:
        """Log the failed receive and pause, at most until the stop. `failures` is the number in a row."""
        pause_s = compute_backoff(failures, RECEIVE_PAUSE_S, MAX_RECEIVE_PAUSE_S)
        log.warning("Receiving from %s failed, retry in %.1f s: %s", self._consumer.name, pause_s, error)
        try:
            await asyncio.wait_for(self._stop.wait(), pause_s)
        except TimeoutError:
            pass

    def _dispatch(self, handler: Handler, received: Sequence[ReceivedMessage[Any]]) -> None:
        """Start a task per lane of messages: those of one group, or one without a group."""
        lanes: dict[str, list[InFlightMessage]] = {}
        for each in received:
            lane_id = each.id if each.group is None else f"group {each.group}"
            lanes.setdefault(lane_id, []).append(self._wrap(each))
        self._one_by_one = self._one_by_one or any(len(lane) > 1 for lane in lanes.values())
        for lane in lanes.values():
            self._take_slots(len(lane))
            task = asyncio.create_task(self._process_lane(handler, lane))
            self._lanes.add(task)
            task.add_done_callback(self._on_lane_done)

    def _wrap(self, received: ReceivedMessage[Any]) -> InFlightMessage:
        """Return the message in flight: its visibility is extended from now on."""
        return InFlightMessage(self._stores, self._consumer, received)

    async def _process_lane(self, handler: Handler, lane: list[InFlightMessage]) -> None:
        """Handle a lane in order. After a failure, or a stop, release the rest."""
        is_done, taken = True, len(lane)
        try:
            while lane and is_done and not self._stop.is_set():
                is_done = await lane.pop(0).handle(handler)
        finally:
            for each in lane:
                await each.release()
            self._take_slots(-taken)

    def _on_lane_done(self, lane: asyncio.Task[None]) -> None:
        """Forget the lane, and log an error that it raised."""
        self._lanes.discard(lane)
        if not lane.cancelled() and (error := lane.exception()) is not None:
            log.error(
                "A message of %s was neither deleted nor released.", self._consumer.name, exc_info=error
            )

    async def _finish(self) -> None:
        """Wait for running handlers, at most for the grace period."""
        if self._lanes:
            await asyncio.wait(self._lanes, timeout=self._grace_s)

    async def _cancel_lanes(self) -> None:
        """Cancel the running lanes and wait for them."""
        for lane in self._lanes:
            lane.cancel()
        if self._lanes:
            await asyncio.wait(self._lanes)

    def _take_slots(self, count: int) -> None:
        """Take this number of slots; a negative one frees them."""
        self._free_slots -= count
        if self._free_slots > 0:
            self._slot_freed.set()
        else:
            self._slot_freed.clear()
