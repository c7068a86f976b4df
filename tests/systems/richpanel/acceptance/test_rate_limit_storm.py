"""More events than the sandbox help desk's call budget: they wait, and none becomes a dead letter."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.runtime import WorkerGroup, get_queue_reports
from holdfast.web import serve_in_thread
from holdfast_demo.richpanel.sandbox import Faults, Sandbox, build_sandbox_app
from richpanel.system import SYSTEM
from tests.systems.richpanel.acceptance.middleware import run, start_middleware

EVENTS = 40
# Forty events make 160 calls: several windows of this budget.
BUDGET = {"calls_max": 40, "window_s": 2.0, "retry_after_s": 0.5}


class MachineClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()


@pytest.mark.proves("RP-40")
def test_many_429s_delay_events_without_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        # The budget counts real seconds, so the test waits in real time.
        storm = Sandbox(clock=MachineClock(), faults=Faults(**BUDGET))  # type: ignore[arg-type]
        refused: list[str] = []
        async with start_middleware() as middleware:
            middleware.stores.measurements.subscribe(lambda counted: refused.append(counted.name))
            storm.desk, storm.shop = middleware.sandbox.desk, middleware.sandbox.shop
            for number in range(EVENTS):
                await middleware.send("Where is my order?", f"c-{number}")
            with serve_in_thread(build_sandbox_app(storm)) as url:
                monkeypatch.setenv("RICHPANEL_HELPDESK_URL", url)
                async with WorkerGroup(
                    middleware.stores, [SYSTEM.get_component("worker")], wait_s=0.2
                ) as work:
                    while (await get_queue_reports(middleware.stores, SYSTEM.queues))[0].waiting.backlog:
                        await asyncio.sleep(0.05)
                    work.stop()
            [queue] = await get_queue_reports(middleware.stores, SYSTEM.queues)
        assert queue.dead == 0
        assert len(middleware.ledger) == len({each.reference for each in middleware.ledger}) == 2 * EVENTS
        assert "too_many_requests" in refused

    run(test())
