"""More events than the help desk's budget of calls has room for: they wait, and none dies for it."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast import WorkerGroup, get_queue_reports
from holdfast.web import serve_in_thread
from richpanel.demo.sandbox import Faults, Sandbox, build_sandbox_app
from richpanel.system import SYSTEM
from tests.acceptance.richpanel.stage import run, staged

EVENTS = 40
# Forty events make a hundred and sixty calls: several windows of this.
BUDGET = {"calls_max": 50, "window_s": 1.0, "retry_after_s": 0.5}


class MachineClock:
    def now(self) -> float:
        return time.time()


@pytest.mark.proves("RP-40")
def test_a_storm_of_429_delays_events_and_kills_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        # The budget is of real seconds, and so is the waiting for it.
        storm = Sandbox(clock=MachineClock(), faults=Faults(**BUDGET))  # type: ignore[arg-type]
        refused: list[str] = []
        async with staged() as stage:
            stage.stores.measurements.subscribe(lambda counted: refused.append(counted.name))
            storm.desk, storm.shop = stage.sandbox.desk, stage.sandbox.shop
            for number in range(EVENTS):
                await stage.says("Where is my order?", f"c-{number}")
            with serve_in_thread(build_sandbox_app(storm)) as url:
                monkeypatch.setenv("RICHPANEL_HELPDESK_URL", url)
                async with WorkerGroup(stage.stores, [SYSTEM.get_component("worker")], wait_s=0.2) as work:
                    while (await get_queue_reports(stage.stores, SYSTEM.queues))[0].waiting.backlog:
                        await asyncio.sleep(0.05)
                    work.stop()
            [queue] = await get_queue_reports(stage.stores, SYSTEM.queues)
        assert queue.dead == 0
        assert len(stage.ledger) == len({each.reference for each in stage.ledger}) == 2 * EVENTS
        assert "too_many_requests" in refused

    run(test())
