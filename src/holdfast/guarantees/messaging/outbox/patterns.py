"""The access patterns of an outbox: append, find unsent items, take turns, send, number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.guarantees.messaging.outbox.items import (
    OutboxCounter,
    OutboxItem,
    OutboxStatus,
    OutboxTurn,
    SendItem,
    compute_shard,
)
from holdfast.guarantees.pattern_sets import build_pattern
from holdfast.model import Delete, Get, Operation, Pattern, Put, Query, Queue, Rate, SelectQuery
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

PAGE_ITEMS: Final = 25
# The attributes that the index projects: all but the body.
INDEXED_ATTRIBUTES: Final = (
    OutboxItem.outbox,
    OutboxItem.aggregate,
    OutboxItem.sequence,
    OutboxItem.part,
    OutboxItem.id,
    OutboxItem.status,
    OutboxItem.created_at,
    OutboxItem.attempts,
    OutboxItem.not_before,
    OutboxItem.reason,
)
_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)
_AGGREGATE: Final = "a-1"


class OutboxPatterns:
    """The patterns of one outbox.

    Writers need `append`, and `counter` and `count` if the outbox numbers; a relay needs the rest.
    """

    def __init__(self, name: str, queue: Queue[Any], prefix: str, rate: Rate, shards: int) -> None:
        self._name, self._prefix, self._rate = name, prefix, rate
        self._example_item = OutboxItem(
            outbox=name,
            aggregate=_AGGREGATE,
            sequence=1,
            id="01KGJ000000000000000000000",
            body="{}",
            shard=compute_shard(_AGGREGATE, shards),
            created_at=_TIME,
        )
        self.append, self.waiting, self.items = (
            self._build_append(),
            self._build_waiting(),
            self._build_items(),
        )
        self.take_turn, self.give_turn = self._build_take_turn(), self._build_give_turn()
        self.send, self.remove, self.keep = self._build_send(queue), self._build_remove(), self._build_keep()
        self.counter, self.count = self._build_counter(), self._build_count()

    def _build_pattern(
        self, number: int, name: str, purpose: str, function: Callable[P, O], *, example: Example
    ) -> Pattern[P, O]:
        """Build a pattern; its id is the prefix and `number`, its name begins with the outbox."""
        spoken = f"{self._name.replace('-', '_')}_outbox_{name}"
        id = f"{self._prefix}{number}"
        return build_pattern(
            function, id, spoken, f"{purpose} ({self._name})", rate=self._rate, example=example
        )

    def _build_append(self) -> Pattern[[OutboxItem], Put[OutboxItem]]:
        """Build the pattern that creates an item."""

        def append(item: OutboxItem) -> Put[OutboxItem]:
            return OutboxItem.create(item)

        return self._build_pattern(
            1, "append", "Append a message about a change", append, example=(self._example_item,)
        )

    def _build_waiting(self) -> Pattern[[OutboxStatus, int], SelectQuery[OutboxItem]]:
        """Build the query of the items of a shard with one status, oldest first, without their bodies."""

        def waiting(status: OutboxStatus, shard: int) -> SelectQuery[OutboxItem]:
            return OutboxItem.by_status(self._name, status, shard).query().select(*INDEXED_ATTRIBUTES)

        purpose = "Pending or dead messages of a shard"
        return self._build_pattern(
            2, "waiting", purpose, waiting, example=(OutboxStatus.PENDING, self._example_item.shard)
        )

    def _build_items(self) -> Pattern[[str], Query[OutboxItem]]:
        """Build the consistent read of an aggregate's first items, in order."""

        def items(aggregate: str) -> Query[OutboxItem]:
            return OutboxItem.of(self._name, aggregate).query().page(PAGE_ITEMS).consistent()

        return self._build_pattern(
            3, "items", "Messages of an aggregate, in order", items, example=(_AGGREGATE,)
        )

    def _build_take_turn(self) -> Pattern[[OutboxTurn, datetime], Put[OutboxTurn]]:
        """Build the put of a turn that is free, has ended, or has the same owner."""

        def take_turn(turn: OutboxTurn, now: datetime) -> Put[OutboxTurn]:
            is_free = OutboxTurn.owner.not_exists() | (OutboxTurn.until <= now)
            return OutboxTurn.put(turn).when(is_free | (OutboxTurn.owner == turn.owner))

        return self._build_pattern(
            4,
            "take_turn",
            "Take or renew the turn to relay an aggregate",
            take_turn,
            example=(self._example_turn, _TIME),
        )

    def _build_give_turn(self) -> Pattern[[OutboxTurn], Delete[OutboxTurn]]:
        """Build the deletion of a turn by its owner."""

        def give_turn(turn: OutboxTurn) -> Delete[OutboxTurn]:
            return OutboxTurn.of(self._name, turn.aggregate).delete().when(OutboxTurn.owner == turn.owner)

        return self._build_pattern(
            5, "give_turn", "Release the turn to relay an aggregate", give_turn, example=(self._example_turn,)
        )

    def _build_send(self, queue: Queue[Any]) -> Pattern[[OutboxItem], SendItem]:
        """Build the send of an item to the queue."""

        def send(item: OutboxItem) -> SendItem:
            return SendItem(queue, item)

        return self._build_pattern(6, "send", "Send a message", send, example=(self._example_item,))

    def _build_remove(self) -> Pattern[[OutboxItem], Delete[OutboxItem]]:
        """Build the deletion of an item by its id."""

        def remove(item: OutboxItem) -> Delete[OutboxItem]:
            at = OutboxItem.of(self._name, item.aggregate)
            return at.delete(item.sequence, item.part).when(OutboxItem.id == item.id)

        return self._build_pattern(
            7, "remove", "Remove a sent message", remove, example=(self._example_item,)
        )

    def _build_keep(self) -> Pattern[[OutboxItem, OutboxItem], Put[OutboxItem]]:
        """Build the put of a changed item, on condition that its status and attempts are as read."""

        def keep(item: OutboxItem, seen: OutboxItem) -> Put[OutboxItem]:
            is_as_seen = (OutboxItem.status == seen.status) & (OutboxItem.attempts == seen.attempts)
            return OutboxItem.put(item).when(OutboxItem.id == seen.id, is_as_seen)

        purpose = "Keep a message for another attempt, or mark it dead"
        return self._build_pattern(8, "keep", purpose, keep, example=(self._example_item, self._example_item))

    def _build_counter(self) -> Pattern[[str], Get[OutboxCounter]]:
        """Build the consistent read of an aggregate's counter."""

        def counter(aggregate: str) -> Get[OutboxCounter]:
            return OutboxCounter.of(self._name, aggregate).get().consistent()

        return self._build_pattern(
            9, "counter", "Last message number of an aggregate", counter, example=(_AGGREGATE,)
        )

    def _build_count(self) -> Pattern[[str, int, int], Put[OutboxCounter]]:
        """Build the put of the counter, on condition that it is as read."""

        def count(aggregate: str, last: int, seen: int) -> Put[OutboxCounter]:
            put = OutboxCounter.put(OutboxCounter(outbox=self._name, aggregate=aggregate, last=last))
            return put.when(OutboxCounter.last == seen) if seen else put.if_absent()

        return self._build_pattern(
            10, "count", "Take the next message number of an aggregate", count, example=(_AGGREGATE, 1, 0)
        )

    @property
    def _example_turn(self) -> OutboxTurn:
        return OutboxTurn(outbox=self._name, aggregate=_AGGREGATE, owner="o", until=_TIME)
