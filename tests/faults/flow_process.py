"""A process that runs a flow's worker and answers its waits, and kills itself at a given point.

The point is "transaction" (before one is made), "committed" (after it, before its message is sent), "sent"
(after that, before the message of the step is deleted), "request" (before any request) or "answer" (after
any). It ends at the `count`-th of them; 0 is never. All processes share the files of one folder, and a clock
that is moved from outside.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import Conflict, RetryLater
from holdfast.flows import StepContext
from holdfast.model.ulids import UlidGenerator
from holdfast.operations.queues import SendMessages
from holdfast.operations.tables import TransactWriteItems
from holdfast.runtime import WorkerGroup
from holdfast.runtime.engines import Engines
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import open_tables
from tests.unit.flows.errands import ERRANDS, OFFERS, SYSTEM, Errand, Tools, make_failure

CLOCK: Final = "clock"
POINTS: Final = ("transaction", "committed", "sent", "request", "answer")
FAILURES: Final = 0.1
LOOKS_S: Final = 0.05


class KillPoint:
    """The point at which this process kills itself; 0 as `count` means never."""

    def __init__(self, point: str = "never", count: int = 0) -> None:
        self._point, self._left = point, count

    def reach(self, *points: str) -> None:
        """Count a point that is one of these, and kill the process at the given count."""
        if self._point in points:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class SelfKillingEngine:
    """Engine that kills its process at the kill point."""

    def __init__(self, engine: Any, kill_point: KillPoint) -> None:
        self._behind, self._fate = engine, kill_point

    async def run(self, operation: Any) -> Any:
        """Run the operation, and reach the kill points before and after it."""
        is_transaction = isinstance(operation, TransactWriteItems)
        self._fate.reach("request", *(("transaction",) if is_transaction else ()))
        result = await self._behind.run(operation)
        is_send = isinstance(operation, SendMessages)
        self._fate.reach(
            "answer", *(("committed",) if is_transaction else ()), *(("sent",) if is_send else ())
        )
        return result

    def close(self) -> None:
        self._behind.close()


@contextmanager
def open_stores_in(folder: Path, kill_point: KillPoint | None = None) -> Iterator[Stores]:
    """Open the folder's stores; without a kill point they never kill the process."""
    clock, kill_point = RunClock(folder / CLOCK), kill_point or KillPoint()
    with open_tables(folder / "tables.db", clock=clock) as tables:
        queues = open_queues(folder / "queues.db", clock=clock)
        engines = Engines({"queues": lambda: SelfKillingEngine(queues, kill_point)})
        yield Stores(SelfKillingEngine(tables, kill_point), system=SYSTEM, clock=clock, engines=engines)
        queues.close()


async def main(folder: Path, seed: int, point: str, count: int) -> None:
    with open_stores_in(folder, KillPoint(point, count)) as stores:
        await _work(stores, Random(seed))


async def _work(stores: Stores, random: Random) -> None:
    """Run the worker, with steps that sometimes fail, and answer waits until no execution is left."""
    tools = Tools(mark=lambda: f"#{UlidGenerator(stores.clock).new()}")

    async def now_and_then(run: StepContext[Errand]) -> None:
        if random.random() < FAILURES:
            raise make_failure()

    tools.within["Plan"] = now_and_then

    @asynccontextmanager
    async def handling(_: Stores) -> AsyncIterator[Tools]:
        yield tools

    worker = replace(SYSTEM.get_component("worker"), consumers=(ERRANDS.consumer(handling),))
    async with WorkerGroup(stores, [worker], wait_s=LOOKS_S):
        while places := await ERRANDS.list_executions(stores):
            for key in [place.key for place in places if place.state == "offered"]:
                await _choose(stores, key, random, tools)
            await asyncio.sleep(LOOKS_S)


async def _choose(stores: Stores, key: str, random: Random, tools: Tools) -> None:
    """Answer the wait of an errand as a person does, half of the time; another process may be faster."""
    if random.random() < 0.5:
        return
    errand = await stores.run(ERRANDS.pattern_set.item(key))
    if errand is None or errand.flow_state != "offered":
        return
    token, given = ERRANDS.make_token(errand), {"offer": random.choice(sorted(OFFERS))}
    try:
        await ERRANDS.answer(stores, key, "choose", token=token, given=given, tools=tools)
    except (Conflict, RetryLater):
        pass
