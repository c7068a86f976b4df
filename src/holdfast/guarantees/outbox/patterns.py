"""The access patterns of an outbox: to append, to find what waits, to take turns, to send, to number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.guarantees.outbox.items import (
    OutboxCounter,
    OutboxItem,
    OutboxStatus,
    OutboxTurn,
    SendItem,
    shard_of,
)
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import Delete, Get, Operation, Pattern, Put, Query, Queue, Rate, Rows
from holdfast.model.patterns import Example

P = ParamSpec("P")
O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation, as in the model

PAGE_ITEMS: Final = 25
# What the index holds of an item: all but the body.
LISTED: Final = (
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
    """`append` is for who announces, with `counter` and `count` where the outbox gives the numbers; the others relay."""

    def __init__(self, name: str, queue: Queue[Any], prefix: str, rate: Rate, shards: int) -> None:
        self._name, self._prefix, self._rate = name, prefix, rate
        self._item = OutboxItem(
            outbox=name,
            aggregate=_AGGREGATE,
            sequence=1,
            id="01KGJ000000000000000000000",
            body="{}",
            shard=shard_of(_AGGREGATE, shards),
            created_at=_TIME,
        )
        self.append, self.waiting, self.of_aggregate = self._append(), self._waiting(), self._of_aggregate()
        self.take_turn, self.give_turn = self._take_turn(), self._give_turn()
        self.send, self.remove, self.keep = self._send(queue), self._remove(), self._keep()
        self.counter, self.count = self._counter(), self._count()

    def _made(
        self, number: int, name: str, purpose: str, function: Callable[P, O], *, example: Example
    ) -> Pattern[P, O]:
        spoken = f"{self._name.replace('-', '_')}_outbox_{name}"
        id = f"{self._prefix}{number}"
        return made_pattern(
            function, id, spoken, f"{purpose} ({self._name})", rate=self._rate, example=example
        )

    def _append(self) -> Pattern[[OutboxItem], Put[OutboxItem]]:
        def append(item: OutboxItem) -> Put[OutboxItem]:
            return OutboxItem.create(item)

        return self._made(1, "append", "Announce a change", append, example=(self._item,))

    def _waiting(self) -> Pattern[[OutboxStatus, int], Rows[OutboxItem]]:
        def waiting(status: OutboxStatus, shard: int) -> Rows[OutboxItem]:
            return OutboxItem.by_status(self._name, status, shard).query().select(*LISTED)

        purpose = "Announcements of a shard that wait, or were given up"
        return self._made(2, "waiting", purpose, waiting, example=(OutboxStatus.PENDING, self._item.shard))

    def _of_aggregate(self) -> Pattern[[str], Query[OutboxItem]]:
        def items(aggregate: str) -> Query[OutboxItem]:
            return OutboxItem.of(self._name, aggregate).query().page(PAGE_ITEMS).consistent()

        return self._made(3, "items", "Announcements of an aggregate, in order", items, example=(_AGGREGATE,))

    def _take_turn(self) -> Pattern[[OutboxTurn, datetime], Put[OutboxTurn]]:
        def take_turn(turn: OutboxTurn, now: datetime) -> Put[OutboxTurn]:
            is_free = OutboxTurn.owner.missing() | (OutboxTurn.until <= now)
            return OutboxTurn.put(turn).when(is_free | (OutboxTurn.owner == turn.owner))

        return self._made(
            4,
            "take_turn",
            "Take or keep the turn to relay an aggregate",
            take_turn,
            example=(self._turn, _TIME),
        )

    def _give_turn(self) -> Pattern[[OutboxTurn], Delete[OutboxTurn]]:
        def give_turn(turn: OutboxTurn) -> Delete[OutboxTurn]:
            return OutboxTurn.of(self._name, turn.aggregate).delete().when(OutboxTurn.owner == turn.owner)

        return self._made(
            5, "give_turn", "Give the turn to relay an aggregate back", give_turn, example=(self._turn,)
        )

    def _send(self, queue: Queue[Any]) -> Pattern[[OutboxItem], SendItem]:
        def send(item: OutboxItem) -> SendItem:
            return SendItem(queue, item)

        return self._made(6, "send", "Send an announcement", send, example=(self._item,))

    def _remove(self) -> Pattern[[OutboxItem], Delete[OutboxItem]]:
        def remove(item: OutboxItem) -> Delete[OutboxItem]:
            at = OutboxItem.of(self._name, item.aggregate)
            return at.delete(item.sequence, item.part).when(OutboxItem.id == item.id)

        return self._made(7, "remove", "Remove an announcement that is sent", remove, example=(self._item,))

    def _keep(self) -> Pattern[[OutboxItem, OutboxItem], Put[OutboxItem]]:
        def keep(item: OutboxItem, seen: OutboxItem) -> Put[OutboxItem]:
            is_as_seen = (OutboxItem.status == seen.status) & (OutboxItem.attempts == seen.attempts)
            return OutboxItem.put(item).when(OutboxItem.id == seen.id, is_as_seen)

        purpose = "Keep an announcement for another attempt, or give it up"
        return self._made(8, "keep", purpose, keep, example=(self._item, self._item))

    def _counter(self) -> Pattern[[str], Get[OutboxCounter]]:
        def counter(aggregate: str) -> Get[OutboxCounter]:
            return OutboxCounter.of(self._name, aggregate).get().consistent()

        return self._made(
            9, "counter", "The last number given in an aggregate", counter, example=(_AGGREGATE,)
        )

    def _count(self) -> Pattern[[str, int, int], Put[OutboxCounter]]:
        def count(aggregate: str, last: int, seen: int) -> Put[OutboxCounter]:
            put = OutboxCounter.put(OutboxCounter(outbox=self._name, aggregate=aggregate, last=last))
            return put.when(OutboxCounter.last == seen) if seen else put.if_absent()

        return self._made(
            10, "count", "Give the next number in an aggregate", count, example=(_AGGREGATE, 1, 0)
        )

    @property
    def _turn(self) -> OutboxTurn:
        return OutboxTurn(outbox=self._name, aggregate=_AGGREGATE, owner="o", until=_TIME)
