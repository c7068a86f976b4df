"""What one more event costs when 1,000,000 are stored, beside when 1,000 are.

Each stored event has left its record, the state of its conversation and an entry of the audit in the tables, and a message
that waits in the queue: as many rows in each. Then events of stored conversations, all over the tables, are handled by the
real worker with a help desk that answers from memory, and messages are sent, received and deleted at the queue with its
backlog. The floor is the small store: the ratio says how much of its rate is left. Both are open in one process and take
turns.
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

from benchmarks.measure import ROUNDS, Figure, figure_of, tell
from holdfast import Received, Stores, open_stores, prepare
from holdfast.ai import Classification
from holdfast.guarantees import OnceStatus
from holdfast.operations.queues import DeleteMessages, Incoming, Outgoing, ReceiveMessages, SendMessages
from holdfast.operations.tables import BatchWriteItem, Put
from holdfast.operations.values import Item
from holdfast.settings import Settings
from richpanel import SYSTEM
from richpanel.handlers import Worker, made_worker
from richpanel.model import ActionAudit, ActionType, ConversationState, IdempotencyRecord, Kind, Mode, events
from richpanel.parties import HelpDesk, OrderDesk
from richpanel.payloads import EventMessage, InboundEvent, event_message
from richpanel.settings import RichpanelSettings

SMALL, LARGE = 1_000, 1_000_000
GROWTH_MAX: Final = 1.3
AT_ONCE = 16
EVENTS_EACH_ROUND = 160
CYCLES_EACH_ROUND = 800
BATCH, MESSAGES_AT_ONCE = 25, 10
STEP = 7919  # prime to both sizes: the events wander over all conversations
LIFETIME: Final = timedelta(days=60)
TEXT: Final = "I would like to return the shoes, they are too small for me."
# A name of this form is in each template wherever its conversation is, and is replaced by another's.
TEMPLATE: Final = "c-0000000"
BODY: Final = "as long as an event in the queue is, " * 12
ENVIRONMENT: Final = "bench"
QUEUE: Final = events.physical_name(ENVIRONMENT)


def run(folder: Path, small: int = SMALL, large: int = LARGE) -> list[Figure]:
    return uvloop.run(_measured(folder, small, large))


async def _measured(folder: Path, small: int, large: int) -> list[Figure]:
    async with AsyncExitStack() as ends:
        stored = [await _stored(folder / str(count), count, ends) for count in (large, small)]
        least = 1 / GROWTH_MAX
        return [
            await _compared(f"event handled, {large:,} stored", _Stored.handled, stored, least),
            await _compared(f"queue cycle, {large:,} waiting", _Stored.cycled, stored, least),
        ]


async def _compared(
    name: str, work: Callable[[_Stored], Awaitable[float]], stored: list[_Stored], must_reach: float
) -> Figure:
    rounds = [tuple([await work(each) for each in stored]) for _ in range(ROUNDS + 1)][1:]
    return figure_of(name, [(ours, floor) for ours, floor in rounds], must_reach)


async def _stored(folder: Path, count: int, ends: AsyncExitStack) -> _Stored:
    """A store in a folder of its own, filled with so many events."""
    folder.mkdir()
    settings = Settings(
        tables="sqlite:tables.db", queues="sqlite:queues.db", environment=ENVIRONMENT, base=folder
    )
    stores = await ends.enter_async_context(open_stores(SYSTEM, settings))
    await prepare(stores, SYSTEM)
    await _fill(stores, count)
    http = await ends.enter_async_context(
        httpx.AsyncClient(transport=httpx.MockTransport(_answer), base_url="http://desk.invalid")
    )
    desk = HelpDesk(http)
    worker = made_worker(
        stores.for_component("worker"), desk, OrderDesk(http), _AlwaysReturns(), RichpanelSettings()
    )
    return _Stored(stores, worker, count)


# --- measuring ----------------------------------------------------------------------------------------------


@dataclass
class _Stored:
    stores: Stores
    worker: Worker
    count: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def handled(self) -> float:
        """Events of stored conversations, sixteen at once as a worker has them; per second."""
        received = [self._event(next(self.numbers)) for _ in range(EVENTS_EACH_ROUND)]
        return await _rate([lambda each=each: self.worker.handle(each) for each in received])  # type: ignore[misc]

    async def cycled(self) -> float:
        """A message sent, one received and deleted, with all the others waiting."""
        engine = self.stores.engines.of("queues")

        async def cycle() -> None:
            number = next(self.numbers)
            await engine.run(SendMessages(QUEUE, (_waiting(self.count + number),)))
            for each in await engine.run(ReceiveMessages(QUEUE)):
                await engine.run(DeleteMessages(QUEUE, (each.receipt,)))

        return await _rate([cycle] * CYCLES_EACH_ROUND)

    def _event(self, number: int) -> Received[EventMessage]:
        conversation = _conversation(number * STEP % self.count)
        event = InboundEvent(conversation_id=conversation, message_id=f"new-{number:09d}", text=TEXT)
        message = event_message(event, datetime.now(UTC))
        incoming = Incoming(
            id=message.event_id, receipt="", body=message.model_dump_json(), sent_at=time.time(), receives=1
        )
        return Received(events.name, EventMessage, incoming)


async def _rate(works: list[Callable[[], Awaitable[None]]]) -> float:
    left = iter(works)

    async def task() -> None:
        for work in left:
            await work()

    begun = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(AT_ONCE)))
    return len(works) / (time.perf_counter() - begun)


class _AlwaysReturns:
    """A classifier that costs nothing: what it takes does not depend on what is stored."""

    labels = ("return_or_refund",)

    def classify(self, text: str) -> Classification:
        return Classification("return_or_refund", 0.99)


def _answer(request: httpx.Request) -> httpx.Response:
    """The help desk, from memory."""
    if request.method == "POST":
        return httpx.Response(200, json={"activity": {"number": 1}})
    if "/messages/" in request.url.path:
        return httpx.Response(200, json={"message": {"text": TEXT, "author": "customer"}})
    return httpx.Response(200, json={"ticket": {"customer": {"email": "customer@example.com"}, "tags": []}})


# --- filling ------------------------------------------------------------------------------------------------


async def _fill(stores: Stores, count: int) -> None:
    templates = [
        (stores.physical_name(put.table), put.item())
        for put in _puts(datetime.now(UTC).replace(microsecond=0))
    ]
    starts = iter(range(0, count, BATCH))
    engine = stores.engines.of("queues")

    async def task() -> None:
        for start in starts:
            numbers = range(start, min(start + BATCH, count))
            for table, template in templates:
                writes = tuple(Put(table, _copied(template, number)) for number in numbers)
                await stores.tables.run(BatchWriteItem(writes))
            for at in range(0, len(numbers), MESSAGES_AT_ONCE):
                messages = tuple(map(_waiting, numbers[at : at + MESSAGES_AT_ONCE]))
                await engine.run(SendMessages(QUEUE, messages))
            tell("events stored", start, count)

    await asyncio.gather(*(task() for _ in range(AT_ONCE)))


def _puts(now: datetime) -> list[Any]:
    """What an event leaves, of the conversation whose name is `TEMPLATE`."""
    ends = now + LIFETIME
    record = IdempotencyRecord(
        event_id=f"evt:rp:{TEMPLATE}:message",
        kind=Kind.event,
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


def _copied(template: Item, number: int) -> Item:
    name = _conversation(number)
    return {
        key: value.replace(TEMPLATE, name) if isinstance(value, str) else value
        for key, value in template.items()
    }


def _conversation(number: int) -> str:
    return f"c-{number:07d}"


def _waiting(number: int) -> Outgoing:
    name = _conversation(number)

    return Outgoing(body=BODY, group=name, deduplication=name)
