"""A small system for report tests: orders of customers, with a default and an optional index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from holdfast import (
    Attr,
    Component,
    Entity,
    Get,
    IndexKey,
    Key,
    Load,
    Put,
    Query,
    Rate,
    Stores,
    System,
    Table,
    Update,
    Volume,
    attr,
    batch_put,
    pattern,
)
from holdfast.model.demo import Demo
from holdfast.model.entities import CountQuery
from holdfast.model.entities.writes import Delete, Transact, transact
from holdfast.model.system import Design
from holdfast.runtime import create_tables

ORDERS = 400
ORDERS_OF_THE_FIRST = 3
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

orders = Table(
    "Orders", partition="orderId", stream="NEW_IMAGE", point_in_time_recovery=True, purpose="What was bought"
)
by_customer = orders.global_index("customer-index", "customerId", "placedAt", purpose="A customer's orders")
by_status = orders.global_index("status-index", "status", "orderId", default=False)
customers = Table("Customers", partition="customerId")


class Status(StrEnum):
    open = "open"
    paid = "paid"


class Order(Entity, table=orders):
    order_id: Attr[str] = attr()
    customer_id: Attr[str] = attr()
    placed_at: Attr[datetime] = attr()
    status: Attr[Status] = attr(default=Status.open)
    note: Attr[str] = attr(default="")
    of = Key(order_id)
    by_customer = IndexKey(by_customer, customer_id, placed_at)
    by_status = IndexKey(by_status, status, order_id)


class Customer(Entity, table=customers):
    customer_id: Attr[str] = attr()
    orders: Attr[int] = attr(default=0)
    of = Key(customer_id)


def make_order(number: int) -> Order:
    """Build an order: the first three belong to the first customer, the others to one customer each."""
    customer = 0 if number < ORDERS_OF_THE_FIRST else number
    return Order(
        order_id=f"o-{number}",
        customer_id=f"c-{customer}",
        placed_at=BEGAN + timedelta(minutes=number),
        note="n" * 200,
    )


CHECKOUT = Rate(per="checkout")
VISIT = Rate(per="visit", times=2)


@pattern("S1", "One order", rate=VISIT, example=("o-7",))
def order_of(order_id: str) -> Get[Order]:
    return Order.of(order_id).get()


@pattern("S2", "The orders of a customer, oldest first", rate=VISIT, example=("c-0",))
def orders_of(customer_id: str) -> Query[Order]:
    return Order.by_customer(customer_id).query()


@pattern("S3", "How many orders are open", rate=CHECKOUT, example=(Status.open,))
def count_of(status: Status) -> CountQuery[Order]:
    return Order.by_status(status).query().count()


@pattern("S4", "Place an order", rate=CHECKOUT, example=lambda: (make_order(ORDERS),))
def place(placed: Order) -> Put[Order]:
    return Order.create(placed)


@pattern("S5", "An order is given to another customer", rate=CHECKOUT, example=("o-9", "c-1", BEGAN))
def give(order_id: str, customer_id: str, placed_at: datetime) -> Update[Order]:
    return Order.of(order_id).update().set(Order.customer_id, customer_id).set(Order.placed_at, placed_at)


@pattern("S6", "Forget an order", rate=CHECKOUT, example=("o-11",))
def forget(order_id: str) -> Delete[Order]:
    return Order.of(order_id).delete()


@pattern("S7", "Place an order and count it", rate=CHECKOUT, example=lambda: (make_order(ORDERS + 1),))
def place_and_count(placed: Order) -> Transact:
    counted = Customer.of(placed.customer_id).update().add(Customer.orders, 1).or_create()
    return transact(Order.create(placed), counted)


@pattern("S8", "The open orders, twenty at a time", rate=VISIT, example=(Status.open,))
def open_orders(status: Status) -> Query[Order]:
    return Order.by_status(status).query().page(20)


async def sample(stores: Stores, *, scale: int = 1, progress: Any = None) -> None:
    """Create the tables and put 2,000 orders; no customer."""
    await create_tables(stores, (orders, customers))
    puts = [Order.put(make_order(number)) for number in range(ORDERS * scale)]
    await stores.run(batch_put(puts))
    if progress is not None:
        progress("orders", len(puts), len(puts))


SYSTEM = System(
    name="shop",
    purpose="Sells things",
    tables=(orders, customers),
    patterns=(order_of, orders_of, count_of, place, give, forget, place_and_count, open_orders),
    components=(
        Component("till", uses=(order_of, orders_of, count_of, open_orders, place, give, place_and_count)),
        Component("cleaner", uses=(forget,)),
    ),
    design=Design(
        load=Load(
            volumes={
                "checkout": Volume(per_month=50_000, distinct_keys=10_000),
                "visit": Volume(per_month=1_000_000, distinct_keys=10_000),
            },
            peak_factor=5,
        )
    ),
    demo=Demo(sample=sample),
)
