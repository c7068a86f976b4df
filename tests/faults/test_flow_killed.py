"""Workers of a flow are killed around each transaction, each send, and anywhere: every item comes to its end, and what each
step did is there once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random, SystemRandom

from holdfast import Stores
from holdfast.core.clock import RunClock
from tests.faults.flow_process import CLOCK, POINTS, stores_in
from tests.faults.killing import Process, process_of
from tests.unit.flows.errands import ERRANDS, NOON, Errand, Happened, create_errand, prepared

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ITEMS = 300 if SOAK else 30
KILLS_MAX = 100 if SOAK else 12
SEVERAL = 2
# The clock goes faster than the machine's, so that what a dead process hid is soon seen again.
TICK_S, TICK_CLOCK_S = 0.1, 4.0

DONE = {"Plan", "Offer", "Choice", "Book", "Confirm"}
EFFECTS = {"done": DONE, "cancelled": {"Plan", "Offer", "Expired"}, "failed": {"GaveUp"}}


def test_killed_workers_bring_every_item_to_its_end_and_do_each_step_once(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    with stores_in(tmp_path) as stores:
        asyncio.run(_begun(stores))
        kills = _outlived(tmp_path, clock, random)
        ends = asyncio.run(_checked(stores))
    print(f"{sum(kills.values())} killed: {dict(kills)}; {dict(ends)}")  # noqa: T201
    assert sum(kills.values()) >= KILLS_MAX / 2
    assert ends["done"] >= ITEMS / 2


async def _begun(stores: Stores) -> None:
    await prepared(stores)
    for number in range(ITEMS):
        errand = ERRANDS.initial(Errand(owner="o-1", errand_id=f"e-{number}"), stores)
        await stores.transact(create_errand(errand), *ERRANDS.start_writes(stores, errand))


def _outlived(folder: Path, clock: RunClock, random: Random) -> Counter[str]:
    """Processes until one finds nothing left to do; who is killed is replaced. How many were, and where."""
    kills, began, running = Counter[str](), 0, dict[Process, str]()
    try:
        while True:
            while len(running) < SEVERAL:
                point = POINTS[began % len(POINTS)] if began < KILLS_MAX else "never"
                count = random.randrange(1, 60 if point in ("request", "answer") else 8)
                running[process_of("flow_process", folder, random.randrange(2**32), point, count)] = point
                began += 1
            for process in _ended(running, clock):
                if process.returncode == 0:
                    return kills
                assert process.returncode == -signal.SIGKILL, process.communicate()[1]
                kills[running.pop(process)] += 1
                process.communicate()
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _ended(running: dict[Process, str], clock: RunClock) -> list[Process]:
    """Those that have ended. Time goes on while all live."""
    while True:
        first = next(iter(running))
        with suppress(subprocess.TimeoutExpired):
            first.wait(TICK_S)
        if ended := [process for process in running if process.poll() is not None]:
            return ended
        clock.advance(TICK_CLOCK_S)


async def _checked(stores: Stores) -> Counter[str]:
    """Each item has ended, with the effects of its way, each once; and nothing is left of it anywhere."""
    ends = Counter[str]()
    for number in range(ITEMS):
        errand = await stores.run(Errand.of("o-1").get(f"e-{number}").consistent())
        assert errand is not None
        found = Counter(
            each.what.split("#")[0] for each in await stores.all(Happened.of(f"e-{number}").query())
        )
        assert (set(found), set(found.values())) == (EFFECTS[errand.flow_state], {1}), (errand, found)
        ends[errand.flow_state] += 1
    assert await ERRANDS.list_executions(stores) == []
    assert await ERRANDS.outbox.list_unsent(stores) == []
    return ends
