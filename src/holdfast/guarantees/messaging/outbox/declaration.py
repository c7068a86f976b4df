"""`Outbox`: declares an outbox in tables for one queue; enqueues, lists, redrives and discards its messages.

    outbox = Outbox(order_events, prefix="OB", rate=Rate("order"))

    await stores.transact(
        place_order(order, seen=3),
        outbox.enqueue(stores, order.id, OrderPlaced(order_id=order.id), sequence=4),
    )
    await outbox.send_unsent(stores, order.id)      # at once; outbox.schedule() sends the rest

The message is part of the transaction, so it exists exactly if the change does. `sequence` is the version
that the same transaction writes: of two writers one is refused, so the numbers follow the order of the
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from holdfast.core.correlation import get_correlation_id
from holdfast.guarantees.messaging.declaration import BaseOutbox
from holdfast.guarantees.messaging.messages import OutboxStatus, SendOutboxMessages, UnsentMessage
from holdfast.guarantees.messaging.outbox.items import INDEXED_ATTRIBUTES, OutboxItem, compute_shard
from holdfast.guarantees.messaging.outbox.patterns import OutboxPatterns
from holdfast.guarantees.messaging.outbox.storage import TableStorage
from holdfast.guarantees.messaging.relay import Relay, RelayReport
from holdfast.guarantees.pattern_sets import Patterns
from holdfast.model.entities import Put
from holdfast.model.operations import Write
from holdfast.model.patterns import Pattern
from holdfast.model.queues import Queue
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores
from holdfast.stores.queues.checks import check

M = TypeVar("M", bound=BaseModel)

_LISTED: Final = UnsentMessage.model_fields.keys() - {"queue"}


@dataclass(eq=False)
class Outbox(BaseOutbox, Generic[M]):
    """An outbox for one queue, in the table `OUTBOX`. `RelaySettings` explains the limits.

    `name` is the queue's name by default. `shards` is the number of index partitions that unsent messages are
    spread over.
    """

    queue: Queue[M]
    name: str = field(default="", kw_only=True)
    shards: int = field(default=8, kw_only=True)

    def __post_init__(self) -> None:
        self.name = self.name or self.queue.name
        self._check_settings()
        self.pattern_set: OutboxPatterns = OutboxPatterns(self.name, self.queue, self.shards, self)

    @property
    def append(self) -> Pattern[[OutboxItem], Put[OutboxItem]]:
        """The pattern that enqueues."""
        return self.pattern_set.append

    def enqueue(
        self, stores: Stores, aggregate: str, message: M, *, sequence: int, part: int = 0
    ) -> Put[OutboxItem]:
        """Return the write of a message, for the transaction of the change it announces. Sends nothing.

        `sequence` must grow with the aggregate: use the version that this transaction writes. Several
        messages of one change need different parts. A message that the queue would refuse is refused here,
        before the change is made.
        """
        item = OutboxItem(
            outbox=self.name,
            aggregate=aggregate,
            sequence=sequence,
            part=part,
            id=UlidGenerator(stores.clock).new(),
            body=self.queue.build_outgoing(message).body,
            correlation=get_correlation_id(),
            shard=compute_shard(aggregate, self.shards),
            created_at=stores.now(),
        )
        check(
            SendOutboxMessages(self.queue, (self.pattern_set.to_claimed(item),)).build_request(
                stores.environment
            )
        )
        return self.append(item)

    async def enqueue_numbered(self, stores: Stores, aggregate: str, *messages: M) -> tuple[Write[Any], ...]:
        """Return the writes of messages about an aggregate without a version, with the next number of the
        outbox's counter.

        If another writer was faster, the transaction is cancelled: call this again and retry.
        """
        seen = await stores.run(self.pattern_set.counter(aggregate))
        last = 0 if seen is None else seen.last
        items = [
            self.enqueue(stores, aggregate, message, sequence=last + 1, part=part)
            for part, message in enumerate(messages)
        ]
        return (self.pattern_set.count(aggregate, last + 1, last), *items)

    async def send_unsent(self, stores: Stores, aggregate: str | None = None) -> RelayReport:
        """Send the messages that are due, of one aggregate or of all, and return the counts.

        Safe in several processes at once.
        """
        return await Relay(self.open_storage(stores, aggregate), self.pattern_set, stores).run()

    @property
    def figure_patterns(self) -> Patterns:
        return (self.pattern_set.waiting,)

    def open_storage(self, stores: Stores, aggregate: str | None = None) -> TableStorage:
        return TableStorage(self.pattern_set, stores, aggregate)

    async def list_unsent(self, stores: Stores, *statuses: OutboxStatus) -> list[UnsentMessage]:
        found: list[UnsentMessage] = []
        for status in statuses or OutboxStatus:
            for shard in range(self.shards):
                for row in await stores.all(self.pattern_set.waiting(status, shard)):
                    values = {name: row[INDEXED_ATTRIBUTES[name]] for name in _LISTED}
                    found.append(UnsentMessage(queue=self.queue.name, **values))
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def redrive(
        self,
        stores: Stores,
        aggregate: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        queue: str | None = None,
    ) -> int:
        dead = await self._find_dead(stores, aggregate, ids) if queue in (None, self.queue.name) else []
        fresh = {"status": OutboxStatus.PENDING, "attempts": 0, "not_before": None, "reason": None}
        for item in dead:
            await stores.run(self.pattern_set.keep(item.model_copy(update=fresh), item))
        return len(dead)

    async def discard(self, stores: Stores, ids: Sequence[str]) -> int:
        dead = await self._find_dead(stores, None, ids)
        for item in dead:
            await stores.run(self.pattern_set.remove(item))
        return len(dead)

    async def _find_dead(
        self, stores: Stores, aggregate: str | None, ids: Sequence[str] | None
    ) -> list[OutboxItem]:
        """Return the dead items that match the filters, as they are now."""
        listed = await self.list_unsent(stores, OutboxStatus.DEAD)
        chosen = {each.aggregate for each in listed if aggregate in (None, each.aggregate)}
        return [
            item
            for each in sorted(chosen)
            async for item in stores.each(self.pattern_set.items(each))
            if item.status is OutboxStatus.DEAD and (ids is None or item.id in ids)
        ]
