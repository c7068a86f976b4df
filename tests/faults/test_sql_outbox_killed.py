"""The outbox and the inbox in SQL, with real processes that are killed, and a PostgreSQL that is.

First what the design document promises, row by row; then all of it at random.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from holdfast import Stores
from holdfast.config.settings import EMBEDDED_SQL_SCHEME
from holdfast.core.clock import RunClock
from holdfast.runtime import migrate_schemas
from tests.faults.sql_outbox_process import CLOCK, ORDERS, stores_in, taken
from tests.postgres import connected, fresh_database
from tests.unit.guarantees.announcing import NOON
from tests.unit.guarantees.sql_announcing import (
    OUTBOX,
    SHOP,
    SYSTEM,
    OrderChanged,
    announced,
    changes,
    effects,
    order,
    prepared,
    received,
)

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
ROUNDS = 20 if SOAK else 1
REQUESTS_MAX = 200 if SOAK else 70
# Longer than a claim and than a message stays with a consumer, so that the next round goes on where this one died.
BETWEEN_ROUNDS_S = 31.0
# Longer than a queue remembers a message by which it knows a copy.
FORGOTTEN_S = 301.0

ROLES = ("write", "write", "publish", "publish", "take")

Process = subprocess.Popen[str]


@dataclass
class Stage:
    """A shop with its queue, its clock and its processes."""

    folder: Path
    sql: str
    clock: RunClock

    @contextmanager
    def process(
        self, role: str, count: int = 0, moment: str = "never", by: str = "SIGKILL", seed: int = 0
    ) -> Iterator[Process]:
        command = [sys.executable, "-m", "tests.faults.sql_outbox_process", str(self.folder), self.sql, role]
        command += [str(seed), str(count), moment, by]
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def killed(self, role: str, count: int, moment: str) -> None:
        """A process that kills itself there."""
        with self.process(role, count, moment) as process:
            _, said = process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL, said

    def ran(self, work: Callable[[Stores], Awaitable[Any]]) -> Any:
        """In this process, which lives."""

        async def on_stores() -> Any:
            async with stores_in(self.folder, self.sql) as stores:
                return await work(stores)

        return asyncio.run(on_stores())

    def rows(self) -> list[tuple[Any, ...]]:
        with connected(self.sql) as outside:
            asked = "SELECT processed, retry_count, last_error FROM shop.outbox ORDER BY id"
            return outside.execute(asked).fetchall()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path, fresh_database(SHOP), RunClock(tmp_path / CLOCK, start=NOON))
    stage.ran(prepared)
    return stage


async def versions(stores: Stores) -> list[int]:
    return [each.message.version for each in await received(stores)]


async def three_changes(stores: Stores) -> None:
    await announced(stores, "o-1", 3)


# --- the document's four rows -------------------------------------------------------------------------------


@pytest.mark.proves("PG-23")
@pytest.mark.proves("PG-27")
def test_a_writer_killed_before_its_commit_leaves_no_row_and_no_message(stage: Stage) -> None:
    with stage.process("hang") as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writer.kill()
        writer.wait()

    async def looked(stores: Stores) -> None:
        await announced(stores, ORDERS[0], 1)  # its locks are gone with it, and the order is not there
        assert (await OUTBOX.publish(stores)).sent == 1
        assert await versions(stores) == [1]

    stage.ran(looked)
    assert stage.rows() == [(True, 0, None)]


@pytest.mark.proves("PG-27")
@pytest.mark.parametrize(
    ("count", "moment"),
    [(1, "after"), (2, "after"), (3, "before"), (4, "after")],
    ids=["after the claim", "after the first send", "before it is marked", "after the second send"],
)
def test_what_a_killed_publisher_claimed_is_sent_by_another(stage: Stage, count: int, moment: str) -> None:
    stage.ran(three_changes)
    stage.killed("round", count, moment)

    async def taken_over(stores: Stores) -> None:
        assert (await OUTBOX.publish(stores)).claimed == 0  # not before the claim is over
        stage.clock.advance(OUTBOX.lease_s)
        await OUTBOX.publish(stores)
        assert await versions(stores) == [1, 2, 3]

    stage.ran(taken_over)
    assert [row[0] for row in stage.rows()] == [True, True, True]


@pytest.mark.proves("PG-26")
@pytest.mark.proves("PG-27")
def test_a_send_that_failed_is_made_at_the_next_poll_though_the_publisher_was_killed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, fresh_database(SHOP), RunClock(tmp_path / CLOCK, start=NOON))
    stage.ran(lambda stores: announced(stores, "o-1", 1))  # its queue is not there
    with stage.process("work"), connected(stage.sql) as outside:
        while not outside.execute("SELECT 1 FROM shop.outbox WHERE retry_count = 1").fetchone():
            time.sleep(0.01)  # leaves the processor to who shall do it
    [(processed, retries, reason)] = stage.rows()
    assert (processed, retries) == (False, 1)
    assert reason.startswith("NotFound: ")
    stage.ran(prepared)
    stage.clock.advance(OUTBOX.poll_s)

    async def heard(stores: Stores) -> list[int]:
        messages = await stores.run(changes.receive(1, wait_s=20))
        return [each.message.version for each in messages]

    with stage.process("work"):
        assert stage.ran(heard) == [1]


@pytest.mark.proves("PG-27")
def test_what_is_sent_twice_has_one_effect(stage: Stage) -> None:
    stage.ran(lambda stores: announced(stores, "o-1", 1))
    stage.killed("round", 2, "after")  # sent, and not marked
    stage.clock.advance(FORGOTTEN_S)
    stage.ran(OUTBOX.publish)
    # Receive, effect, delete: killed when the effect is done and the message is not deleted.
    stage.killed("take", 2, "after")
    stage.clock.advance(BETWEEN_ROUNDS_S)

    async def drained(stores: Stores) -> tuple[int, list[tuple[str, int]]]:
        messages = 0
        while count := await taken(stores):
            messages += count
        return messages, [(each.order_id, each.version) for each in await stores.run(effects())]

    assert stage.ran(drained) == (2, [("o-1", 1)])


# --- late, and at random ------------------------------------------------------------------------------------


@pytest.mark.proves("PG-X6")
def test_a_publisher_that_is_stopped_past_its_claim_undoes_nothing_of_anothers_work(stage: Stage) -> None:
    stage.ran(three_changes)
    with stage.process("round", 1, "after", "SIGSTOP") as late:
        _, status = os.waitpid(late.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        stage.clock.advance(OUTBOX.lease_s + 1)

        async def overtaken(stores: Stores) -> None:
            assert (await OUTBOX.publish(stores)).sent == 3
            await stores.transact(
                OUTBOX.enqueue(stores, "o-1", changes, OrderChanged(order_id="o-1", version=4))
            )
            assert (await OUTBOX.publish(stores)).sent == 1

        stage.ran(overtaken)
        with connected(stage.sql) as outside:
            before = outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall()
            late.send_signal(signal.SIGCONT)
            assert late.wait(60) == 0
            assert outside.execute("SELECT * FROM shop.outbox ORDER BY id").fetchall() == before
    assert stage.ran(versions) == [1, 2, 3, 4]


@pytest.fixture
def own_server() -> Iterator[Stage]:
    """With a PostgreSQL of its own, which its processes start again when they find it gone.

    Not in a folder of pytest's: for root the server runs as another user, whom pytest shuts out of there.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-outbox-"))
    sql = f"{EMBEDDED_SQL_SCHEME}{folder / 'postgres'}"
    yield Stage(folder, sql, RunClock(folder / CLOCK, start=NOON))
    shutil.rmtree(folder)


@pytest.mark.proves("PG-27")
@pytest.mark.timeout(3600 if SOAK else 120)
def test_writers_publishers_consumers_and_the_server_are_killed_and_nothing_is_lost_or_done_twice(
    own_server: Stage,
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)

    async def played() -> None:
        async with stores_in(own_server.folder, own_server.sql) as stores:
            await migrate_schemas(stores, SYSTEM.schemas)
            await prepared(stores)
            for _ in range(ROUNDS):
                await _round(own_server, stores, random)
                own_server.clock.advance(BETWEEN_ROUNDS_S)
        # On connections that no killed server has broken.
        async with stores_in(own_server.folder, own_server.sql) as stores:
            await _drained(stores)
            await _check(stores)

    asyncio.run(played())


async def _round(stage: Stage, stores: Stores, random: Random) -> None:
    """Several processes at once, each until it kills itself; meanwhile the server is killed under them."""
    with ExitStack() as several:
        processes = [
            several.enter_context(
                stage.process(
                    role,
                    random.randrange(20, REQUESTS_MAX),
                    random.choice(["before", "after"]),
                    seed=random.randrange(2**32),
                )
            )
            for role in ROLES
        ]
        await _until_some_are_announced(stores, processes, random.randrange(3, 10))
        os.kill(_postmaster(stage), signal.SIGKILL)
        for process in processes:
            _, said = await asyncio.to_thread(process.communicate, timeout=60)
            assert process.returncode == -signal.SIGKILL, said


async def _until_some_are_announced(stores: Stores, processes: list[Process], count: int) -> None:
    before = await _announced(stores)
    while await _announced(stores) < before + count and any(each.poll() is None for each in processes):
        await asyncio.sleep(0)


async def _announced(stores: Stores) -> int:
    found = [await stores.run(order(order_id)) for order_id in ORDERS]
    return sum(each.version for each in found if each is not None)


def _postmaster(stage: Stage) -> int:
    file = Path(stage.sql.removeprefix(EMBEDDED_SQL_SCHEME)) / "server" / "postmaster.pid"
    return int(file.read_text().splitlines()[0])


async def _drained(stores: Stores) -> None:
    while (await OUTBOX.publish(stores)).claimed:
        continue
    assert await OUTBOX.backlog(stores) == ()
    while await taken(stores):
        continue


async def _check(stores: Stores) -> None:
    """Each change of an order had its effect, once, and in the order of the changes."""
    found = [await stores.run(order(order_id)) for order_id in ORDERS]
    expected = {each.order_id: list(range(1, each.version + 1)) for each in found if each is not None}
    did: dict[str, list[int]] = defaultdict(list)
    for each in await stores.run(effects()):
        did[each.order_id].append(each.version)
    print(f"{sum(map(len, expected.values()))} changes")  # noqa: T201
    assert did == expected
    assert sum(map(len, expected.values())) >= ROUNDS * 3
