"""Commit futures: the outcome of one unit of work, published once its transaction is on disk.

Threads wait with `result`, event loops with `await`. A commit future is smaller than
`concurrent.futures.Future`, and the futures of one transaction wake an event loop once, not once each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from threading import Lock
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class CommitFuture(Generic[T]):
    """The outcome of one unit of work.

    A timeout or a cancelled task does not undo the work: it may still be committed.
    """

    __slots__ = ("_done", "_error", "_latch", "_waiters", "_value")

    def __init__(self) -> None:
        self._latch = Lock()
        self._latch.acquire()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def done(self) -> bool:
        """Return whether the outcome is published."""
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """Block until the outcome is durable and return it.

        Raise the unit's or the commit's error, or `TimeoutError`.
        """
        if not self._done:
            if not self._latch.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError("The write is not committed yet; it may still be.")
            self._latch.release()
        return self._get_outcome()

    def __await__(self) -> Generator[None, None, T]:
        """Wait in the event loop until the outcome is durable; return it or raise its error."""
        if not self._done:
            future = asyncio.get_running_loop().create_future()
            self._waiters.append(future)
            # The work may have completed before the waiter was added, so check again.
            if not self._done:
                yield from future
        return self._get_outcome()

    def set_outcome(self, value: T | None, error: BaseException | None) -> None:
        """Set the outcome, which stays hidden until `complete_all`."""
        self._value, self._error = value, error

    def _get_outcome(self) -> T:
        """Return the value or raise the error."""
        if self._error is None:
            return cast(T, self._value)
        try:
            raise self._error
        finally:
            # The error references this frame. Break the cycle: the frame references the future, and the
            # future the error.
            del self

    def _complete(self) -> list[asyncio.Future[None]]:
        """Publish the outcome, wake waiting threads, and return the event loops' waiters to wake."""
        self._done = True
        self._latch.release()
        return self._waiters


def complete_all(futures: Iterable[CommitFuture[Any]]) -> None:
    """Publish the outcomes to all waiters, with one wake-up per event loop."""
    waiters_by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        for waiter in future._complete():
            waiters_by_loop.setdefault(waiter.get_loop(), []).append(waiter)
    for loop, waiters in waiters_by_loop.items():
        try:
            loop.call_soon_threadsafe(_wake, waiters)
        except RuntimeError:
            # The loop was closed, and its waiters are gone.
            continue


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    """Complete the waiters' asyncio futures. Runs in their event loop."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
