"""A depot: orders in a table, parcels in a queue with an outbox, a carrier behind a breaker."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from holdfast import Attr, Component, Document, Entity, Get, Key, Put, Rate, System, Table, attr, pattern
from holdfast.guarantees import BREAKERS, OUTBOX, Breaker, Circuit, Outbox
from holdfast.model.queues import Queue
from holdfast.model.system import Http
from holdfast.runtime import Stores

ORDER = Rate(per="order")

orders = Table("Orders", partition="orderId")


class Order(Entity, table=orders):
    order_id: Attr[str] = attr()
    of = Key(order_id)


class Parcel(Document):
    order_id: str


parcels = Queue("parcels", Parcel, max_receives=1, pattern_ids=("P2", "P3", "P4"), rate=ORDER)
outbox = Outbox(parcels, prefix="OB", rate=ORDER)
carriers = Breaker(Circuit, prefix="CB", rate=ORDER, failures=1)


@pattern("O1", "An order", rate=ORDER, example=("o-1",))
def find_order(order_id: str) -> Get[Order]:
    return Order.of(order_id).get()


@pattern("O2", "Take an order", rate=ORDER, example=lambda: (Order(order_id="o-1"),))
def take_order(order: Order) -> Put[Order]:
    return Order.put(order)


def build_routes(stores: Stores) -> APIRouter:
    """Return a route that takes an order, and one that fails."""
    router = APIRouter()

    @router.post("/orders/{order_id}")
    async def take(order_id: str) -> dict[str, Any]:
        await stores.run(take_order(Order(order_id=order_id)))
        return {}

    @router.get("/broken")
    async def fail() -> dict[str, Any]:
        raise RuntimeError("broken on purpose")

    return router


DEPOT = System(
    "depot",
    "Takes orders and sends parcels",
    title="The depot",
    tables=(orders, OUTBOX, BREAKERS),
    queues=(parcels,),
    components=(
        Component("api", uses=(find_order, take_order, outbox.publisher)),
        Component("sender", uses=(parcels.consumer, outbox.relay, carriers)),
    ),
    http=Http(routes=build_routes),
)
