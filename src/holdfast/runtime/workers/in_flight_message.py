"""`InFlightMessage`: a received message, kept hidden while it is handled, then deleted or released."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import HoldfastError, MessageUnreadable, ReceiptLost, RetryLater, error_label
from holdfast.model.components import Consumer, Handler
from holdfast.model.queues import ReceivedMessage
from holdfast.runtime.stores import Stores
from holdfast.runtime.workers.backoff import DELAY_S_LIMIT, compute_backoff

MAX_DELETE_ATTEMPTS: Final = 5
DELETE_PAUSE_S: Final = 0.1
MAX_DELETE_PAUSE_S: Final = 2.0

log = logging.getLogger(__name__)


class InFlightMessage:
    """A received message.

    Its visibility timeout is extended at half time, until it is deleted or released.
    """

    def __init__(self, stores: Stores, consumer: Consumer, received: ReceivedMessage[Any]) -> None:
        self.received = received
        self._stores, self._consumer = stores, consumer
        self._visibility_s = float(consumer.queue.visibility_s)
        self._running: asyncio.Future[None] | None = None
        self._lost = asyncio.Event()
        self._extending = asyncio.create_task(self._extend_visibility())

    async def handle(self, handler: Handler) -> bool:
        """Run the handler and delete the message; return True then.

        If the handler fails, release the message for a retry and return False; also if another consumer has
        it.
        """
        with bind_correlation_id(self.received.correlation_id):
            try:
                await self._run_handler(handler)
            except asyncio.CancelledError:
                # The worker is stopping: the next consumer should not wait for the visibility timeout.
                await self.release()
                raise
            except ReceiptLost:
                log.warning("%s was lost to another consumer, which will handle it.", self)
                self._stop_extending()
                return False
            except Exception as error:
                await self.release(self._choose_delay(error))
                return False
            self._stop_extending()
            await self._delete()
            return True

    async def release(self, delay_s: float | None = None) -> None:
        """Make the message visible again after a delay; None if it was interrupted, or never handled.

        If that fails, it becomes visible after its visibility timeout.
        """
        self._stop_extending()
        if self._lost.is_set():
            return
        if delay_s is None and self._is_last_receive():
            log.warning(
                "%s is released unhandled on its last receive and moves to the dead-letter queue: redrive "
                "it.",
                self,
            )
        try:
            await self._stores.run(
                self._consumer.patterns.change_visibility(self.received, min(delay_s or 0.0, DELAY_S_LIMIT))
            )
        except ReceiptLost:
            return
        except HoldfastError as error:
            log.warning("Releasing failed. %s: %s", self, error)

    def _stop_extending(self) -> None:
        """Stop extending the visibility timeout."""
        self._extending.cancel()

    async def _run_handler(self, handler: Handler) -> None:
        """Run the handler. Losing the receipt cancels it and raises `ReceiptLost`."""
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

    async def _extend_visibility(self) -> None:
        """Extend the visibility timeout at half time, for ever; if the receipt is lost, cancel the
        handler.
        """
        pause_s = self._visibility_s / 2
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._stores.run(
                    self._consumer.patterns.change_visibility(self.received, self._visibility_s)
                )
                pause_s = self._visibility_s / 2
            except ReceiptLost:
                self._lost.set()
                if self._running is not None:
                    self._running.cancel()
                return
            except HoldfastError as error:
                pause_s = self._visibility_s / 8
                log.warning("Extending the visibility failed and is retried. %s: %s", self, error)

    def _choose_delay(self, error: Exception) -> float:
        """Log the error and return the delay before the next receive."""
        consumer, tries = self._consumer, self.received.receive_count
        pause_s = compute_backoff(tries, consumer.retry_delay_s, consumer.max_retry_delay_s)
        if isinstance(error, RetryLater) and error.retry_after_s is not None:
            pause_s = max(0.0, error.retry_after_s)
        if self._is_last_receive():
            log.error(
                "%s failed on receive %d of %d and moves to the dead-letter queue: %s: %s",
                *(self, tries, consumer.queue.max_receives, error_label(error), error),
                exc_info=None if isinstance(error, RetryLater | MessageUnreadable) else error,
            )
        elif isinstance(error, RetryLater):
            log.info("%s will be retried in %.1f s: %s", self, pause_s, error)
        elif isinstance(error, MessageUnreadable):
            log.error("%s is unreadable on receive %d: %s", self, tries, error)
        else:
            log.error("%s failed on receive %d; retry in %.1f s.", self, tries, pause_s, exc_info=error)
        return pause_s

    def _is_last_receive(self) -> bool:
        """Return True if the message moves to the dead-letter queue unless it is deleted now."""
        most = self._consumer.queue.max_receives
        return most is not None and self.received.receive_count >= most

    async def _delete(self) -> None:
        """Delete the handled message. If that fails, it is received again, so handlers must be idempotent."""
        for tried in range(1, MAX_DELETE_ATTEMPTS + 1):
            try:
                await self._stores.run(self._consumer.patterns.delete(self.received))
                return
            except ReceiptLost:
                log.warning("%s was handled after its receipt was lost.", self)
                return
            except RetryLater as error:
                log.warning("%s is handled but not yet deleted: %s", self, error)
                await asyncio.sleep(compute_backoff(tried, DELETE_PAUSE_S, MAX_DELETE_PAUSE_S))
        log.error("%s is handled, but deleting it failed: it will be received again.", self)

    def __str__(self) -> str:
        return f"The message {self.received.id} of {self.received.queue}"


class HandlerCancelled(Exception):
    """The handler was cancelled by something other than the worker."""
