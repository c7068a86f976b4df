"""Schedules with a wake source, or with more work: they run when woken, when due, or at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast import Component, Schedule, System, open_memory_stores
from holdfast.core.clock import RunClock, SystemClock
from holdfast.core.errors import StoreUnreachable
from holdfast.runtime import WorkerGroup
from holdfast.runtime.workers import scheduler

FAR_S = 3600.0


@dataclass
class FakeWakeSource:
    """Wake source that returns the signals put into `rings`; None makes listening fail."""

    rings: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    listeners: int = 0

    @asynccontextmanager
    async def listen(self, _: Any) -> AsyncIterator[FakeWakeSource]:
        self.listeners += 1
        yield self

    async def wait(self, timeout_s: float) -> str | None:
        """Return the next signal, or None after the timeout; raise if the signal is None."""
        try:
            async with asyncio.timeout(timeout_s):
                rung = await self.rings.get()
        except TimeoutError:
            return None
        if rung is None:
            raise StoreUnreachable("the wire is cut")
        return rung


@dataclass
class RunResult:
    more: bool = False


Run = Callable[[Any], Awaitable[Any]]


def run_story(
    bell: FakeWakeSource, run: Run, story: Callable[[RunClock], Awaitable[None]], folder: Path
) -> None:
    """Run a schedule on a clock that only the story advances, so that nothing is due by itself."""

    async def run_all() -> None:
        clock = RunClock(folder / "clock", start=1_000.0)
        schedule = Schedule("publish", FAR_S, run, wake_source=bell.listen)
        component = Component("publisher", schedules=(schedule,))
        system = System("post", "Sends", tables=[], patterns=[], components=[component])
        async with open_memory_stores(system, clock=clock) as stores, WorkerGroup(stores, [component]):
            await story(clock)

    asyncio.run(run_all())


def test_runs_when_woken_although_not_due(tmp_path: Path) -> None:
    bell, ran = FakeWakeSource(), asyncio.Queue[None]()

    async def run(_: Any) -> None:
        ran.put_nowait(None)

    async def story(clock: RunClock) -> None:
        await ran.get()  # at once
        await ran.get()  # when it began to listen: earlier wake-ups were not heard
        for _ in range(3):
            bell.rings.put_nowait("")
            await ran.get()
        assert ran.empty()

    run_story(bell, run, story, tmp_path)


def test_wakeups_during_a_run_cause_one_more_run(tmp_path: Path) -> None:
    bell, began, goes_on = FakeWakeSource(), asyncio.Queue[None](), asyncio.Queue[None]()

    async def run(_: Any) -> None:
        began.put_nowait(None)
        await goes_on.get()

    async def story(clock: RunClock) -> None:
        for _ in range(2):
            await began.get()
            goes_on.put_nowait(None)
        bell.rings.put_nowait("")
        await began.get()
        for _ in range(50):
            bell.rings.put_nowait("")
        while not bell.rings.empty():
            await asyncio.sleep(0)
        goes_on.put_nowait(None)
        await began.get()
        goes_on.put_nowait(None)
        clock.advance(FAR_S)  # the next run is due
        await began.get()
        assert began.empty()
        goes_on.put_nowait(None)

    run_story(bell, run, story, tmp_path)


def test_runs_when_due_without_a_wakeup(tmp_path: Path) -> None:
    bell, ran = FakeWakeSource(), asyncio.Queue[float]()

    async def story(clock: RunClock) -> None:
        await ran.get()
        await ran.get()
        clock.advance(FAR_S)
        assert await ran.get() == 1_000 + FAR_S

    async def run(stores: Any) -> None:
        ran.put_nowait(stores.clock.now())

    run_story(bell, run, story, tmp_path)


def test_listens_again_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LISTEN_RETRY_S", 0.0)
    bell, ran = FakeWakeSource(), asyncio.Queue[None]()

    async def run(_: Any) -> None:
        ran.put_nowait(None)

    async def story(clock: RunClock) -> None:
        await ran.get()
        await ran.get()
        bell.rings.put_nowait(None)
        await ran.get()  # it listens again, and checks for what it missed
        assert bell.listeners == 2
        bell.rings.put_nowait("")
        await ran.get()

    run_story(bell, run, story, tmp_path)


def test_run_that_reports_more_work_is_followed_by_another_at_once(tmp_path: Path) -> None:
    left, ran = [3], asyncio.Queue[int]()

    async def run(_: Any) -> RunResult:
        left[0] -= 1
        ran.put_nowait(left[0])
        return RunResult(more=left[0] > 0)

    async def together() -> None:
        component = Component("publisher", schedules=(Schedule("publish", FAR_S, run),))
        system = System("post", "Sends", tables=[], patterns=[], components=[component])
        clock = RunClock(tmp_path / "clock", start=1_000.0)
        async with open_memory_stores(system, clock=clock) as stores, WorkerGroup(stores, [component]):
            assert [await ran.get() for _ in range(3)] == [2, 1, 0]

    asyncio.run(together())
    assert ran.empty()


async def test_continues_while_the_machines_clock_is_set_back() -> None:
    ran, back_s = asyncio.Queue[None](), [0.0]

    class SetBack(SystemClock):
        def now(self) -> float:
            return super().now() - back_s[0]

    async def run(_: Any) -> None:
        back_s[0] += FAR_S
        ran.put_nowait(None)

    component = Component("publisher", schedules=(Schedule("publish", 0.01, run),))
    system = System("post", "Sends", tables=[], patterns=[], components=[component])
    async with open_memory_stores(system, clock=SetBack()) as stores, WorkerGroup(stores, [component]):
        for _ in range(3):
            await ran.get()
