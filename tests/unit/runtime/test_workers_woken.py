"""Schedules that are woken: they run when told to and when due, whatever becomes of who tells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast import Component, Schedule, System, WorkerGroup, open_memory_stores
from holdfast.core.clock import RunClock, SystemClock
from holdfast.core.errors import StoreUnreachable
from holdfast.runtime.workers import scheduler

FAR_S = 3600.0


@dataclass
class Bell:
    """Something that wakes. `rings` are None where listening fails."""

    rings: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    listeners: int = 0

    @asynccontextmanager
    async def heard(self, _: Any) -> AsyncIterator[Bell]:
        self.listeners += 1
        yield self

    async def wait(self, timeout_s: float) -> str | None:
        try:
            async with asyncio.timeout(timeout_s):
                rung = await self.rings.get()
        except TimeoutError:
            return None
        if rung is None:
            raise StoreUnreachable("the wire is cut")
        return rung


@dataclass
class Done:
    more: bool = False


Run = Callable[[Any], Awaitable[Any]]


def played(bell: Bell, run: Run, story: Callable[[RunClock], Awaitable[None]], folder: Path) -> None:
    """On a clock that nobody moves but the story: nothing is due by itself."""

    async def together() -> None:
        clock = RunClock(folder / "clock", start=1_000.0)
        schedule = Schedule("publish", FAR_S, run, wake_source=bell.heard)
        component = Component("publisher", schedules=(schedule,))
        system = System("post", "Sends", tables=[], patterns=[], components=[component])
        async with open_memory_stores(system, clock=clock) as stores, WorkerGroup(stores, [component]):
            await story(clock)

    asyncio.run(together())


def test_it_runs_when_it_is_woken_though_it_is_not_due(tmp_path: Path) -> None:
    bell, ran = Bell(), asyncio.Queue[None]()

    async def run(_: Any) -> None:
        ran.put_nowait(None)

    async def story(clock: RunClock) -> None:
        await ran.get()  # at once
        await ran.get()  # when it began to listen: what was told before nobody has heard
        for _ in range(3):
            bell.rings.put_nowait("")
            await ran.get()
        assert ran.empty()

    played(bell, run, story, tmp_path)


def test_what_is_told_during_a_run_makes_one_more_and_not_many(tmp_path: Path) -> None:
    bell, began, goes_on = Bell(), asyncio.Queue[None](), asyncio.Queue[None]()

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
        clock.advance(FAR_S)  # the next is one that is due
        await began.get()
        assert began.empty()
        goes_on.put_nowait(None)

    played(bell, run, story, tmp_path)


def test_it_still_runs_when_due_if_nobody_wakes_it(tmp_path: Path) -> None:
    bell, ran = Bell(), asyncio.Queue[float]()

    async def story(clock: RunClock) -> None:
        await ran.get()
        await ran.get()
        clock.advance(FAR_S)
        assert await ran.get() == 1_000 + FAR_S

    async def run(stores: Any) -> None:
        ran.put_nowait(stores.clock.now())

    played(bell, run, story, tmp_path)


def test_one_that_can_hear_nothing_more_listens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LISTEN_RETRY_S", 0.0)
    bell, ran = Bell(), asyncio.Queue[None]()

    async def run(_: Any) -> None:
        ran.put_nowait(None)

    async def story(clock: RunClock) -> None:
        await ran.get()
        await ran.get()
        bell.rings.put_nowait(None)
        await ran.get()  # it listens again, and looks for what it missed
        assert bell.listeners == 2
        bell.rings.put_nowait("")
        await ran.get()

    played(bell, run, story, tmp_path)


def test_a_run_that_says_that_there_is_more_is_followed_by_the_next_at_once(tmp_path: Path) -> None:
    left, ran = [3], asyncio.Queue[int]()

    async def run(_: Any) -> Done:
        left[0] -= 1
        ran.put_nowait(left[0])
        return Done(more=left[0] > 0)

    async def together() -> None:
        component = Component("publisher", schedules=(Schedule("publish", FAR_S, run),))
        system = System("post", "Sends", tables=[], patterns=[], components=[component])
        clock = RunClock(tmp_path / "clock", start=1_000.0)
        async with open_memory_stores(system, clock=clock) as stores, WorkerGroup(stores, [component]):
            assert [await ran.get() for _ in range(3)] == [2, 1, 0]

    asyncio.run(together())
    assert ran.empty()


def test_a_schedule_goes_on_while_the_clock_of_the_machine_is_set_back() -> None:
    ran, back_s = asyncio.Queue[None](), [0.0]

    class SetBack(SystemClock):
        def now(self) -> float:
            return super().now() - back_s[0]

    async def run(_: Any) -> None:
        back_s[0] += FAR_S
        ran.put_nowait(None)

    async def together() -> None:
        component = Component("publisher", schedules=(Schedule("publish", 0.01, run),))
        system = System("post", "Sends", tables=[], patterns=[], components=[component])
        async with open_memory_stores(system, clock=SetBack()) as stores, WorkerGroup(stores, [component]):
            for _ in range(3):
                await ran.get()

    asyncio.run(together())
