"""A badly designed system for tests: a pattern without an example, and a rate without a volume."""

from __future__ import annotations

from holdfast import Attr, Entity, Get, Key, Load, Rate, System, Table, Volume, attr, pattern
from holdfast.model.system import Design

orders = Table("BrokenOrders", partition="orderId")


class Order(Entity, table=orders):
    order_id: Attr[str] = attr()
    of = Key(order_id)


@pattern("B1", "Has no example", rate=Rate(per="visit"))
def without_example(order_id: str) -> Get[Order]:
    return Order.of(order_id).get()


@pattern("B2", "Has no volume", rate=Rate(per="blue moon"), example=("o-1",))
def without_volume(order_id: str) -> Get[Order]:
    return Order.of(order_id).get()


SYSTEM = System(
    name="brokenshop",
    purpose="Sells nothing",
    tables=(orders,),
    patterns=(without_example, without_volume),
    design=Design(load=Load(volumes={"visit": Volume(per_month=1_000)})),
)
