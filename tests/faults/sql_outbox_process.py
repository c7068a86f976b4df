"""Processes around an outbox in SQL that end, or stop, at one of their requests: for `test_sql_outbox_killed.py`.

python -m tests.faults.sql_outbox_process FOLDER SQL ROLE SEED COUNT MOMENT SIGNAL

    write     changes orders with their announcements, again and again
    publish   publishes, again and again
    take      takes messages off the queue, does their effect and deletes them, again and again
    round     publishes once, and ends
    work      works as the component `publisher`, until it is killed
    hang      changes an order in a transaction that is never committed

COUNT is the request, to PostgreSQL or to the queue, at which SIGNAL is sent to itself: "before" it is made or "after" it
is done. With 0 there is none.
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

from holdfast import Stores, WorkerGroup
from holdfast.core.clock import RunClock
from holdfast.core.errors import Conflict, RetryLater
from holdfast.runtime.engines import Engines
from tests.unit.guarantees.sql_announcing import (
    INBOX,
    OUTBOX,
    SYSTEM,
    changed,
    changes,
    effect,
    order,
    stores_at,
)

R = TypeVar("R")

ORDERS: Final = tuple(f"o-{number}" for number in range(6))
CLOCK: Final = "clock"


@dataclass
class Fate:
    """When a process ends. The requests to all engines are counted together."""

    left: int
    moment: str
    by: signal.Signals

    async def met(self, ask: Callable[[], Awaitable[R]]) -> R:
        self.left -= 1
        is_last = self.left == 0
        if is_last and self.moment == "before":
            os.kill(os.getpid(), self.by)
        try:
            return await ask()
        finally:
            if is_last and self.moment == "after":  # also when it was refused
                os.kill(os.getpid(), self.by)


class FatedQueues:
    def __init__(self, behind: Any, fate: Fate) -> None:
        self._behind, self._fate = behind, fate

    async def run(self, operation: Any) -> Any:
        return await self._fate.met(lambda: self._behind.run(operation))

    def close(self) -> None:
        self._behind.close()


class FatedSql(FatedQueues):
    """The same for single statements, and for those of a transaction."""

    async def run_all(self, statements: Any) -> Any:
        return await self._fate.met(lambda: self._behind.run_all(statements))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with self._behind.transaction() as transaction:
            yield FatedQueues(transaction, self._fate)

    def notices(self, channel: str) -> Any:
        return self._behind.notices(channel)


@asynccontextmanager
async def stores_in(folder: Path, sql: str, fate: Fate | None = None) -> AsyncIterator[Stores]:
    """On the queue's file and the clock of a folder, and on the database of a URL or a folder of its own."""
    async with stores_at(sql, clock=RunClock(folder / CLOCK), folder=folder) as stores:
        if fate is not None:
            queues = FatedQueues(stores.engines.get("queues"), fate)
            database = FatedSql(stores.engines.get("sql"), fate)
            stores.engines = Engines({"queues": lambda: queues, "sql": lambda: database})
        yield stores


async def main(folder: str, sql: str, role: str, seed: str, *fate: str) -> None:
    count, moment, by = fate
    async with stores_in(Path(folder), sql, Fate(int(count), moment, signal.Signals[by])) as stores:
        await ROLES[role](stores, Random(seed))


async def _writes(stores: Stores, random: Random) -> None:
    while True:
        try:
            await _change(stores, random)
        except (Conflict, RetryLater):
            continue  # another writer was quicker, or the server is gone: look again


async def _change(stores: Stores, random: Random) -> None:
    order_id = random.choice(ORDERS)
    seen = await stores.run(order(order_id))
    writes = changed(stores, order_id, 0 if seen is None else seen.version)
    if random.random() < 0.5:
        await stores.transact(*writes)
        return
    async with stores.sql_transaction() as sql:
        for write in writes:
            await sql.run(write)


async def _publishes(stores: Stores, random: Random) -> None:
    while True:
        try:
            await OUTBOX.publish(stores)
        except RetryLater:
            continue


async def _takes(stores: Stores, random: Random) -> None:
    while True:
        try:
            await taken(stores, wait_s=0.05)
        except RetryLater:
            continue  # not deleted, and so it comes again


async def taken(stores: Stores, wait_s: float = 0.0) -> int:
    """One message taken in, if there is one; how many."""
    messages = await stores.run(changes.receive(1, wait_s=wait_s))
    for each in messages:
        did = effect(each.message.order_id, each.message.version)
        await INBOX.run_once(stores, "taker", each.announcement_id, did)
        await stores.run(changes.delete(each))
    return len(messages)


async def _one_round(stores: Stores, random: Random) -> None:
    await OUTBOX.publish(stores)


async def _works(stores: Stores, random: Random) -> None:
    async with WorkerGroup(stores, [SYSTEM.get_component("publisher")]):
        await asyncio.Event().wait()


async def _hangs(stores: Stores, random: Random) -> None:
    async with stores.sql_transaction() as sql:
        for write in changed(stores, ORDERS[0], 0):
            await sql.run(write)
        os.write(1, b"written\n")
        await asyncio.Event().wait()


ROLES: Final[dict[str, Callable[[Stores, Random], Awaitable[None]]]] = {
    "write": _writes,
    "publish": _publishes,
    "take": _takes,
    "round": _one_round,
    "work": _works,
    "hang": _hangs,
}

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
