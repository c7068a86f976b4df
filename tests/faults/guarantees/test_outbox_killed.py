"""Writers and relays of an outbox in tables are killed: each change has its message, in order."""

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
from tests.faults.guarantees.outbox_process import CLOCK, ORDERS, open_stores_in
from tests.unit.guarantees.messaging.order_outbox import (
    NOON,
    OUTBOX_OF_ORDERS,
    Order,
    create_tables_and_queues,
    receive_all,
)

ROOT = Path(__file__).parents[3]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ROUNDS = 40 if SOAK else 3
ROLES = ("write", "write", "relay", "relay")
MAX_REQUESTS = 100
# Longer than the relay's lease, so that the next round resumes the work, and much shorter than the queue's
# deduplication window.
BETWEEN_ROUNDS_S = 31.0


def test_every_change_has_its_message_in_order_despite_kills(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    with open_stores_in(tmp_path) as stores:
        asyncio.run(create_tables_and_queues(stores))
    for _ in range(ROUNDS):
        run_round(tmp_path, random)
        clock.advance(BETWEEN_ROUNDS_S)
    with open_stores_in(tmp_path) as stores:
        sent = asyncio.run(drain(stores))
        states = asyncio.run(read_states(stores))
    print(f"{sum(states.values())} changes")  # noqa: T201
    assert sum(states.values()) >= ROUNDS
    assert sent == {order: list(range(1, version + 1)) for order, version in states.items()}


def run_round(folder: Path, random: Random) -> None:
    """Run four processes at once, each until it kills itself."""
    processes = [start_process(folder, role, random) for role in ROLES]
    try:
        for process in processes:
            _, said = process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL, said
    finally:
        for process in processes:
            process.kill()
            with process:
                pass


def start_process(folder: Path, role: str, random: Random) -> subprocess.Popen[str]:
    """Start a process of this role that kills itself at a random request."""
    command = [
        sys.executable,
        "-m",
        "tests.faults.guarantees.outbox_process",
        str(folder),
        role,
        str(random.randrange(2**32)),
        str(random.randrange(2, MAX_REQUESTS)),
        random.choice(["before", "after"]),
    ]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


async def drain(stores: Stores) -> dict[str, list[int]]:
    """Relay everything that waits; return the received versions by order."""
    report = await OUTBOX_OF_ORDERS.send_unsent(stores)
    assert (report.busy, report.failed, report.blocked) == (0, 0, 0)
    assert await OUTBOX_OF_ORDERS.list_unsent(stores) == []
    sent: dict[str, list[int]] = defaultdict(list)
    for each in await receive_all(stores):
        sent[each.message.order_id].append(each.message.version)
    return dict(sent)


async def read_states(stores: Stores) -> dict[str, int]:
    """Return the version of each order that exists."""
    found = [await stores.run(Order.of(order_id).get().consistent()) for order_id in ORDERS]
    return {each.order_id: each.version for each in found if each is not None}
