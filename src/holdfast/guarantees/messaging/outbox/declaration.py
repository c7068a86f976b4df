"""`Outbox`: declares an outbox in tables for one queue; enqueues, relays, lists and redrives its messages.

    outbox = Outbox(order_events, "OB", rate=Rate("order"))

    await stores.transact(
        place_order(order, seen=3),
        outbox.enqueue(stores, order.id, OrderPlaced(order_id=order.id), sequence=4),
    )
    await outbox.relay(stores, order.id)      # at once; a Schedule of outbox.relay sends the rest

The message is part of the transaction, so it exists exactly if the change does. `sequence` is the version
that the same transaction writes: of two writers one is refused, so the numbers follow the order of the
changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from holdfast.core.correlation import get_correlation_id
from holdfast.guarantees.messaging.outbox.items import OutboxItem, OutboxStatus, SendItem, compute_shard
from holdfast.guarantees.messaging.outbox.patterns import OutboxPatterns
from holdfast.guarantees.messaging.outbox.relay import Relay, RelayReport, redrive
from holdfast.guarantees.pattern_sets import utc_now
from holdfast.model import Pattern, Put, Queue, Rate, Row, UlidGenerator, Write
from holdfast.runtime import Stores
from holdfast.stores.queues.checks import check

M = TypeVar("M", bound=BaseModel)

SHARDS: Final = 8
LEASE_S: Final = 30.0
# About four hours, with pauses that double from one second to five minutes.
MAX_ATTEMPTS: Final = 55
PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 300.0


@dataclass(frozen=True)
class UnsentMessage:
    """A message that has not been sent to its queue."""

    outbox: str
    aggregate: str
    sequence: int
    part: int
    id: str
    status: OutboxStatus
    created_at: datetime
    attempts: int
    reason: str | None
    queue: str


class Outbox(Generic[M]):
    """An outbox for one queue.

    `shards` is the number of index partitions that unsent messages are spread over. A relay that does not
    renew for `lease_s` seconds loses its turn on an aggregate; choose it longer than a send takes. A failed
    send is retried after a pause that grows from `pause_s` to `max_pause_s`. After `max_attempts`, or at once
    if the queue refuses the message permanently, the item is dead, and its aggregate waits for `holdfast
    outbox redrive`.
    """

    def __init__(
        self,
        queue: Queue[M],
        prefix: str,
        *,
        rate: Rate,
        name: str = "",
        shards: int = SHARDS,
        lease_s: float = LEASE_S,
        max_attempts: int = MAX_ATTEMPTS,
        pause_s: float = PAUSE_S,
        max_pause_s: float = MAX_PAUSE_S,
    ) -> None:
        self.queue, self.name, self.shards = queue, name or queue.name, shards
        self.lease_s, self.max_attempts = lease_s, max_attempts
        self.pause_s, self.max_pause_s = pause_s, max_pause_s
        self.pattern_set = OutboxPatterns(self.name, queue, prefix, rate, shards)

    # --- patterns, for components ---------------------------------------------------------------------------

    @property
    def append(self) -> Pattern[[OutboxItem], Put[OutboxItem]]:
        """The pattern that enqueues, to grant to a component that writes messages."""
        return self.pattern_set.append

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that read, to grant to a component."""
        return (self.pattern_set.waiting, self.pattern_set.items, self.pattern_set.counter)

    @property
    def relay_patterns(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that a relay writes with; they cannot append."""
        return (
            self.pattern_set.take_turn,
            self.pattern_set.give_turn,
            self.pattern_set.send,
            self.pattern_set.remove,
            self.pattern_set.keep,
        )

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        """The patterns that write, of enqueuing components and of the relay."""
        return (self.pattern_set.append, self.pattern_set.count, *self.relay_patterns)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        """All patterns, for the system's declaration."""
        return (*self.reads, *self.writes)

    # --- enqueue --------------------------------------------------------------------------------------------

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
            created_at=utc_now(stores.clock),
        )
        check(SendItem(self.queue, item).build_request(stores.environment))
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

    # --- relay ----------------------------------------------------------------------------------------------

    async def relay(self, stores: Stores, aggregate: str | None = None) -> RelayReport:
        """Send the unsent messages of one aggregate or of all, and return the counts.

        Safe in several processes at once.
        """
        relay = Relay(self, stores)
        if aggregate is not None:
            await relay.relay_aggregate(aggregate)
        else:
            await relay.sweep()
        return relay.report

    async def list_unsent(self, stores: Stores, *statuses: OutboxStatus) -> list[UnsentMessage]:
        """Return the unsent messages, pending and dead, or only those with the given statuses, oldest
        first.
        """
        found: list[UnsentMessage] = []
        for status in statuses or tuple(OutboxStatus):
            for shard in range(self.shards):
                rows: Sequence[Row[OutboxItem]] = await stores.all(self.pattern_set.waiting(status, shard))
                found += [_to_unsent_message(row, self.queue.name) for row in rows]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def redrive(self, stores: Stores, aggregate: str | None = None) -> int:
        """Make dead items of one aggregate or of all pending again, and return their number."""
        dead = await self.list_unsent(stores, OutboxStatus.DEAD)
        chosen = {each.aggregate for each in dead if aggregate in (None, each.aggregate)}
        return sum([await redrive(self.pattern_set, stores, each) for each in sorted(chosen)])


def _to_unsent_message(row: Row[OutboxItem], queue: str) -> UnsentMessage:
    """Return the row of the index as an unsent message of the queue."""
    return UnsentMessage(
        outbox=row[OutboxItem.outbox],
        aggregate=row[OutboxItem.aggregate],
        sequence=row[OutboxItem.sequence],
        part=row[OutboxItem.part],
        id=row[OutboxItem.id],
        status=row[OutboxItem.status],
        created_at=row[OutboxItem.created_at],
        attempts=row[OutboxItem.attempts],
        reason=row[OutboxItem.reason],
        queue=queue,
    )
