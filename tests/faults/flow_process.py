"""A worker of the errands' flow, and a person who chooses, in one process that kills itself at a chosen point.

python -m tests.faults.flow_process FOLDER SEED POINT COUNT

POINT is "transaction" (before one is made), "committed" (after it, before its message is sent), "sent" (after that, before
the message of the step is deleted), "request" (before any request) or "answer" (after any). It ends at the COUNTth of them;
0 is never. All processes share the files of one folder, and a clock that is moved from outside.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast import Stores, UlidGenerator
from holdfast.core.clock import RunClock
from holdfast.core.errors import Conflict, RetryLater
from holdfast.flows import StepContext
from holdfast.operations.queues import SendMessages
from holdfast.operations.tables import TransactWriteItems
from holdfast.runtime import WorkerGroup
from holdfast.runtime.engines import Engines
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import open_tables
from tests.unit.flows.errands import ERRANDS, OFFERS, SYSTEM, Errand, Tools, failed

CLOCK: Final = "clock"
POINTS: Final = ("transaction", "committed", "sent", "request", "answer")
FAILURES: Final = 0.1
LOOKS_S: Final = 0.05


class Fate:
    """When this process ends."""

    def __init__(self, point: str = "never", count: int = 0) -> None:
        self._point, self._left = point, count

    def comes(self, *points: str) -> None:
        if self._point in points:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Deadly:
    """An engine under a fate."""

    def __init__(self, behind: Any, fate: Fate) -> None:
        self._behind, self._fate = behind, fate

    async def run(self, operation: Any) -> Any:
        is_transaction = isinstance(operation, TransactWriteItems)
        self._fate.comes("request", *(("transaction",) if is_transaction else ()))
        result = await self._behind.run(operation)
        is_send = isinstance(operation, SendMessages)
        self._fate.comes(
            "answer", *(("committed",) if is_transaction else ()), *(("sent",) if is_send else ())
        )
        return result

    def close(self) -> None:
        self._behind.close()


@contextmanager
def stores_in(folder: Path, fate: Fate | None = None) -> Iterator[Stores]:
    """Without a fate, stores that live."""
    clock, fate = RunClock(folder / CLOCK), fate or Fate()
    with open_tables(folder / "tables.db", clock=clock) as tables:
        queues = open_queues(folder / "queues.db", clock=clock)
        engines = Engines({"queues": lambda: Deadly(queues, fate)})
        yield Stores(Deadly(tables, fate), system=SYSTEM, clock=clock, engines=engines)
        queues.close()


def main(folder: str, seed: str, point: str, count: str) -> None:
    with stores_in(Path(folder), Fate(point, int(count))) as stores:
        asyncio.run(_working(stores, Random(seed)))


async def _working(stores: Stores, random: Random) -> None:
    tools = Tools(mark=lambda: f"#{UlidGenerator(stores.clock).new()}")

    async def now_and_then(run: StepContext[Errand]) -> None:
        if random.random() < FAILURES:
            raise failed()

    tools.within["Plan"] = now_and_then

    @asynccontextmanager
    async def handling(_: Stores) -> AsyncIterator[Tools]:
        yield tools

    worker = replace(SYSTEM.get_component("worker"), consumers=(ERRANDS.consumer(handling),))
    async with WorkerGroup(stores, [worker], wait_s=LOOKS_S):
        while places := await ERRANDS.list_executions(stores):
            for key in [place.key for place in places if place.state == "offered"]:
                await _chosen(stores, key, random, tools)
            await asyncio.sleep(LOOKS_S)


async def _chosen(stores: Stores, key: str, random: Random, tools: Tools) -> None:
    """A person chooses, now and then later; another process may have been quicker."""
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


if __name__ == "__main__":
    main(*sys.argv[1:])
