"""Benchmark: events and queue cycles per second with 1,000,000 stored events, compared with 1,000.

Each stored event has left its record, the state of its conversation and an audit entry in the tables, and a
waiting message in the queue: as many rows in each. Then the real worker handles events of stored
conversations, all over the tables, with a help desk that responds from memory, and messages are sent,
received and deleted in the queue with its backlog. The floor is the small store: the ratio says how much of
its rate is left. Both are open in one process and take turns.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx2 as httpx
import uvloop

from benchmarks.harness.measurement import ROUNDS, Figure, build_figure, report_progress
from holdfast import ReceivedMessage, Stores, open_stores, provision
from holdfast.ai import Classification
from holdfast.config.settings import Settings
from holdfast.guarantees import OnceStatus
from holdfast.operations.queues import (
    DeleteMessages,
    IncomingMessage,
    OutgoingMessage,
    ReceiveMessages,
    SendMessages,
)
from holdfast.operations.tables import BatchWriteItem, Put
from holdfast.operations.values import Item
from richpanel.domain.inbound_events import EventMessage, InboundEvent, build_event_message
from richpanel.integrations.clients import HelpDeskClient, ShopClient
from richpanel.model.entities import (
    ActionAudit,
    ActionType,
    ConversationState,
    IdempotencyRecord,
    Mode,
    RecordKind,
    events,
)
from richpanel.settings import RichpanelSettings
from richpanel.system import SYSTEM
from richpanel.workers.worker import Worker, build_worker

SMALL, LARGE = 1_000, 1_000_000
MAX_GROWTH: Final = 1.3
CONCURRENCY = 16
EVENTS_EACH_ROUND = 160
CYCLES_EACH_ROUND = 800
BATCH, MESSAGE_BATCH = 25, 10
STEP = 7919  # coprime with both sizes: the events cover all conversations
LIFETIME: Final = timedelta(days=60)
TEXT: Final = "I would like to return the shoes, they are too small for me."
# The conversation id in each template, replaced by that of each copy.
TEMPLATE: Final = "c-0000000"
BODY: Final = "as long as an event in the queue is, " * 12
ENVIRONMENT: Final = "bench"
QUEUE: Final = events.physical_name(ENVIRONMENT)


def run(folder: Path, small: int = SMALL, large: int = LARGE) -> list[Figure]:
    """Fill a small and a large store and return two figures: events handled and queue cycles."""
    return uvloop.run(_measure(folder, small, large))


async def _measure(folder: Path, small: int, large: int) -> list[Figure]:
    async with AsyncExitStack() as ends:
        stored = [await _open_filled(folder / str(count), count, ends) for count in (large, small)]
        least = 1 / MAX_GROWTH
        return [
            await _compare(f"event handled, {large:,} stored", _FilledStores.measure_handling, stored, least),
            await _compare(
                f"queue cycle, {large:,} waiting", _FilledStores.measure_queue_cycle, stored, least
            ),
        ]


async def _compare(
    name: str,
    work: Callable[[_FilledStores], Awaitable[float]],
    stored: list[_FilledStores],
    must_reach: float,
) -> Figure:
    """Measure the large and the small store in alternating rounds, after a warm-up round."""
    rounds = [tuple([await work(each) for each in stored]) for _ in range(ROUNDS + 1)][1:]
    return build_figure(name, [(ours, floor) for ours, floor in rounds], must_reach)


async def _open_filled(folder: Path, count: int, ends: AsyncExitStack) -> _FilledStores:
    """Open stores in an own folder, filled with this many events, and a worker; `ends` closes both."""
    folder.mkdir()
    settings = Settings(
        tables="sqlite:tables.db", queues="sqlite:queues.db", environment=ENVIRONMENT, base=folder
    )
    stores = await ends.enter_async_context(open_stores(SYSTEM, settings))
    await provision(stores, SYSTEM)
    await _fill(stores, count)
    http = await ends.enter_async_context(
        httpx.AsyncClient(transport=httpx.MockTransport(_respond), base_url="http://desk.invalid")
    )
    desk = HelpDeskClient(http)
    worker = build_worker(
        stores.for_component("worker"), desk, ShopClient(http), _AlwaysReturns(), RichpanelSettings()
    )
    return _FilledStores(stores, worker, count)


# --- measuring ----------------------------------------------------------------------------------------------


@dataclass
class _FilledStores:
    """Stores with this many stored events, and a worker that handles new events on them."""

    stores: Stores
    worker: Worker
    count: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def measure_handling(self) -> float:
        """Return how many new events of stored conversations are handled per second, sixteen at a time."""
        received = [self._build_event(next(self.numbers)) for _ in range(EVENTS_EACH_ROUND)]
        return await _measure_rate([lambda each=each: self.worker.handle(each) for each in received])  # type: ignore[misc]

    async def measure_queue_cycle(self) -> float:
        """Return how many messages are sent, received and deleted per second, with all others waiting."""
        engine = self.stores.engines.get("queues")

        async def cycle() -> None:
            number = next(self.numbers)
            await engine.run(SendMessages(QUEUE, (_build_message(self.count + number),)))
            for each in await engine.run(ReceiveMessages(QUEUE)):
                await engine.run(DeleteMessages(QUEUE, (each.receipt,)))

        return await _measure_rate([cycle] * CYCLES_EACH_ROUND)

    def _build_event(self, number: int) -> ReceivedMessage[EventMessage]:
        """Return a new event of a stored conversation, as the worker receives it."""
        conversation = _format_conversation_id(number * STEP % self.count)
        event = InboundEvent(conversation_id=conversation, message_id=f"new-{number:09d}", text=TEXT)
        message = build_event_message(event, datetime.now(UTC))
        incoming = IncomingMessage(
            id=message.event_id, receipt="", body=message.model_dump_json(), sent_at=time.time(), receives=1
        )
        return ReceivedMessage(events.name, EventMessage, incoming)


async def _measure_rate(calls: list[Callable[[], Awaitable[None]]]) -> float:
    """Run all calls by concurrent tasks and return how many are done per second."""
    remaining = iter(calls)

    async def task() -> None:
        for work in remaining:
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(CONCURRENCY)))
    return len(calls) / (time.perf_counter() - started)


class _AlwaysReturns:
    """A classifier without cost that labels every text `return_or_refund`.

    The cost of a real one does not depend on how much is stored.
    """

    labels = ("return_or_refund",)

    def classify(self, text: str) -> Classification:
        return Classification("return_or_refund", 0.99)


def _respond(request: httpx.Request) -> httpx.Response:
    """Respond as the help desk, from memory."""
    if request.method == "POST":
        return httpx.Response(200, json={"activity": {"number": 1}})
    if "/messages/" in request.url.path:
        return httpx.Response(200, json={"message": {"text": TEXT, "author": "customer"}})
    return httpx.Response(200, json={"ticket": {"customer": {"email": "customer@example.com"}, "tags": []}})


# --- filling ------------------------------------------------------------------------------------------------


async def _fill(stores: Stores, count: int) -> None:
    """Store this many events: copies of the template rows, and a queue message each."""
    templates = [
        (stores.physical_name(put.table), put.item())
        for put in _build_puts(datetime.now(UTC).replace(microsecond=0))
    ]
    starts = iter(range(0, count, BATCH))
    engine = stores.engines.get("queues")

    async def task() -> None:
        for start in starts:
            numbers = range(start, min(start + BATCH, count))
            for table, template in templates:
                writes = tuple(Put(table, _copy_item(template, number)) for number in numbers)
                await stores.tables.run(BatchWriteItem(writes))
            for at in range(0, len(numbers), MESSAGE_BATCH):
                messages = tuple(map(_build_message, numbers[at : at + MESSAGE_BATCH]))
                await engine.run(SendMessages(QUEUE, messages))
            report_progress("events stored", start, count)

    await asyncio.gather(*(task() for _ in range(CONCURRENCY)))


def _build_puts(now: datetime) -> list[Any]:
    """Return the rows that an event leaves, of the conversation `TEMPLATE`."""
    ends = now + LIFETIME
    record = IdempotencyRecord(
        event_id=f"evt:rp:{TEMPLATE}:message",
        kind=RecordKind.event,
        conversation_id=TEMPLATE,
        payload_sha256="0" * 64,
        payload_bytes=300,
        mode=Mode.route_only,
        safe_mode=True,
        automation_enabled=False,
        status=OnceStatus.PROCESSED,
        result='{"actions":2}',
        received_at=now,
        source_message_id="message",
        intent="return_or_refund",
        created_at=now,
        last_processed_at=now,
        expires_at=ends,
    )
    state = ConversationState(
        conversation_id=TEMPLATE, updated_at=now, expires_at=ends, last_routed_team="returns"
    )
    audit = ActionAudit(
        conversation_id=TEMPLATE,
        place=f"{now.isoformat()}#0",
        payload='{"target":"returns","intent":"return_or_refund","confidence":0.99,"mode":"route_only"}',
        action_type=ActionType.route,
        idempotency_key=f"act:rp_assign:{TEMPLATE}:returns:message",
        expires_at=ends,
    )
    return [IdempotencyRecord.put(record), ConversationState.put(state), ActionAudit.put(audit)]


def _copy_item(template: Item, number: int) -> Item:
    """Return the template with the id of this conversation instead of `TEMPLATE`."""
    name = _format_conversation_id(number)
    return {
        key: value.replace(TEMPLATE, name) if isinstance(value, str) else value
        for key, value in template.items()
    }


def _format_conversation_id(number: int) -> str:
    return f"c-{number:07d}"


def _build_message(number: int) -> OutgoingMessage:
    """Return a queue message of the conversation with this number, in its own group."""
    name = _format_conversation_id(number)

    return OutgoingMessage(body=BODY, group=name, deduplication=name)
