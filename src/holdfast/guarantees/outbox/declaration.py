"""An outbox as a system declares it: which queue it announces on, and how patient its relay is.

    outbox = Outbox(order_events, "OB", rate=Rate("order"))

    await stores.transact(
        place_order(order, seen=3),
        outbox.item(stores, order.id, OrderPlaced(order_id=order.id), sequence=4),
    )
    await outbox.relay(stores, order.id)      # at once; what is left, a Schedule of outbox.relay finds

The message is part of the transaction, and so is there exactly if the change is. `sequence` is the version that the
same transaction writes: of two writers one is refused, and so numbers are given in the order of the changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from holdfast.correlation import correlation_id
from holdfast.guarantees.outbox.items import OutboxItem, OutboxStatus, SendItem, shard_of
from holdfast.guarantees.outbox.patterns import OutboxPatterns
from holdfast.guarantees.outbox.relaying import Relay, RelayReport, redriven
from holdfast.guarantees.pattern_sets import moment
from holdfast.model import Pattern, Put, Queue, Rate, Row, Ulids, Write
from holdfast.runtime import Stores
from holdfast.stores.queues.checks import check

M = TypeVar("M", bound=BaseModel)

SHARDS: Final = 8
LEASE_S: Final = 30.0
# With pauses of one second that double up to five minutes, about four hours.
ATTEMPTS_MAX: Final = 55
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 300.0


@dataclass(frozen=True)
class Waiting:
    """An announcement that is not with its queue."""

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
    """Announcements on one queue.

    `shards` spreads what waits over so many partitions of the index. `lease_s` is how long a relay that gives no sign
    of life keeps others from an aggregate: longer than a send takes. A send that fails is tried again after a pause
    that grows from `pause_s` to `pause_s_max`; after `attempts_max`, or at once where the queue refuses the message for
    good, the item is dead, and its aggregate waits for `holdfast outbox redrive`.
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
        attempts_max: int = ATTEMPTS_MAX,
        pause_s: float = PAUSE_S,
        pause_s_max: float = PAUSE_S_MAX,
    ) -> None:
        self.queue, self.name, self.shards = queue, name or queue.name, shards
        self.lease_s, self.attempts_max = lease_s, attempts_max
        self.pause_s, self.pause_s_max = pause_s, pause_s_max
        self.use = OutboxPatterns(self.name, queue, prefix, rate, shards)

    # --- patterns, for components ---------------------------------------------------------------------------

    @property
    def append(self) -> Pattern[[OutboxItem], Put[OutboxItem]]:
        return self.use.append

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self.use.waiting, self.use.of_aggregate, self.use.counter)

    @property
    def relaying(self) -> tuple[Pattern[..., Any], ...]:
        """What a relay writes; it can append nothing."""
        return (self.use.take_turn, self.use.give_turn, self.use.send, self.use.remove, self.use.keep)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self.use.append, self.use.count, *self.relaying)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    # --- announcing -----------------------------------------------------------------------------------------

    def item(
        self, stores: Stores, aggregate: str, message: M, *, sequence: int, part: int = 0
    ) -> Put[OutboxItem]:
        """The write of an announcement, for the transaction of what it announces.

        `sequence` must grow with the aggregate: its version, as this transaction writes it. Several messages of one
        change have different parts. A message that the queue would refuse is refused here, before the change is made.
        """
        item = OutboxItem(
            outbox=self.name,
            aggregate=aggregate,
            sequence=sequence,
            part=part,
            id=Ulids(stores.clock).new(),
            body=self.queue.outgoing(message).body,
            correlation=correlation_id(),
            shard=shard_of(aggregate, self.shards),
            created_at=moment(stores.clock),
        )
        check(SendItem(self.queue, item).request(stores.environment))
        return self.append(item)

    async def numbered(self, stores: Stores, aggregate: str, *messages: M) -> tuple[Write[Any], ...]:
        """The writes of announcements about an aggregate that has no version: with the next number, and its counting.

        Where another was quicker the transaction is cancelled: ask again, and try again.
        """
        seen = await stores.run(self.use.counter(aggregate))
        last = 0 if seen is None else seen.last
        items = [
            self.item(stores, aggregate, message, sequence=last + 1, part=part)
            for part, message in enumerate(messages)
        ]
        return (self.use.count(aggregate, last + 1, last), *items)

    # --- relaying -------------------------------------------------------------------------------------------

    async def relay(self, stores: Stores, aggregate: str | None = None) -> RelayReport:
        """Sends what waits, of one aggregate or of all. Safe in several processes at once."""
        relay = Relay(self, stores)
        if aggregate is not None:
            await relay.aggregate(aggregate)
        else:
            await relay.sweep()
        return relay.report

    async def waiting(self, stores: Stores, *statuses: OutboxStatus) -> list[Waiting]:
        """What is not with the queue: all of it, or of these statuses; oldest first."""
        found: list[Waiting] = []
        for status in statuses or tuple(OutboxStatus):
            for shard in range(self.shards):
                rows: Sequence[Row[OutboxItem]] = await stores.all(self.use.waiting(status, shard))
                found += [_waiting(row, self.queue.name) for row in rows]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def redrive(self, stores: Stores, aggregate: str | None = None) -> int:
        """Makes dead items pending again, of one aggregate or of all, and gives how many."""
        dead = await self.waiting(stores, OutboxStatus.DEAD)
        chosen = {each.aggregate for each in dead if aggregate in (None, each.aggregate)}
        return sum([await redriven(self.use, stores, each) for each in sorted(chosen)])


def _waiting(row: Row[OutboxItem], queue: str) -> Waiting:
    return Waiting(
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
