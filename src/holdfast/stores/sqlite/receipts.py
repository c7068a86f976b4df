"""Receipts: the outcome of one unit of work, known once its transaction is on disk.

Threads wait with `result`, event loops with `await`. A receipt is smaller than `concurrent.futures.Future`,
and the receipts of one transaction wake an event loop once, not once each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from threading import Lock
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Receipt(Generic[T]):
    """The outcome of one unit of work. A timeout or a cancelled task does not undo the work: it may still be
    committed.
    """

    __slots__ = ("_done", "_error", "_latch", "_sleepers", "_value")

    def __init__(self) -> None:
        self._latch = Lock()
        self._latch.acquire()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._sleepers: list[asyncio.Future[None]] = []

    def done(self) -> bool:
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """Block until the outcome is durable. Raise the error of the unit of work or of the commit."""
        if not self._done:
            if not self._latch.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError("the write was not yet committed; it may be later")
            self._latch.release()
        return self._outcome()

    def __await__(self) -> Generator[None, None, T]:
        if not self._done:
            future = asyncio.get_running_loop().create_future()
            self._sleepers.append(future)
            # The receipt may have completed before the sleeper was added, so check again.
            if not self._done:
                yield from future
        return self._outcome()

    def keep(self, value: T | None, error: BaseException | None) -> None:
        """Set the outcome, which stays hidden until `announce`."""
        self._value, self._error = value, error

    def _outcome(self) -> T:
        if self._error is None:
            return cast(T, self._value)
        try:
            raise self._error
        finally:
            # The error references this frame. Break the cycle: the frame references the receipt, and it the
            # error.
            del self

    def _settle(self) -> list[asyncio.Future[None]]:
        self._done = True
        self._latch.release()
        return self._sleepers


def announce(receipts: Iterable[Receipt[Any]]) -> None:
    """Publish the outcomes to all waiters, with one wake-up per event loop."""
    sleepers_of: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for receipt in receipts:
        for sleeper in receipt._settle():
            sleepers_of.setdefault(sleeper.get_loop(), []).append(sleeper)
    for loop, sleepers in sleepers_of.items():
        try:
            loop.call_soon_threadsafe(_wake, sleepers)
        except RuntimeError:
            # The loop was closed, and its waiters are gone.
            continue


def _wake(sleepers: list[asyncio.Future[None]]) -> None:
    for sleeper in sleepers:
        if not sleeper.done():
            sleeper.set_result(None)
