"""Part of the corpus: queues with messages in every state, and outboxes with unsent items."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from pydantic import BaseModel

from holdfast import Queue, Rate, ReceivedMessage, Stores
from holdfast.core.errors import HoldfastError, InvalidRequest, StoreUnavailable
from holdfast.guarantees import OUTBOX, Outbox, OutboxStatus

from .process import DeadlyQueues, DyingTables, Killed, RefusingQueues, replace_engines

VISIBILITY_S: Final = 30


class News(BaseModel):
    topic: str
    number: int
    text: str | None = None


# A standard queue, a FIFO queue, and the two queues of the outboxes.
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

ANNOUNCEMENTS: Final = Outbox(
    announced, prefix="OA", rate=Rate("news"), shards=2, max_attempts=3, retry_delay_s=60
)
ORDERED: Final = Outbox(
    announced_in_order, prefix="OB", rate=Rate("news"), shards=2, max_attempts=3, retry_delay_s=60
)

QUEUES: Final = (papers, ordered, announced, announced_in_order)
OUTBOXES: Final = (ANNOUNCEMENTS, ORDERED)
TABLES: Final = (OUTBOX,)
PATTERNS: Final = (*ANNOUNCEMENTS.patterns, *ORDERED.patterns)

# Errors of a queue that rejects a message: the outbox item stores the error.
REFUSALS: Final[dict[str, HoldfastError]] = {
    "dead": InvalidRequest("The message is refused."),
    "paused": StoreUnavailable("The queue does not answer."),
}


def make_news(topic: str, number: int) -> News:
    return News(topic=topic, number=number)


# --- writing ------------------------------------------------------------------------------------------------


async def write(stores: Stores) -> dict[str, Any]:
    """Write queues and outboxes, and return the ids, receipts and unsent items."""
    return {
        "standard": await _write_standard(stores),
        "fifo": await _write_fifo(stores),
        "outbox": await _write_outboxes(stores),
    }


async def _write_standard(stores: Stores) -> dict[str, Any]:
    """Leave one dead letter, two messages in flight, one released, three visible and one delayed."""
    await stores.run(papers.send(make_news("dead", 0)))
    for _ in range(2):
        (received,) = await stores.run(papers.receive())
        await stores.run(papers.change_visibility(received, seconds=0))
    assert await stores.run(papers.receive()) == ()
    sent = await stores.run(papers.send_batch([make_news("paper", number) for number in range(6)]))
    in_flight = await stores.run(papers.receive(2))
    (given_back,) = await stores.run(papers.receive())
    await stores.run(papers.change_visibility(given_back, seconds=0))
    await stores.run(papers.send(make_news("delayed", 0), delay_s=600))
    return {
        "sent": [each.id for each in sent],
        "in_flight": [_note_message(each) for each in in_flight],
        "given_back": _note_message(given_back),
    }


async def _write_fifo(stores: Stores) -> dict[str, Any]:
    """Leave a group whose head is in flight, a free group, a dead letter, and ids in the deduplication
    window.
    """
    await stores.run(ordered.send(make_news("doomed", 0)))
    for _ in range(2):
        (received,) = await stores.run(ordered.receive())
        await stores.run(ordered.change_visibility(received, seconds=0))
    assert await stores.run(ordered.receive()) == ()
    sent = [await stores.run(ordered.send(make_news("blocked", number))) for number in range(3)]
    (head,) = await stores.run(ordered.receive())
    await stores.run(ordered.send_batch([make_news("free", number) for number in range(3)]))
    return {
        "sent": [{"id": each.id, "sequence": each.sequence} for each in sent],
        "head": _note_message(head),
    }


def _note_message(received: ReceivedMessage[News]) -> dict[str, Any]:
    return {"id": received.id, "receipt": received.receipt, "number": received.message.number}


async def _write_outboxes(stores: Stores) -> dict[str, Any]:
    """Leave items that are pending, dead, paused, numbered, and sent but not removed, in both outboxes."""
    for outbox in OUTBOXES:
        for aggregate in ("pending", "dead", "paused", "sent and not removed"):
            for sequence in (1, 2, 3):
                message = make_news(aggregate, sequence)
                await stores.transact(outbox.enqueue(stores, aggregate, message, sequence=sequence))
        await stores.transact(
            *await outbox.enqueue_numbered(
                stores, "counted", make_news("counted", 1), make_news("counted", 2)
            )
        )
        for aggregate, error in REFUSALS.items():
            await outbox.send_unsent(replace_engines(stores, queues=RefusingQueues(error)), aggregate)
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
    """Leave an item that is sent and still in the outbox, and the lease of the relay that was killed."""
    tables = DyingTables(stores.tables)
    queues = DeadlyQueues(stores.engines.get("queues"), tables)
    with suppress(Killed):
        await outbox.send_unsent(replace_engines(stores, tables=tables, queues=queues), aggregate)
