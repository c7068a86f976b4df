"""Example for the outbox's tests: an order table that publishes its changes through an outbox, in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Entity,
    Key,
    Queue,
    Rate,
    Stores,
    System,
    Table,
    Write,
    attr,
    open_memory_stores,
    pattern,
)
from holdfast.core.clock import Clock
from holdfast.guarantees import OUTBOX, Outbox
from holdfast.model.entities.writes import Put
from holdfast.model.queues import ReceivedMessage
from holdfast.operations.queues import SendMessages
from holdfast.runtime import create_queues, create_tables
from holdfast.runtime.engines import Engines

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC).timestamp()


class ManualClock:
    """Clock that moves only when the test sets `moment`."""

    def __init__(self, now: float = NOON) -> None:
        self.moment = now

    def now(self) -> float:
        return self.moment


class OrderChanged(BaseModel):
    order_id: str
    version: int
    note: str = ""


orders = Table("Orders", "orderId")
changes = Queue(
    "order-changes",
    OrderChanged,
    fifo=True,
    group=lambda message: message.order_id,
    deduplication=lambda message: f"{message.order_id}-{message.version}",
)
OUTBOX_OF_ORDERS = Outbox(changes, prefix="OB", rate=Rate("order"), lease_s=30.0, max_attempts=3)


class Order(Entity, table=orders):
    order_id: Attr[str] = attr()
    version: Attr[int] = attr(default=0)

    of = Key(order_id)


@pattern("OR1", "Change an order", rate=Rate("order"), example=("o-1", 0))
def change(order_id: str, seen: int) -> Put[Order]:
    put = Order.put(Order(order_id=order_id, version=seen))
    return put.at_version(Order.version, seen) if seen else Order.create(Order(order_id=order_id, version=1))


SYSTEM = System(
    "orders",
    "Orders that tell of their changes",
    tables=(orders, OUTBOX),
    components=(
        Component("api", uses=(change, OUTBOX_OF_ORDERS.publisher)),
        Component("relay", uses=(OUTBOX_OF_ORDERS.relay,)),
    ),
    queues=(changes,),
)


def build_change(stores: Stores, order_id: str, seen: int) -> tuple[Write[Any], ...]:
    """Build the change of an order and its outbox item."""
    message = OrderChanged(order_id=order_id, version=seen + 1)
    return (
        change(order_id, seen),
        OUTBOX_OF_ORDERS.enqueue(stores, order_id, message, sequence=seen + 1),
    )


async def open_order_stores(clock: Clock) -> Stores:
    """Open in-memory stores with the tables and queues of the order system."""
    stores = open_memory_stores(SYSTEM, clock=clock)
    await create_tables_and_queues(stores)
    return stores


async def create_tables_and_queues(stores: Stores, system: System = SYSTEM) -> None:
    await create_tables(stores, system.tables)
    await create_queues(stores, system.queues)


async def receive_all(
    stores: Stores, queue: Queue[OrderChanged] = changes
) -> list[ReceivedMessage[OrderChanged]]:
    """Receive and delete every message in the queue."""
    found: list[ReceivedMessage[OrderChanged]] = []
    while messages := await stores.run(queue.receive(10)):
        found += messages
        await stores.run(queue.delete(*messages))
    return found


class WatchedQueues:
    """Queue engine that calls `before` with every send; `before` fails a send by raising."""

    def __init__(self, behind: Any) -> None:
        self.behind = behind
        self.before: Callable[[SendMessages], Awaitable[None]] = self._accept

    async def _accept(self, send: SendMessages) -> None:
        pass

    async def run(self, operation: Any) -> Any:
        if isinstance(operation, SendMessages):
            await self.before(operation)
        return await self.behind.run(operation)

    def fail(self, error: Exception, *groups: str) -> None:
        """Fail sends from now on, or only those with a message of one of the groups."""

        async def before(send: SendMessages) -> None:
            if not groups or any(each.group in groups for each in send.messages):
                raise error

        self.before = before

    @property
    def is_failing(self) -> bool:
        return self.before != self._accept

    def recover(self) -> None:
        """Accept every send from now on."""
        self.before = self._accept

    def close(self) -> None:
        self.behind.close()


def watch_queues(stores: Stores) -> WatchedQueues:
    """Put an engine in front of the queues of these stores whose sends a test can watch and fail."""
    engines = stores.engines
    watched = WatchedQueues(engines.get("queues"))
    stores.engines = Engines({"queues": lambda: watched, "sql": lambda: engines.get("sql")})
    return watched
