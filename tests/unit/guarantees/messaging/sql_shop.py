"""Example for the tests of the SQL outbox and inbox: a shop in PostgreSQL with messages about its orders."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg

from holdfast import Component, Queue, Rate, Schema, Stores, System, open_stores, pattern
from holdfast.config.settings import IN_MEMORY, SQLITE_SCHEME, Settings
from holdfast.core.clock import Clock
from holdfast.guarantees import SqlInbox, SqlOutbox
from holdfast.model.sql import SqlChange, SqlOne, SqlRow, SqlRows, SqlWrite
from holdfast.runtime import create_queues
from tests.unit.guarantees.messaging.order_outbox import OrderChanged

Outside = psycopg.Connection[Any]

SHOP = Schema("shop", migrations="tests.unit.guarantees.messaging.shop_migrations")


def _queue(name: str, *, fifo: bool = True) -> Queue[OrderChanged]:
    """Declare a queue of order changes; a FIFO one groups by order."""
    if not fifo:
        return Queue(name, OrderChanged)
    return Queue(
        name,
        OrderChanged,
        fifo=True,
        group=lambda message: message.order_id,
        deduplication=lambda message: f"{message.order_id}-{message.version}",
    )


changes, invoices, notes = _queue("shop-changes"), _queue("shop-invoices"), _queue("shop-notes", fifo=False)
OUTBOX = SqlOutbox(
    SHOP, queues=(changes, invoices, notes), prefix="OB", rate=Rate("order"), max_attempts=3, lease_s=30.0
)
INBOX = SqlInbox(SHOP, prefix="IN", rate=Rate("order"))


class Order(SqlRow):
    order_id: str
    version: int


@pattern("SH1", "An order", rate=Rate("order"), example=("o-1",))
def order(order_id: str) -> SqlOne[Order]:
    return SHOP.one(Order, "SELECT {columns} FROM shop.orders WHERE order_id = %(id)s", id=order_id)


@pattern("SH2", "Change an order as it was seen", rate=Rate("order"), example=("o-1", 0))
def change(order_id: str, seen: int) -> SqlChange:
    if not seen:
        return SHOP.change(
            "INSERT INTO shop.orders VALUES (%(id)s, 1) ON CONFLICT DO NOTHING", id=order_id
        ).expect_rows(1)
    return SHOP.change(
        "UPDATE shop.orders SET version = version + 1 WHERE order_id = %(id)s AND version = %(seen)s",
        id=order_id,
        seen=seen,
    ).expect_rows(1)


@pattern("SH3", "What a message brings about", rate=Rate("order"), example=("o-1", 1))
def effect(order_id: str, version: int) -> SqlChange:
    return SHOP.change(
        "INSERT INTO shop.effects (order_id, version) VALUES (%(id)s, %(version)s)",
        id=order_id,
        version=version,
    )


@pattern("SH4", "What messages brought about", rate=Rate("order"))
def effects() -> SqlRows[Order]:
    return SHOP.rows(Order, "SELECT {columns} FROM shop.effects ORDER BY id")


SYSTEM = System(
    "shop",
    "Orders that tell of their changes",
    tables=(),
    patterns=(order, change, effect, effects, *INBOX.patterns),
    components=(
        Component("api", uses=(order, change, OUTBOX.publisher)),
        Component("relay", uses=(OUTBOX.relay,), schedules=(OUTBOX.schedule(),)),
        Component("taker", uses=(effect, INBOX.consumer)),
    ),
    queues=(changes, invoices, notes),
    schemas=(SHOP,),
)


def open_shop_stores(
    sql: str, *, clock: Clock, folder: Path | None = None, statement_timeout_ms: int = 15_000
) -> Stores:
    """Open the shop's stores: SQL at the URL `sql`, tables in memory, queues in memory or in a folder."""
    settings = Settings(
        sql=sql,
        sql_statement_timeout_ms=statement_timeout_ms,
        queues=IN_MEMORY if folder is None else f"{SQLITE_SCHEME}{folder / 'queues.db'}",
        tables=IN_MEMORY,
    )
    return open_stores(SYSTEM, settings, clock=clock)


async def wait_for_a_blocked_query(outside: Outside) -> None:
    """Wait until a statement of another connection waits for a lock."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not outside.execute(asked).fetchone():
        await asyncio.sleep(0)


async def create_shop_queues(stores: Stores) -> None:
    await create_queues(stores, SYSTEM.queues)


def build_change(
    stores: Stores, order_id: str, seen: int, *, queue: Queue[OrderChanged] = changes
) -> tuple[SqlWrite[Any], ...]:
    """Build the change of an order and its outbox row."""
    message = OrderChanged(order_id=order_id, version=seen + 1)
    return change(order_id, seen), OUTBOX.enqueue(stores, order_id, message, queue=queue)


async def publish_changes(stores: Stores, order_id: str, count: int) -> None:
    """Commit the first `count` changes of an order, with their outbox rows."""
    for seen in range(count):
        await stores.transact(*build_change(stores, order_id, seen))
