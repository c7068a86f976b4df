"""Workers of a flow are killed at chosen and random points: every item ends, with each effect once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random, SystemRandom

from holdfast import Stores
from holdfast.core.clock import RunClock
from tests.faults.flow_process import CLOCK, POINTS, open_stores_in
from tests.processes import Process, preload, wait_for_first_end
from tests.unit.flows.errands import ERRANDS, NOON, Errand, Happened, create_errand, create_stores

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ITEMS = 300 if SOAK else 30
MAX_KILLS = 100 if SOAK else 12
SEVERAL = 2
# The clock runs faster than the machine's, so that a dead process's messages soon become visible.
TICK_S, TICK_CLOCK_S = 0.1, 4.0

WORKER = "tests.faults.flow_process"

preload(WORKER)

DONE = {"Plan", "Offer", "Choice", "Book", "Confirm"}
EFFECTS = {"done": DONE, "cancelled": {"Plan", "Offer", "Expired"}, "failed": {"GaveUp"}}


async def test_every_item_ends_once_although_workers_are_killed(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    with open_stores_in(tmp_path) as stores:
        await start_items(stores)
        kills = run_until_done(tmp_path, clock, random)
        ends = await check_items(stores)
    print(f"{sum(kills.values())} killed: {dict(kills)}; {dict(ends)}")  # noqa: T201
    assert sum(kills.values()) >= MAX_KILLS / 2
    assert ends["done"] >= ITEMS / 2


async def start_items(stores: Stores) -> None:
    """Create the stores and start the flow for every item."""
    await create_stores(stores)
    for number in range(ITEMS):
        errand = ERRANDS.initial(stores, Errand(owner="o-1", errand_id=f"e-{number}"))
        await stores.transact(create_errand(errand), *ERRANDS.start_writes(stores, errand))


def run_until_done(folder: Path, clock: RunClock, random: Random) -> Counter[str]:
    """Run processes, replacing killed ones, until one finds nothing left to do; count the kills by point."""
    kills, began, running = Counter[str](), 0, dict[Process, str]()
    try:
        while True:
            while len(running) < SEVERAL:
                point = POINTS[began % len(POINTS)] if began < MAX_KILLS else "never"
                count = random.randrange(1, 60 if point in ("request", "answer") else 8)
                running[Process(WORKER, folder, random.randrange(2**32), point, count)] = point
                began += 1
            for process in wait_for_ended(running, clock):
                if process.returncode == 0:
                    return kills
                assert process.is_killed, process.read_log()
                kills[running.pop(process)] += 1
                process.close()
    finally:
        for process in running:
            process.close()


def wait_for_ended(running: dict[Process, str], clock: RunClock) -> list[Process]:
    """Wait until a process has ended, moving the clock meanwhile; return all that have."""
    while not (ended := wait_for_first_end(list(running), TICK_S)):
        clock.advance(TICK_CLOCK_S)
    return ended


async def check_items(stores: Stores) -> Counter[str]:
    """Check that each item has ended with each effect once and left nothing behind; count the end states."""
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
