"""The waiting receives of this process: a receive registers, looks, and sleeps until it is woken or its time
is over.

A waiter sleeps in its event loop or, for `run_blocking`, in its thread; no waiter has a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Waiter:
    """One waiting receive. If it is rung between a look and the sleep that follows, it does not sleep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_rung = False
        self._wake: Callable[[], object] | None = None

    def forget(self) -> None:
        """Clear earlier rings. Call it before a look, which covers them."""
        self._is_rung = False

    def ring(self) -> None:
        with self._lock:
            self._is_rung = True
            wake = self._wake
        if wake is not None:
            wake()

    def block(self, seconds: float) -> None:
        rung = threading.Event()
        if self._armed(rung.set):
            rung.wait(seconds)
            self._wake = None

    async def sleep(self, seconds: float) -> None:
        loop, rung = asyncio.get_running_loop(), asyncio.Event()
        if not self._armed(lambda: _call(loop, rung.set)):
            return
        try:
            async with asyncio.timeout(seconds):
                await rung.wait()
        except TimeoutError:
            pass
        finally:
            self._wake = None

    def _armed(self, wake: Callable[[], object]) -> bool:
        with self._lock:
            self._wake = wake
            return not self._is_rung


class Waiters:
    """All waiters of an engine, by the name of the queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, set[Waiter]] = {}

    @contextmanager
    def waiting(self, queue: str) -> Iterator[Waiter]:
        waiter = Waiter()
        with self._lock:
            self._of.setdefault(queue, set()).add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._of[queue].discard(waiter)
                if not self._of[queue]:
                    del self._of[queue]

    def ring(self, queue: str) -> None:
        with self._lock:
            waiters = tuple(self._of.get(queue, ()))
        for waiter in waiters:
            waiter.ring()

    def ring_all(self) -> None:
        with self._lock:
            queues = tuple(self._of)
        for queue in queues:
            self.ring(queue)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop was closed: its waiter no longer exists.
        return
