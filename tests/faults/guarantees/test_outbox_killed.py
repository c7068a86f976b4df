"""Writers and relays of an outbox in tables are killed: each change has its message, in order."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from random import Random, SystemRandom

from holdfast import Stores
from holdfast.core.clock import RunClock
from tests.faults.guarantees.outbox_process import CLOCK, ORDERS, open_stores_in
from tests.processes import Process, preload
from tests.unit.guarantees.messaging.order_outbox import (
    NOON,
    OUTBOX_OF_ORDERS,
    Order,
    create_tables_and_queues,
    receive_all,
)

PROCESS = "tests.faults.guarantees.outbox_process"
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ROUNDS = 40 if SOAK else 3
ROLES = ("write", "write", "relay", "relay")
MAX_REQUESTS = 100
# Longer than the relay's lease, so that the next round resumes the work, and much shorter than the queue's
# deduplication window.
BETWEEN_ROUNDS_S = 31.0

preload(PROCESS)


async def test_every_change_has_its_message_in_order_despite_kills(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    with open_stores_in(tmp_path) as stores:
        await create_tables_and_queues(stores)
    for _ in range(ROUNDS):
        run_round(tmp_path, random)
        clock.advance(BETWEEN_ROUNDS_S)
    with open_stores_in(tmp_path) as stores:
        sent = await drain(stores)
        states = await read_states(stores)
    print(f"{sum(states.values())} changes")  # noqa: T201
    assert sum(states.values()) >= ROUNDS
    assert sent == {order: list(range(1, version + 1)) for order, version in states.items()}


def run_round(folder: Path, random: Random) -> None:
    """Run four processes at once, each until it kills itself."""
    with ExitStack() as stack:
        for process in [stack.enter_context(start_process(folder, role, random)) for role in ROLES]:
            assert process.wait() == -signal.SIGKILL, process.read_log()


def start_process(folder: Path, role: str, random: Random) -> Process:
    """Start a process of this role that kills itself at a random request."""
    seed, count = random.randrange(2**32), random.randrange(2, MAX_REQUESTS)
    return Process(PROCESS, folder, role, seed, count, random.choice(["before", "after"]))


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
