"""Schedules in a worker: when they run, by which clock, and what a failure or a stop does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Component, Schedule, System, open_memory_stores, run_worker
from holdfast.core.clock import Clock, RunClock, SystemClock
from holdfast.core.correlation import get_correlation_id
from holdfast.runtime import WorkerGroup


def run_story(schedule: Schedule, story: Callable[[], Awaitable[Any]], clock: Clock | None = None) -> None:
    """Run the schedule while the story runs."""

    async def run() -> None:
        component = Component("sweeper", schedules=(schedule,))
        system = System("broom", "Sweeps", tables=[], patterns=[], components=[component])
        async with (
            open_memory_stores(system, clock=clock or SystemClock()) as stores,
            WorkerGroup(stores, [component]),
        ):
            await story()

    asyncio.run(run())


def test_runs_at_once_and_again_when_due_by_the_run_clock(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_000.0)
    ran: asyncio.Queue[float] = asyncio.Queue()

    async def sweep(_: Any) -> None:
        ran.put_nowait(clock.now())

    async def story() -> None:
        assert await ran.get() == 1_000
        clock.advance(59)
        clock.advance(1)
        assert await ran.get() == 1_060
        clock.advance(600)
        # Once, not ten times: missed runs are not repeated.
        assert await ran.get() == 1_660
        assert ran.empty()

    run_story(Schedule("sweep", 60, sweep), story, clock)


def test_runs_repeatedly_by_the_machines_clock() -> None:
    ran: asyncio.Queue[None] = asyncio.Queue()

    async def sweep(_: Any) -> None:
        ran.put_nowait(None)

    async def story() -> None:
        for _ in range(3):
            await ran.get()

    run_story(Schedule("sweep", 0.01, sweep), story)


def test_runs_never_overlap() -> None:
    at_work, most = 0, 0
    ran: asyncio.Queue[None] = asyncio.Queue()

    async def sweep(_: Any) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        # Longer than the time between two runs.
        await asyncio.sleep(0.02)
        at_work -= 1
        ran.put_nowait(None)

    async def story() -> None:
        for _ in range(3):
            await ran.get()

    run_story(Schedule("sweep", 0.001, sweep), story)

    assert most == 1


def test_logs_a_failed_run_and_continues(caplog: pytest.LogCaptureFixture) -> None:
    ran: asyncio.Queue[None] = asyncio.Queue()

    async def sweep(_: Any) -> None:
        ran.put_nowait(None)
        raise ZeroDivisionError("a mistake")

    async def story() -> None:
        for _ in range(3):
            await ran.get()

    with caplog.at_level(logging.ERROR):
        run_story(Schedule("sweep", 0.001, sweep), story)

    assert "The schedule sweep failed" in caplog.text
    assert "a mistake" in caplog.text


def test_each_run_has_its_own_correlation_id() -> None:
    ids: asyncio.Queue[str | None] = asyncio.Queue()

    async def sweep(_: Any) -> None:
        ids.put_nowait(get_correlation_id())

    async def story() -> None:
        first, second = await ids.get(), await ids.get()
        assert first is not None and second is not None
        assert first != second

    run_story(Schedule("sweep", 0.001, sweep), story)


def test_cancels_a_run_when_the_grace_period_ends() -> None:
    async def story() -> bool:
        began, cancelled = asyncio.Event(), False

        async def sweep(_: Any) -> None:
            nonlocal cancelled
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled = True
                raise

        component = Component("sweeper", schedules=(Schedule("sweep", 60, sweep),))
        system = System("broom", "Sweeps", tables=[], patterns=[], components=[component])
        async with open_memory_stores(system) as stores:
            stop = asyncio.Event()
            working = asyncio.create_task(run_worker(stores, component, stop=stop, grace_s=0))
            await began.wait()
            stop.set()
            await working
        return cancelled

    assert asyncio.run(story())
