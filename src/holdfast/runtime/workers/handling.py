"""One message in hand: kept from others while it waits and is handled, and then deleted or given back."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from holdfast.correlation import correlated
from holdfast.errors import HoldfastError, MessageUnreadable, ReceiptLost, RetryLater, error_label
from holdfast.model.queues import Received
from holdfast.model.system import Consumer, Handler
from holdfast.runtime.stores import Stores
from holdfast.runtime.workers.pauses import PAUSE_S_LIMIT, jittered

DELETE_TRIES_MAX: Final = 5
DELETE_PAUSE_S: Final = 0.1
DELETE_PAUSE_S_MAX: Final = 2.0

log = logging.getLogger(__name__)


class InHand:
    """A message that was received. From now on it is held, again at half its visibility time, until it is let go."""

    def __init__(
        self, stores: Stores, consumer: Consumer, received: Received[Any], *, visibility_s: float
    ) -> None:
        self.received = received
        self._stores, self._consumer, self._visibility_s = stores, consumer, visibility_s
        self._running: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()
        self._keeping = asyncio.create_task(self._keep())

    async def handle(self, handler: Handler) -> bool:
        """Whether the message is done with. If not, it was given back, or is another receiver's."""
        with correlated(self.received.correlation):
            try:
                await self._handled(handler)
            except asyncio.CancelledError:
                # The worker ends: whoever comes next shall not have to wait for the visibility time.
                await self.give_back()
                raise
            except ReceiptLost:
                log.warning("%s was lost to another receiver, and is left to it.", self)
                self._let_go()
                return False
            except Exception as error:
                await self.give_back(self._pause_after(error))
                return False
            self._let_go()
            await self._delete()
            return True

    async def give_back(self, pause_s: float | None = None) -> None:
        """Others see it again after the pause. Where that cannot be told, after its visibility time.

        Without a pause it was broken off, or never tried.
        """
        self._let_go()
        if self._lost.is_set():
            return
        if pause_s is None and self._was_last():
            log.warning(
                "%s is given back undone on its last receive, and goes to the dead letters: redrive it.", self
            )
        try:
            await self._stores.run(self._consumer.hold(self.received, min(pause_s or 0.0, PAUSE_S_LIMIT)))
        except ReceiptLost:
            return
        except HoldfastError as error:
            log.warning("%s could not be given back: %s", self, error)

    def _let_go(self) -> None:
        self._keeping.cancel()

    async def _handled(self, handler: Handler) -> None:
        """Runs the handler. A receipt that is lost meanwhile cancels it."""
        if self._lost.is_set():
            raise ReceiptLost("The receipt was lost before the message was handled.")
        running = self._running = asyncio.ensure_future(handler(self.received))
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            raise
        if running.cancelled():
            raise ReceiptLost("The receipt was lost.") if self._lost.is_set() else HandlerCancelled
        running.result()

    async def _keep(self) -> None:
        pause_s = self._visibility_s / 2
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._stores.run(self._consumer.hold(self.received, self._visibility_s))
                pause_s = self._visibility_s / 2
            except ReceiptLost:
                self._lost.set()
                if self._running is not None:
                    self._running.cancel()
                return
            except HoldfastError as error:
                pause_s = self._visibility_s / 8
                log.warning("%s could not be held, and is tried again: %s", self, error)

    def _pause_after(self, error: Exception) -> float:
        """Says what went wrong, and how long the message shall rest."""
        consumer, tries = self._consumer, self.received.receives
        pause_s = jittered(tries, consumer.pause_s, consumer.pause_s_max)
        if isinstance(error, RetryLater) and error.retry_after_s is not None:
            pause_s = max(0.0, error.retry_after_s)
        if self._was_last():
            log.error(
                "%s failed on receive %d of %d, and goes to the dead letters: %s: %s",
                *(self, tries, consumer.queue.receives_max, error_label(error), error),
                exc_info=None if isinstance(error, RetryLater | MessageUnreadable) else error,
            )
        elif isinstance(error, RetryLater):
            log.info("%s comes again in %.1f s: %s", self, pause_s, error)
        elif isinstance(error, MessageUnreadable):
            log.error("%s could not be read on receive %d: %s", self, tries, error)
        else:
            log.error("%s failed on receive %d, and rests for %.1f s.", self, tries, pause_s, exc_info=error)
        return pause_s

    def _was_last(self) -> bool:
        most = self._consumer.queue.receives_max
        return most is not None and self.received.receives >= most

    async def _delete(self) -> None:
        """A message that is done and cannot be deleted comes again: its effect must bear to be asked for twice."""
        for tried in range(1, DELETE_TRIES_MAX + 1):
            try:
                await self._stores.run(self._consumer.delete(self.received))
                return
            except ReceiptLost:
                log.warning("%s was done after its receipt was lost.", self)
                return
            except RetryLater as error:
                log.warning("%s is done and not yet deleted: %s", self, error)
                await asyncio.sleep(jittered(tried, DELETE_PAUSE_S, DELETE_PAUSE_S_MAX))
        log.error("%s is done and could not be deleted: it comes again.", self)

    def __str__(self) -> str:
        return f"The message {self.received.id} of {self.received.queue}"


class HandlerCancelled(Exception):
    """The handler ended by a cancellation that was not ours."""
