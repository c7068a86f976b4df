"""A system for the tests of the data browser: orders, customers, a history and a secret in one table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from holdfast import (
    Attr,
    Bucket,
    Component,
    Document,
    Entity,
    Get,
    IndexKey,
    Key,
    Put,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    open_memory_stores,
    pattern,
    provision,
)
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.guarantees import Audit, AuditEntry
from holdfast.guarantees.resilience.lease import LeaseRecord
from holdfast.model.entities import EpochSeconds
from holdfast.model.system import Privacy
from holdfast.operations.tables import GetItem, PutItem
from holdfast.operations.values import Item
from holdfast.security.ciphers import MAGIC

NAME: Final = "warehouse"
PER_ORDER: Final = Rate(per="order")
CIPHERTEXT: Final = MAGIC + b"\0\x10secret-key-name0"

stock = Table(
    "Stock",
    "PK",
    "SK",
    ttl="expiresAt",
    stream="NEW_AND_OLD_IMAGES",
    point_in_time_recovery=True,
    purpose="Orders, customers and the history of each order",
)
by_mail = stock.global_index("by-mail", "mailKey", "givenName", purpose="Customers by their address")
by_status = stock.global_index("by-status", "state", "placedAt", purpose="Orders of a status by time")
logs = Table("Notes", "number", partition_type="N")
parcels = Bucket("warehouse-parcels")
labels = parcels.objects("labels/{order_id}.json", content_type="application/json", lifetime_days=30)


class State(StrEnum):
    placed = "placed"
    packed = "packed"


class Line(Document):
    article: str
    count: int


class Order(Entity, table=stock):
    order_id: Attr[str] = attr()
    state: Attr[State] = attr(default=State.placed)
    lines: Attr[list[Line]] = attr(default_factory=list)
    count: Attr[int] = attr(default=0)
    contact: Attr[str | None] = attr("contactPhone", default=None)
    note: Attr[str | None] = attr(default=None)
    placed_at: Attr[datetime] = attr()
    version: Attr[int] = attr(default=1)
    of = Key("ORDER#" + order_id, "ORDER")
    by_state = IndexKey(by_status, state, placed_at)


class Customer(Entity, table=stock):
    customer_id: Attr[str] = attr()
    email: Attr[str] = attr()
    given_name: Attr[str | None] = attr("givenName", default=None)
    of = Key("CUSTOMER#" + customer_id, "CUSTOMER")
    by_mail = IndexKey(by_mail, "MAIL#" + email, given_name)


class OrderEvent(AuditEntry, table=stock):
    scope: Attr[str] = attr()
    place: Attr[str] = attr("SK")
    expires_at: Attr[EpochSeconds] = attr()
    of = Key("EVENTS#" + scope, place)


class Receipt(Entity, table=stock):
    """A record that the system only creates."""

    order_id: Attr[str] = attr()
    text: Attr[str] = attr()
    of = Key("RECEIPT#" + order_id, "RECEIPT")


class Account(Entity, table=stock):
    account_id: Attr[str] = attr()
    key_encrypted: Attr[bytes] = attr()
    of = Key("ACCOUNT#" + account_id, "ACCOUNT")


class Shift(LeaseRecord, table=stock):
    shift_id: Attr[str] = attr()
    of = Key("SHIFT#" + shift_id, "SHIFT")


_EXAMPLE: Final = Order(order_id="o-1", placed_at=datetime(2026, 11, 18, 9, tzinfo=UTC))
AUDIT: Final = Audit(OrderEvent, prefix="AU", rate=PER_ORDER, example={"scope": "o-1"})


@pattern("W1", "Place an order", rate=PER_ORDER, example=(_EXAMPLE,))
def place(order: Order) -> Put[Order]:
    return Order.create(order)


@pattern("W2", "Pack an order", rate=PER_ORDER, example=("o-1", 1))
def pack(order_id: str, seen: int) -> Update[Order]:
    return Order.of(order_id).update().set(Order.count, 2).at_version(Order.version, seen)


@pattern("W3", "An order", rate=PER_ORDER, example=("o-1",))
def order(order_id: str) -> Get[Order]:
    return Order.of(order_id).get()


@pattern("W4", "Keep a receipt", rate=PER_ORDER, example=(Receipt(order_id="o-1", text="paid"),))
def keep_receipt(receipt: Receipt) -> Put[Receipt]:
    return Receipt.create(receipt)


SYSTEM: Final = System(
    NAME,
    "Packs what people ordered",
    tables=(stock, logs),
    buckets=(parcels,),
    components=(Component("api", uses=(place, pack, order, keep_receipt, AUDIT)),),
)


def build_system(**privacy: Any) -> System:
    """Return the system with another redaction."""
    return System(
        NAME,
        "Packs what people ordered",
        tables=SYSTEM.tables,
        buckets=SYSTEM.buckets,
        components=SYSTEM.components,
        privacy=Privacy(**privacy),
    )


class HandClock:
    """A clock that moves only by hand."""

    def __init__(self) -> None:
        self.moment = SYSTEM_CLOCK.now()

    def now(self) -> float:
        return self.moment


@asynccontextmanager
async def open_warehouse(system: System = SYSTEM, clock: HandClock | None = None) -> AsyncIterator[Stores]:
    """Open the warehouse in memory, with its tables."""
    async with open_memory_stores(system, clock=clock) as stores:
        await provision(stores, system)
        yield stores


async def put(stores: Stores, *items: Item, table: Table = stock) -> None:
    """Write items as they are."""
    for each in items:
        await stores.tables.run(PutItem(stores.physical_name(table), each))


async def read(stores: Stores, key: Item, table: Table = stock) -> Item | None:
    """Return an item as it is stored."""
    return (await stores.tables.run(GetItem(stores.physical_name(table), key))).item


def build_order(number: int, **attributes: Any) -> Item:
    """Return the item of an order."""
    placed_at = datetime(2026, 11, 18, 9, number % 60, tzinfo=UTC)
    values = {"order_id": f"o-{number}", "placed_at": placed_at, **attributes}
    entity = Order(**values)
    item: Item = Order.__declaration__.to_item(entity)  # type: ignore[attr-defined]
    return item


def build_customer(number: int, **attributes: Any) -> Item:
    """Return the item of a customer."""
    values = {"customer_id": f"c-{number}", "email": f"ada{number}@example.org", **attributes}
    item: Item = Customer.__declaration__.to_item(Customer(**values))  # type: ignore[attr-defined]
    return item
