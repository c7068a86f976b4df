"""An outbox: an order and the event that announces it are committed together, and the event is sent later.

Shows that a crash between the two loses nothing: the next process finds the event and publishes it, once.

    pip install holdfast-state
    python outbox.py place o-1 --crash   # commits the order and its event, then kills itself
    python outbox.py publish             # sends what is waiting, and reads the queue as a subscriber would
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from operator import attrgetter

from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Entity,
    Key,
    Put,
    Queue,
    Rate,
    Stores,
    System,
    Table,
    attr,
    open_stores,
    pattern,
    provision,
)
from holdfast.core.errors import TransactionCancelled
from holdfast.guarantees import OUTBOX, Outbox


class OrderPlaced(BaseModel):
    order_id: str
    cents: int


ORDER = Rate(per="order")
orders = Table("Orders", partition="orderId")
by_order = attrgetter("order_id")
events = Queue("order-events", OrderPlaced, fifo=True, group=by_order, deduplication=by_order)
outbox = Outbox(events, prefix="OB", rate=ORDER)


class Order(Entity, table=orders):
    order_id: Attr[str] = attr()
    cents: Attr[int] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(order_id)


@pattern("O1", "Place an order", rate=ORDER, example=("o-1", 1290))
def place_order(order_id: str, cents: int) -> Put[Order]:
    return Order.create(Order(order_id=order_id, cents=cents))


SHOP = System(
    "shop",
    "Takes orders and announces them",
    tables=(orders, OUTBOX),
    components=(
        Component("api", uses=(place_order, outbox.publisher)),
        # In a deployment, a worker of this component runs the schedule.
        Component("relay", uses=(outbox.relay,), schedules=(outbox.schedule(),)),
    ),
    queues=(events,),
)


async def place(stores: Stores, order_id: str) -> None:
    """Commit the order and its event in one transaction."""
    event = OrderPlaced(order_id=order_id, cents=1290)
    try:
        await stores.transact(
            place_order(order_id, event.cents), outbox.enqueue(stores, order_id, event, sequence=1)
        )
    except TransactionCancelled:
        print(f"{order_id} exists: neither the order nor an event was written")
        return
    print(f"{order_id} is placed", flush=True)


async def publish(stores: Stores) -> None:
    """Send the waiting events, and print what a subscriber receives."""
    sent = (await outbox.send_unsent(stores.for_component("relay"))).sent
    print(f"{sent} sent")
    for received in await stores.run(events.receive(10)):
        print(f"received: {received.message}")
        await stores.run(events.delete(received))


async def main(command: str, *more: str) -> None:
    async with open_stores(SHOP) as stores:
        await provision(stores, SHOP)
        if command == "publish":
            await publish(stores)
            return
        await place(stores.for_component("api"), more[0])
        if "--crash" in more:
            os.kill(os.getpid(), signal.SIGKILL)
        await publish(stores)


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["place", "o-1"])))
