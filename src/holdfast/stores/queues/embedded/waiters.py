"""The waiting receives of this process: each registers, looks for messages, and sleeps until it is woken.

A waiter sleeps in its event loop or, for `run_blocking`, in its thread; no waiter has a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Waiter:
    """One waiting receive. If it is woken between a look and the sleep that follows, it does not sleep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_woken = False
        self._on_wake: Callable[[], object] | None = None

    def clear(self) -> None:
        """Clear earlier wake-ups. Call it before a look, which covers them."""
        self._is_woken = False

    def wake(self) -> None:
        """Wake the waiter, from any thread."""
        with self._lock:
            self._is_woken = True
            on_wake = self._on_wake
        if on_wake is not None:
            on_wake()

    def block(self, seconds: float) -> None:
        """Sleep in this thread until woken, at most this many seconds."""
        woken = threading.Event()
        if self._arm(woken.set):
            woken.wait(seconds)
            self._on_wake = None

    async def sleep(self, seconds: float) -> None:
        """Sleep in this event loop until woken, at most this many seconds."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        if not self._arm(lambda: _call_in_loop(loop, woken.set)):
            return
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            pass
        finally:
            self._on_wake = None

    def _arm(self, on_wake: Callable[[], object]) -> bool:
        """Set the wake-up callback. Return False if the waiter was already woken and must not sleep."""
        with self._lock:
            self._on_wake = on_wake
            return not self._is_woken


class Waiters:
    """All waiters of an engine, by the name of the queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_queue: dict[str, set[Waiter]] = {}

    @contextmanager
    def register(self, queue: str) -> Iterator[Waiter]:
        """Return a context whose waiter is woken by changes to this queue."""
        waiter = Waiter()
        with self._lock:
            self._by_queue.setdefault(queue, set()).add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._by_queue[queue].discard(waiter)
                if not self._by_queue[queue]:
                    del self._by_queue[queue]

    def wake(self, queue: str) -> None:
        """Wake every waiter of this queue."""
        with self._lock:
            waiters = tuple(self._by_queue.get(queue, ()))
        for waiter in waiters:
            waiter.wake()

    def wake_all(self) -> None:
        """Wake every waiter of every queue."""
        with self._lock:
            queues = tuple(self._by_queue)
        for queue in queues:
            self.wake(queue)


def _call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call back in the loop, from any thread; do nothing if the loop is closed."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop was closed: its waiter no longer exists.
        return
