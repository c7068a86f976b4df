"""Queues with messages in every state, and outboxes with announcements that are not relayed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel

from holdfast import Queue, Rate, ReceivedMessage, Stores
from holdfast.core.errors import HoldfastError, InvalidRequest, StoreUnavailable
from holdfast.guarantees import OUTBOX, Outbox, OutboxStatus

from .process import DeadlyQueues, DyingTables, Killed, RefusingQueues, stores_with

VISIBILITY_S: Final = 30


class News(BaseModel):
    topic: str
    number: int
    text: str | None = None


# A standard queue, a FIFO queue, and the two that the outboxes announce on.
papers = Queue("papers", News, visibility_s=VISIBILITY_S, max_receives=2)
ordered = Queue(
    "ordered",
    News,
    fifo=True,
    group=lambda news: news.topic,
    deduplication=lambda news: f"{news.topic}-{news.number}",
    visibility_s=VISIBILITY_S,
    max_receives=2,
)
announced = Queue("announced", News, visibility_s=VISIBILITY_S)
announced_in_order = Queue(
    "announced-in-order",
    News,
    fifo=True,
    group=lambda news: news.topic,
    deduplication=lambda news: f"{news.topic}-{news.number}",
    visibility_s=VISIBILITY_S,
)

ANNOUNCEMENTS: Final = Outbox(announced, "OA", rate=Rate("news"), shards=2, max_attempts=3, pause_s=60)
ORDERED: Final = Outbox(announced_in_order, "OB", rate=Rate("news"), shards=2, max_attempts=3, pause_s=60)

QUEUES: Final = (papers, ordered, announced, announced_in_order)
OUTBOXES: Final = (ANNOUNCEMENTS, ORDERED)
TABLES: Final = (OUTBOX,)
PATTERNS: Final = (*ANNOUNCEMENTS.patterns, *ORDERED.patterns)

# Errors of a queue that refuses an announcement: each is stored with the announcement.
REFUSALS: Final[dict[str, HoldfastError]] = {
    "dead": InvalidRequest("The message is refused."),
    "paused": StoreUnavailable("The queue does not answer."),
}


def news(topic: str, number: int) -> News:
    return News(topic=topic, number=number)


# --- writing ------------------------------------------------------------------------------------------------


async def write(stores: Stores) -> dict[str, Any]:
    return {
        "standard": await _write_standard(stores),
        "fifo": await _write_fifo(stores),
        "outbox": await _write_outboxes(stores),
    }


async def _write_standard(stores: Stores) -> dict[str, Any]:
    """Leave one dead letter, two messages in flight, one that was given back, three visible and one delayed."""
    await stores.run(papers.send(news("dead", 0)))
    for _ in range(2):
        (received,) = await stores.run(papers.receive())
        await stores.run(papers.change_visibility(received, seconds=0))
    assert await stores.run(papers.receive()) == ()
    sent = await stores.run(papers.send_batch([news("paper", number) for number in range(6)]))
    in_flight = await stores.run(papers.receive(2))
    (given_back,) = await stores.run(papers.receive())
    await stores.run(papers.change_visibility(given_back, seconds=0))
    await stores.run(papers.send(news("delayed", 0), delay_s=600))
    return {
        "sent": [each.id for each in sent],
        "in_flight": [_noted(each) for each in in_flight],
        "given_back": _noted(given_back),
    }


async def _write_fifo(stores: Stores) -> dict[str, Any]:
    """Leave a group whose head is in flight, a free group, a dead letter, and ids within the deduplication window."""
    await stores.run(ordered.send(news("doomed", 0)))
    for _ in range(2):
        (received,) = await stores.run(ordered.receive())
        await stores.run(ordered.change_visibility(received, seconds=0))
    assert await stores.run(ordered.receive()) == ()
    sent = [await stores.run(ordered.send(news("blocked", number))) for number in range(3)]
    (head,) = await stores.run(ordered.receive())
    await stores.run(ordered.send_batch([news("free", number) for number in range(3)]))
    return {"sent": [{"id": each.id, "sequence": each.sequence} for each in sent], "head": _noted(head)}


def _noted(received: ReceivedMessage[News]) -> dict[str, Any]:
    return {"id": received.id, "receipt": received.receipt, "number": received.message.number}


async def _write_outboxes(stores: Stores) -> dict[str, Any]:
    for outbox in OUTBOXES:
        for aggregate in ("pending", "dead", "paused", "sent and not removed"):
            for sequence in (1, 2, 3):
                message = news(aggregate, sequence)
                await stores.transact(outbox.enqueue(stores, aggregate, message, sequence=sequence))
        await stores.transact(
            *await outbox.enqueue_numbered(stores, "counted", news("counted", 1), news("counted", 2))
        )
        for aggregate, error in REFUSALS.items():
            await outbox.relay(stores_with(stores, queues=RefusingQueues(error)), aggregate)
        await _relay_and_die(stores, outbox, "sent and not removed")
    waiting = [each for outbox in OUTBOXES for each in await outbox.list_unsent(stores)]
    return {
        "waiting": [
            [each.outbox, each.aggregate, each.sequence, each.part, each.id, each.status, each.reason]
            for each in waiting
        ],
        "cursor": (
            await stores.run(ANNOUNCEMENTS.pattern_set.waiting(OutboxStatus.PENDING, 0).page(2))
        ).cursor,
    }


async def _relay_and_die(stores: Stores, outbox: Outbox[News], aggregate: str) -> None:
    """Leave an announcement that is sent and still in the outbox, and the turn of the relay that was killed."""
    tables = DyingTables(stores.tables)
    queues = DeadlyQueues(stores.engines.get("queues"), tables)
    with suppress(Killed):
        await outbox.relay(stores_with(stores, tables=tables, queues=queues), aggregate)
