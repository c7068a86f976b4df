"""A process around an outbox in SQL that kills or pauses itself at one of its requests.

    write     changes orders with their announcements, repeatedly
    relay     sends, repeatedly
    take      takes messages off the queue, does their effect and deletes them, repeatedly
    round     sends one batch, and ends
    work      works as the component `relay`, until it is killed
    hang      changes an order in a transaction that is never committed

For `test_sql_outbox_killed.py`. `count` is the request, to PostgreSQL or to the queue, at which the process
sends the signal `by` to itself: "before" it is made or "after" it is done. With 0 it never does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import Conflict, RetryLater
from holdfast.runtime import WorkerGroup
from holdfast.runtime.engines import Engines
from tests.unit.guarantees.messaging.sql_shop import (
    INBOX,
    OUTBOX,
    SYSTEM,
    build_change,
    changes,
    effect,
    open_shop_stores,
    order,
)

R = TypeVar("R")

ORDERS: Final = tuple(f"o-{number}" for number in range(6))
CLOCK: Final = "clock"


@dataclass
class KillPoint:
    """The request at which a process ends. Requests to all engines are counted together."""

    left: int
    moment: str
    by: signal.Signals

    async def run(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Make the request, and send the signal before or after it if it is the chosen one."""
        self.left -= 1
        is_last = self.left == 0
        if is_last and self.moment == "before":
            self._send_signal()
        try:
            return await ask()
        finally:
            if is_last and self.moment == "after":  # even when it was refused
                self._send_signal()

    def _send_signal(self) -> None:
        if self.by is signal.SIGSTOP:
            os.write(1, b"waiting\n")
            sys.stdin.readline()
        else:
            os.kill(os.getpid(), self.by)


class KillableQueues:
    """An engine, or a transaction, whose requests count towards the kill point."""

    def __init__(self, engine: Any, fate: KillPoint) -> None:
        self._behind, self._fate = engine, fate

    async def run(self, operation: Any) -> Any:
        return await self._fate.run(lambda: self._behind.run(operation))

    def close(self) -> None:
        self._behind.close()


class KillableSql(KillableQueues):
    """SQL engine with a kill point at single statements and at those of a transaction."""

    async def run_all(self, statements: Any) -> Any:
        return await self._fate.run(lambda: self._behind.run_all(statements))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._behind.transaction() as transaction:
            yield KillableQueues(transaction, self._fate)

    def listen(self, channel: str) -> Any:
        return self._behind.listen(channel)


@asynccontextmanager
async def open_stores_in(folder: Path, sql: str, fate: KillPoint | None = None) -> AsyncIterator[Stores]:
    """Open stores on the queue's file and clock of a folder, and on the database of a URL or a folder."""
    async with open_shop_stores(sql, clock=RunClock(folder / CLOCK), folder=folder) as stores:
        if fate is not None:
            queues = KillableQueues(stores.engines.get("queues"), fate)
            database = KillableSql(stores.engines.get("sql"), fate)
            stores.engines = Engines({"queues": lambda: queues, "sql": lambda: database})
        yield stores


async def main(
    folder: Path, sql: str, role: str, seed: int, count: int, moment: str, by: signal.Signals
) -> None:
    async with open_stores_in(folder, sql, KillPoint(count, moment, by)) as stores:
        await ROLES[role](stores, Random(seed))


async def _write_repeatedly(stores: Stores, random: Random) -> None:
    while True:
        try:
            await _change(stores, random)
        except (Conflict, RetryLater):
            continue  # another writer was faster, or the server is down: read again


async def _change(stores: Stores, random: Random) -> None:
    """Change a random order with its announcement, in one `transact` or in a transaction block."""
    order_id = random.choice(ORDERS)
    seen = await stores.run(order(order_id))
    writes = build_change(stores, order_id, 0 if seen is None else seen.version)
    if random.random() < 0.5:
        await stores.transact(*writes)
        return
    async with stores.sql_transaction() as sql:
        for write in writes:
            await sql.run(write)


async def _relay_repeatedly(stores: Stores, random: Random) -> None:
    while True:
        try:
            await OUTBOX.send_unsent(stores)
        except RetryLater:
            continue


async def _take_repeatedly(stores: Stores, random: Random) -> None:
    while True:
        try:
            await take(stores, wait_s=0.05)
        except RetryLater:
            continue  # not deleted, so it is received again


async def take(stores: Stores, wait_s: float = 0.0) -> int:
    """Receive at most one message, do its effect once and delete it; return how many were received."""
    messages = await stores.run(changes.receive(1, wait_s=wait_s))
    for each in messages:
        did = effect(each.message.order_id, each.message.version)
        await INBOX.run_once(stores, "taker", each.announcement_id, did)
        await stores.run(changes.delete(each))
    return len(messages)


async def _relay_once(stores: Stores, random: Random) -> None:
    await OUTBOX.send_unsent(stores)


async def _work(stores: Stores, random: Random) -> None:
    """Run the component `relay` until the process is killed."""
    async with WorkerGroup(stores, [SYSTEM.get_component("relay")]):
        await asyncio.Event().wait()


async def _hang(stores: Stores, random: Random) -> None:
    """Change an order in a transaction, print "written", and wait without committing."""
    async with stores.sql_transaction() as sql:
        for write in build_change(stores, ORDERS[0], 0):
            await sql.run(write)
        os.write(1, b"written\n")
        await asyncio.Event().wait()


ROLES: Final[dict[str, Callable[[Stores, Random], Awaitable[None]]]] = {
    "write": _write_repeatedly,
    "relay": _relay_repeatedly,
    "take": _take_repeatedly,
    "round": _relay_once,
    "work": _work,
    "hang": _hang,
}
