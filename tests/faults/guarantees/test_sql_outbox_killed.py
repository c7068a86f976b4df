"""The outbox and inbox in SQL with processes, and a PostgreSQL, that are killed: nothing lost or repeated.

First the design document's promises, row by row; then all of it at random.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores
from holdfast.config.settings import EMBEDDED_SQL_SCHEME
from holdfast.core.clock import RunClock
from holdfast.runtime import migrate_schemas
from tests.faults.guarantees.sql_outbox_process import CLOCK, ORDERS, open_stores_in, take
from tests.faults.stopped_processes import stop_outside_writes
from tests.postgres import connect, create_database
from tests.processes import Process, preload
from tests.unit.guarantees.messaging.order_outbox import NOON, OrderChanged, receive_all
from tests.unit.guarantees.messaging.sql_shop import (
    OUTBOX,
    SHOP,
    SYSTEM,
    changes,
    create_shop_queues,
    effects,
    order,
    publish_changes,
)

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ROUNDS = 20 if SOAK else 1
MAX_REQUESTS = 200 if SOAK else 70
# Longer than a claim and the visibility timeout, so that the next round resumes the work.
BETWEEN_ROUNDS_S = 31.0
# Longer than the queue's deduplication window.
AFTER_DEDUPLICATION_S = 301.0

ROLES = ("write", "write", "relay", "relay", "take")

PROCESS = "tests.faults.guarantees.sql_outbox_process"

preload(PROCESS)


@dataclass
class Stage:
    """A shop with its queue, its clock and its processes."""

    folder: Path
    sql: str
    clock: RunClock

    def start_process(
        self,
        role: str,
        count: int = 0,
        moment: str = "never",
        by: signal.Signals = signal.SIGKILL,
        seed: int = 0,
    ) -> Process:
        """Start a process of this role. At request `count` it sends itself the signal `by`, or waits to be
        stopped.
        """
        return Process(PROCESS, self.folder, self.sql, role, seed, count, moment, by)

    def run_until_killed(self, role: str, count: int, moment: str) -> None:
        """Run a process until it kills itself at this request."""
        with self.start_process(role, count, moment) as process:
            assert process.wait() == -signal.SIGKILL, process.read_log()

    def run(self, work: Callable[[Stores], Awaitable[Any]]) -> Any:
        """Run work on stores in this process."""

        async def on_stores() -> Any:
            async with open_stores_in(self.folder, self.sql) as stores:
                return await work(stores)

        return asyncio.run(on_stores())

    def read_rows(self) -> list[tuple[Any, ...]]:
        """Return (processed, retry_count, last_error) of every outbox row."""
        with connect(self.sql) as outside:
            asked = "SELECT processed, retry_count, last_error FROM shop.outbox ORDER BY id"
            return outside.execute(asked).fetchall()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Return a shop on a new database, with its queues and a run clock."""
    stage = Stage(tmp_path, create_database(SHOP), RunClock(tmp_path / CLOCK, start=NOON))
    stage.run(create_shop_queues)
    return stage


async def receive_versions(stores: Stores) -> list[int]:
    """Receive all messages and return their versions."""
    return [each.message.version for each in await receive_all(stores, changes)]


async def make_three_changes(stores: Stores) -> None:
    await publish_changes(stores, "o-1", 3)


# --- the document's four promises ---------------------------------------------------------------------------


@pytest.mark.proves("PG-23")
@pytest.mark.proves("PG-27")
def test_a_writer_killed_before_its_commit_leaves_no_row_and_no_message(stage: Stage) -> None:
    with stage.start_process("hang") as writer:
        assert writer.read_first_line() == "written\n", writer.read_log()
        writer.kill()
        writer.wait()

    async def check(stores: Stores) -> None:
        await publish_changes(stores, ORDERS[0], 1)  # its locks are released, and the order does not exist
        assert (await OUTBOX.send_unsent(stores)).sent == 1
        assert await receive_versions(stores) == [1]

    stage.run(check)
    assert stage.read_rows() == [(True, 0, None)]


@pytest.mark.proves("PG-27")
@pytest.mark.parametrize(
    ("count", "moment"),
    [(1, "after"), (2, "after"), (3, "before"), (4, "after")],
    ids=["after the claim", "after the first send", "before it is marked", "after the second send"],
)
def test_another_relay_sends_a_killed_relays_claim(stage: Stage, count: int, moment: str) -> None:
    stage.run(make_three_changes)
    stage.run_until_killed("round", count, moment)

    async def take_over(stores: Stores) -> None:
        assert (await OUTBOX.send_unsent(stores)).claimed == 0  # not before the claim is over
        stage.clock.advance(OUTBOX.lease_s)
        await OUTBOX.send_unsent(stores)
        assert await receive_versions(stores) == [1, 2, 3]

    stage.run(take_over)
    assert [row[0] for row in stage.read_rows()] == [True, True, True]


@pytest.mark.proves("PG-26")
@pytest.mark.proves("PG-27")
def test_relay_records_a_failed_send_and_retries_it_at_the_next_poll(tmp_path: Path) -> None:
    stage = Stage(tmp_path, create_database(SHOP), RunClock(tmp_path / CLOCK, start=NOON))
    stage.run(lambda stores: publish_changes(stores, "o-1", 1))  # its queue does not exist
    with stage.start_process("work"), connect(stage.sql) as outside:
        while not outside.execute("SELECT 1 FROM shop.outbox WHERE retry_count = 1").fetchone():
            time.sleep(0.01)  # yields the processor to the relay
    [(processed, retries, reason)] = stage.read_rows()
    assert (processed, retries) == (False, 1)
    assert reason.startswith("NotFound: ")
    stage.run(create_shop_queues)
    stage.clock.advance(OUTBOX.poll_s)

    async def receive_one(stores: Stores) -> list[int]:
        messages = await stores.run(changes.receive(1, wait_s=20))
        return [each.message.version for each in messages]

    with stage.start_process("work"):
        assert stage.run(receive_one) == [1]


@pytest.mark.proves("PG-27")
def test_message_sent_twice_has_one_effect(stage: Stage) -> None:
    stage.run(lambda stores: publish_changes(stores, "o-1", 1))
    stage.run_until_killed("round", 2, "after")  # sent, and not marked
    stage.clock.advance(AFTER_DEDUPLICATION_S)
    stage.run(OUTBOX.send_unsent)
    # Receive, effect, delete: killed when the effect is done and the message is not deleted.
    stage.run_until_killed("take", 2, "after")
    stage.clock.advance(BETWEEN_ROUNDS_S)

    async def drain(stores: Stores) -> tuple[int, list[tuple[str, int]]]:
        messages = 0
        while count := await take(stores):
            messages += count
        return messages, [(each.order_id, each.version) for each in await stores.run(effects())]

    assert stage.run(drain) == (2, [("o-1", 1)])


# --- a paused relay, and random kills -------------------------------------------------------------------


@pytest.mark.proves("PG-X6")
def test_paused_relay_changes_nothing_after_its_claim_expired(stage: Stage) -> None:
    stage.run(make_three_changes)
    with stage.start_process("round", 1, "after", signal.SIGSTOP) as late:
        assert late.read_first_line() == "waiting\n", late.read_log()
        stop_outside_writes(late.pid, stage.folder)
        stage.clock.advance(OUTBOX.lease_s + 1)

        async def overtake(stores: Stores) -> None:
            assert (await OUTBOX.send_unsent(stores)).sent == 3
            await stores.transact(
                OUTBOX.enqueue(stores, "o-1", OrderChanged(order_id="o-1", version=4), queue=changes)
            )
            assert (await OUTBOX.send_unsent(stores)).sent == 1

        stage.run(overtake)
        with connect(stage.sql) as outside:
            before = outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall()
            late.send_signal(signal.SIGCONT)
            late.send_line("")
            assert late.wait() == 0, late.read_log()
            assert outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall() == before
    assert stage.run(receive_versions) == [1, 2, 3, 4]


@pytest.fixture
def own_server() -> Iterator[Stage]:
    """Use a PostgreSQL of its own, which its processes restart when they find it gone.

    It is not in pytest's folder: for root the server runs as another user, who has no access there.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-outbox-"))
    sql = f"{EMBEDDED_SQL_SCHEME}{folder / 'postgres'}"
    yield Stage(folder, sql, RunClock(folder / CLOCK, start=NOON))
    shutil.rmtree(folder)


@pytest.mark.proves("PG-27")
@pytest.mark.timeout(3600 if SOAK else 120)
async def test_killed_processes_and_server_lose_and_repeat_no_effect(
    own_server: Stage,
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)

    async with open_stores_in(own_server.folder, own_server.sql) as stores:
        await migrate_schemas(stores, SYSTEM.schemas)
        await create_shop_queues(stores)
        for _ in range(ROUNDS):
            await run_round(own_server, stores, random)
            own_server.clock.advance(BETWEEN_ROUNDS_S)
    # New connections, which no killed server has broken.
    async with open_stores_in(own_server.folder, own_server.sql) as stores:
        await drain_all(stores)
        await check_effects(stores)


async def run_round(stage: Stage, stores: Stores, random: Random) -> None:
    """Run several processes at once, each until it kills itself, and kill the server meanwhile."""
    with ExitStack() as several:
        processes = [
            several.enter_context(
                stage.start_process(
                    role,
                    random.randrange(20, MAX_REQUESTS),
                    random.choice(["before", "after"]),
                    seed=random.randrange(2**32),
                )
            )
            for role in ROLES
        ]
        await wait_for_changes(stores, processes, random.randrange(3, 10))
        os.kill(get_postmaster(stage), signal.SIGKILL)
        for process in processes:
            assert await asyncio.to_thread(process.wait) == -signal.SIGKILL, process.read_log()


async def wait_for_changes(stores: Stores, processes: list[Process], count: int) -> None:
    """Wait until there are `count` more changes, or until every process has ended."""
    before = await count_changes(stores)
    while await count_changes(stores) < before + count and any(each.is_alive for each in processes):
        await asyncio.sleep(0)


async def count_changes(stores: Stores) -> int:
    """Return the number of changes of all orders."""
    found = [await stores.run(order(order_id)) for order_id in ORDERS]
    return sum(each.version for each in found if each is not None)


def get_postmaster(stage: Stage) -> int:
    """Return the process id of the stage's PostgreSQL."""
    file = Path(stage.sql.removeprefix(EMBEDDED_SQL_SCHEME)) / "server" / "postmaster.pid"
    return int(file.read_text().splitlines()[0])


async def drain_all(stores: Stores) -> None:
    """Send everything and take every message."""
    while (await OUTBOX.send_unsent(stores)).claimed:
        continue
    assert await OUTBOX.backlog(stores) == ()
    while await take(stores):
        continue


async def check_effects(stores: Stores) -> None:
    """Check that each change of an order had its effect once, in the order of the changes."""
    found = [await stores.run(order(order_id)) for order_id in ORDERS]
    expected = {each.order_id: list(range(1, each.version + 1)) for each in found if each is not None}
    did: dict[str, list[int]] = defaultdict(list)
    for each in await stores.run(effects()):
        did[each.order_id].append(each.version)
    print(f"{sum(map(len, expected.values()))} changes")  # noqa: T201
    assert did == expected
    assert sum(map(len, expected.values())) >= ROUNDS * 3
