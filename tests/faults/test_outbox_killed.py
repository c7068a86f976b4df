"""Writers and relays are killed at random requests: a change and its message, never one without the other, in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random, SystemRandom

from holdfast import Stores
from holdfast.core.clock import RunClock
from tests.faults.outbox_process import CLOCK, ORDERS, stores_in
from tests.unit.guarantees.announcing import NOON, OUTBOX_OF_ORDERS, Order, prepared, received

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ROUNDS = 40 if SOAK else 3
ROLES = ("write", "write", "relay", "relay")
REQUESTS_MAX = 100
# Longer than the lease of a turn, so that the next round goes on where this one died; a copy comes long before the
# queue's deduplication window is over.
BETWEEN_ROUNDS_S = 31.0


def test_killed_writers_and_relays_leave_each_change_with_its_message_in_order(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    with stores_in(tmp_path) as stores:
        asyncio.run(prepared(stores))
    for _ in range(ROUNDS):
        _round(tmp_path, random)
        clock.advance(BETWEEN_ROUNDS_S)
    with stores_in(tmp_path) as stores:
        told = asyncio.run(_drained(stores))
        states = asyncio.run(_states(stores))
    print(f"{sum(states.values())} changes")  # noqa: T201
    assert sum(states.values()) >= ROUNDS
    assert told == {order: list(range(1, version + 1)) for order, version in states.items()}


def _round(folder: Path, random: Random) -> None:
    """Four processes at once, each until it kills itself."""
    processes = [_process(folder, role, random) for role in ROLES]
    try:
        for process in processes:
            _, said = process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL, said
    finally:
        for process in processes:
            process.kill()
            with process:
                pass


def _process(folder: Path, role: str, random: Random) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.faults.outbox_process",
        str(folder),
        role,
        str(random.randrange(2**32)),
        str(random.randrange(2, REQUESTS_MAX)),
        random.choice(["before", "after"]),
    ]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


async def _drained(stores: Stores) -> dict[str, list[int]]:
    """What the queue was told, by order, after everything that waits is relayed."""
    report = await OUTBOX_OF_ORDERS.relay(stores)
    assert (report.busy, report.failed, report.blocked) == (0, 0, 0)
    assert await OUTBOX_OF_ORDERS.list_unsent(stores) == []
    told: dict[str, list[int]] = defaultdict(list)
    for each in await received(stores):
        told[each.message.order_id].append(each.message.version)
    return dict(told)


async def _states(stores: Stores) -> dict[str, int]:
    found = [await stores.run(Order.of(order_id).get().consistent()) for order_id in ORDERS]
    return {each.order_id: each.version for each in found if each is not None}
