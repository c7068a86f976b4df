"""A shop in SQL that announces its changes through an outbox and takes them in through an inbox, for their tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import (
    Component,
    Queue,
    Rate,
    Schema,
    SqlChange,
    SqlOne,
    SqlRow,
    SqlRows,
    Stores,
    System,
    create_queues,
    open_stores,
    pattern,
)
from holdfast.config.settings import IN_MEMORY, SQLITE_SCHEME, Settings
from holdfast.core.clock import Clock
from holdfast.guarantees import SqlInbox, SqlOutbox
from holdfast.model.queues import ReceivedMessage
from holdfast.model.sql import SqlWrite
from holdfast.operations.queues import SendMessages
from holdfast.runtime.engines import Engines

SHOP = Schema("shop", migrations="tests.unit.guarantees.shop_migrations")


class OrderChanged(BaseModel):
    order_id: str
    version: int
    note: str = ""


def _queue(name: str, *, fifo: bool = True) -> Queue[OrderChanged]:
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
INBOX = SqlInbox(SHOP, "IN", rate=Rate("order"))


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
    patterns=(order, change, effect, effects, *OUTBOX.patterns, *INBOX.patterns),
    components=(
        Component("api", reads=(order,), writes=(change, OUTBOX.append)),
        Component("publisher", writes=OUTBOX.publish_patterns, schedules=(OUTBOX.schedule(),)),
        Component("taker", reads=INBOX.reads, writes=(effect, *INBOX.writes)),
    ),
    queues=(changes, invoices, notes),
    schemas=(SHOP,),
    outboxes=(OUTBOX,),
)


def stores_at(
    sql: str, *, clock: Clock, folder: Path | None = None, statement_timeout_ms: int = 15_000
) -> Stores:
    """With queues in memory, or in a folder."""
    settings = Settings(
        sql=sql,
        sql_statement_timeout_ms=statement_timeout_ms,
        queues=IN_MEMORY if folder is None else f"{SQLITE_SCHEME}{folder / 'queues.db'}",
        tables=IN_MEMORY,
    )
    return open_stores(SYSTEM, settings, clock=clock)


async def prepared(stores: Stores) -> None:
    await create_queues(stores, SYSTEM.queues)


def changed(
    stores: Stores, order_id: str, seen: int, *, queue: Queue[OrderChanged] = changes
) -> tuple[SqlWrite[Any], ...]:
    """The change of an order and its announcement."""
    message = OrderChanged(order_id=order_id, version=seen + 1)
    return change(order_id, seen), OUTBOX.enqueue(stores, order_id, queue, message)


async def announced(stores: Stores, order_id: str, count: int) -> None:
    """The first changes of an order."""
    for seen in range(count):
        await stores.transact(*changed(stores, order_id, seen))


async def received(
    stores: Stores, queue: Queue[OrderChanged] = changes
) -> list[ReceivedMessage[OrderChanged]]:
    """Everything that is in the queue, taken out of it."""
    found: list[ReceivedMessage[OrderChanged]] = []
    while messages := await stores.run(queue.receive(10)):
        found += messages
        await stores.run(queue.delete(*messages))
    return found


class Watched:
    """The queues of other stores. `before` is called with every send, and fails it by raising."""

    def __init__(self, behind: Any, before: Callable[[SendMessages], Awaitable[None]]) -> None:
        self._behind, self._before = behind, before

    async def run(self, operation: Any) -> Any:
        if isinstance(operation, SendMessages):
            await self._before(operation)
        return await self._behind.run(operation)

    def close(self) -> None:
        self._behind.close()


def watch(stores: Stores, before: Callable[[SendMessages], Awaitable[None]]) -> None:
    """From now on these stores' sends are seen before they are made."""
    queues, sql = stores.engines.get("queues"), stores.engines.get("sql")
    watched = Watched(queues, before)
    stores.engines = Engines({"queues": lambda: watched, "sql": lambda: sql})
