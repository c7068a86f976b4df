"""Run coroutines concurrently, or once for many callers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

R = TypeVar("R")


async def gather_or_cancel(coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run coroutines concurrently and return their results; the first failure cancels the others and is
    raised unchanged.

    Not a TaskGroup: it would raise an exception group, and in Python 3.11 it leaves the caller's task half
    cancelled.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class SharedCall(Generic[R]):
    """A call that all callers share: at most one runs, and its outcome is kept for `max_age_s` seconds.

    No caller waits longer than `timeout_s` after the call began. A call that takes longer is not cancelled,
    because it may hold a thread that cannot be: until it ends, callers get `TimeoutError` at once, and
    nothing is started again. So a hundred callers of a service that hangs cost one request to it.
    """

    def __init__(self, call: Callable[[], Awaitable[R]], *, timeout_s: float, max_age_s: float) -> None:
        self._call, self._timeout_s, self._max_age_s = call, timeout_s, max_age_s
        self._task: asyncio.Task[R] | None = None
        self._started_at = self._ended_at = 0.0

    async def get(self) -> R:
        """Return the result, or raise the error, of the last call if it is recent, else of a new one.

        Raise `TimeoutError` if the call does not end in time.
        """
        now = asyncio.get_running_loop().time()
        task = self._task
        is_old = task is not None and task.done() and now >= self._ended_at + self._max_age_s
        if task is None or is_old or task.cancelled():
            task = self._task = asyncio.ensure_future(self._run())
            task.add_done_callback(_ignore_outcome)
            self._started_at = now
        if not task.done():
            await asyncio.wait([task], timeout=max(0.0, self._started_at + self._timeout_s - now))
        if not task.done():
            raise TimeoutError
        return task.result()

    async def _run(self) -> R:
        try:
            return await self._call()
        finally:
            self._ended_at = asyncio.get_running_loop().time()


def _ignore_outcome(task: asyncio.Task[Any]) -> None:
    """Read the error of a call whose callers have given up: asyncio would log it as unread."""
    if not task.cancelled():
        task.exception()
