"""A process that writes to an outbox or relays it, and kills itself at one of its requests.

    write    changes orders with their announcements, and sometimes relays the order's aggregate
    relay    sweeps, repeatedly

`count` is the request, to the tables or to the queue, at which it ends: "before" it is made or "after" it is
done.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import Conflict
from holdfast.runtime.engines import Engines
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.messaging.order_outbox import OUTBOX_OF_ORDERS, SYSTEM, Order, build_change

ORDERS: Final = tuple(f"o-{number}" for number in range(6))
CLOCK: Final = "clock"


class SelfKillingEngine:
    """Engine that kills its process at one of the requests; those of two engines are counted together."""

    def __init__(self, engine: Any, left: list[int], moment: str) -> None:
        self._behind, self._left, self._moment = engine, left, moment

    async def run(self, operation: Any) -> Any:
        """Run the operation; kill the process before or after it if it is the chosen request."""
        self._left[0] -= 1
        is_last = self._left[0] == 0
        if is_last and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return await self._behind.run(operation)
        finally:
            if is_last:  # even when it was refused
                os.kill(os.getpid(), signal.SIGKILL)

    def close(self) -> None:
        self._behind.close()


@contextmanager
def open_stores_in(folder: Path, count: int = 0, moment: str = "never") -> Iterator[Stores]:
    """Open the folder's stores; without a count they never kill the process."""
    clock, left = RunClock(folder / CLOCK), [count]
    with open_tables(folder / "tables.db", clock=clock) as tables:
        queues = open_queues(folder / "queues.db", clock=clock)
        engines = Engines({"queues": lambda: SelfKillingEngine(queues, left, moment)})
        yield Stores(SelfKillingEngine(tables, left, moment), system=SYSTEM, clock=clock, engines=engines)
        queues.close()


async def main(folder: Path, role: str, seed: int, count: int, moment: str) -> None:
    with open_stores_in(folder, count, moment) as stores:
        await (_write_repeatedly(stores, Random(seed)) if role == "write" else _sweep_repeatedly(stores))


async def _write_repeatedly(stores: Stores, random: Random) -> None:
    """Change random orders with their announcements, without end, and sometimes relay one."""
    while True:
        order_id = random.choice(ORDERS)
        seen = await stores.run(Order.of(order_id).get().consistent())
        try:
            await stores.transact(*build_change(stores, order_id, 0 if seen is None else seen.version))
        except Conflict:
            continue  # another writer was faster
        if random.random() < 0.5:
            await OUTBOX_OF_ORDERS.send_unsent(stores, order_id)


async def _sweep_repeatedly(stores: Stores) -> None:
    while True:
        await OUTBOX_OF_ORDERS.send_unsent(stores)
