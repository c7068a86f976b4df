"""The access patterns of an outbox in tables: append, find unsent items, take turns, send, number."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast.guarantees.messaging.messages import OutboxMessage, OutboxStatus, SendOutboxMessages
from holdfast.guarantees.messaging.outbox.items import (
    INDEXED_ATTRIBUTES,
    OutboxCounter,
    OutboxItem,
    OutboxTurn,
    compute_shard,
)
from holdfast.guarantees.messaging.pattern_builder import PatternBuilder
from holdfast.guarantees.messaging.relay import RelayPatterns, RelaySettings
from holdfast.model.entities import Delete, Get, Put, Query, SelectQuery
from holdfast.model.queues import Queue

_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)
_AGGREGATE: Final = "a-1"


class OutboxPatterns(RelayPatterns):
    """The patterns of one outbox in tables, and the roles that need them.

    A publisher that numbers its messages also needs `counter` and `count`.
    """

    def __init__(self, name: str, queue: Queue[Any], shards: int, settings: RelaySettings) -> None:
        self.name, self.queue, self.queues, self.shards = name, queue, {queue.name: queue}, shards
        self.settings = settings
        item = OutboxItem(
            outbox=name,
            aggregate=_AGGREGATE,
            sequence=1,
            id="01KGJ000000000000000000000",
            body="{}",
            shard=compute_shard(_AGGREGATE, shards),
            created_at=_TIME,
        )
        turn = OutboxTurn(outbox=name, aggregate=_AGGREGATE, owner="o", until=_TIME)
        name_prefix = f"{name.replace('-', '_')}_outbox"
        build = PatternBuilder(settings.prefix, name_prefix, name, settings.rate).build
        self.append = build(1, "append", "Append a message about a change", self._append, (item,))
        purpose = "Pending or dead messages of a shard"
        self.waiting = build(2, "waiting", purpose, self._waiting, (OutboxStatus.PENDING, item.shard))
        self.items = build(3, "items", "Messages of an aggregate, in order", self._items, (_AGGREGATE,))
        purpose = "Take or renew the turn to relay an aggregate"
        self.take_turn = build(4, "take_turn", purpose, self._take_turn, (turn, _TIME))
        purpose = "Release the turn to relay an aggregate"
        self.give_turn = build(5, "give_turn", purpose, self._give_turn, (turn,))
        send = build(6, "send", "Send a message", self._send, ((self.to_claimed(item),),))
        self.sends = {queue.name: send}
        self.remove = build(7, "remove", "Remove a sent message", self._remove, (item,))
        purpose = "Keep a message for another attempt, or mark it dead"
        self.keep = build(8, "keep", purpose, self._keep, (item, item))
        purpose = "Last message number of an aggregate"
        self.counter = build(9, "counter", purpose, self._counter, (_AGGREGATE,))
        purpose = "Take the next message number of an aggregate"
        self.count = build(10, "count", purpose, self._count, (_AGGREGATE, 1, 0))

        self.publisher = (self.append,)
        self.relay = (
            *(self.waiting, self.items, self.take_turn, self.give_turn, self.remove, self.keep),
            *self.sends.values(),
        )
        self.operator = (self.waiting, self.items, self.remove, self.keep)

    def to_claimed(self, item: OutboxItem) -> OutboxMessage:
        """Return the item as a message to send."""
        return OutboxMessage(
            item.id, self.queue.name, item.aggregate, item.body, item.correlation, stored=item
        )

    def _append(self, item: OutboxItem) -> Put[OutboxItem]:
        return OutboxItem.create(item)

    def _waiting(self, status: OutboxStatus, shard: int) -> SelectQuery[OutboxItem]:
        """Query the items of a shard with one status, oldest first, without their bodies."""
        return OutboxItem.by_status(self.name, status, shard).query().select(*INDEXED_ATTRIBUTES.values())

    def _items(self, aggregate: str) -> Query[OutboxItem]:
        """Query an aggregate's first items consistently, in order."""
        return OutboxItem.of(self.name, aggregate).query().page(self.settings.batch_size).consistent()

    def _take_turn(self, turn: OutboxTurn, now: datetime, seen: OutboxTurn | None = None) -> Put[OutboxTurn]:
        """Put a turn that is free, has ended, has the same owner, or is still `seen`."""
        is_free = OutboxTurn.owner.not_exists() | (OutboxTurn.until <= now)
        is_free = is_free | (OutboxTurn.owner == turn.owner)
        if seen is not None:
            is_free = is_free | ((OutboxTurn.owner == seen.owner) & (OutboxTurn.until == seen.until))
        return OutboxTurn.put(turn).when(is_free)

    def _give_turn(self, turn: OutboxTurn) -> Delete[OutboxTurn]:
        """Delete a turn of the same owner."""
        return OutboxTurn.of(self.name, turn.aggregate).delete().when(OutboxTurn.owner == turn.owner)

    def _send(self, messages: tuple[OutboxMessage, ...]) -> SendOutboxMessages:
        return SendOutboxMessages(self.queue, messages)

    def _remove(self, item: OutboxItem) -> Delete[OutboxItem]:
        """Delete an item by its id."""
        at = OutboxItem.of(self.name, item.aggregate)
        return at.delete(item.sequence, item.part).when(OutboxItem.id == item.id)

    def _keep(self, item: OutboxItem, seen: OutboxItem) -> Put[OutboxItem]:
        """Put a changed item, on condition that its status and attempts are as read."""
        is_as_seen = (OutboxItem.status == seen.status) & (OutboxItem.attempts == seen.attempts)
        return OutboxItem.put(item).when(OutboxItem.id == seen.id, is_as_seen)

    def _counter(self, aggregate: str) -> Get[OutboxCounter]:
        """Read an aggregate's counter consistently."""
        return OutboxCounter.of(self.name, aggregate).get().consistent()

    def _count(self, aggregate: str, last: int, seen: int) -> Put[OutboxCounter]:
        """Put the counter, on condition that it is as read."""
        put = OutboxCounter.put(OutboxCounter(outbox=self.name, aggregate=aggregate, last=last))
        return put.when(OutboxCounter.last == seen) if seen else put.if_absent()
