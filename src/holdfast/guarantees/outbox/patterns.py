"""The access patterns of an outbox, by what they are for: appending, relaying, looking."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from holdfast.guarantees.outbox.items import (
    OutboxCounter,
    OutboxItem,
    OutboxStatus,
    OutboxTurn,
    SendItem,
    shard_of,
)
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import Delete, Get, Pattern, Put, Query, Queue, Rate, Rows

PAGE_ITEMS: Final = 25
_EXAMPLE_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)


class OutboxPatterns:
    """`reads` and `writes` are for who relays; `append` is for who announces, with `counter` and `count` where the
    outbox gives the numbers."""

    def __init__(self, name: str, queue: Queue[Any], prefix: str, rate: Rate, shards: int, spoken: str) -> None:
        item = partial(_example_item, name, shards)
        turn = OutboxTurn(outbox=name, aggregate="a-1", owner="o", until=_EXAMPLE_TIME)
        made = partial(made_pattern, rate=rate)

        def append(item: OutboxItem) -> Put[OutboxItem]:
            return OutboxItem.create(item)

        def waiting(status: OutboxStatus, shard: int) -> Rows[OutboxItem]:
            return OutboxItem.by_status(name, status, shard).query().select(*LISTED)

        def of_aggregate(aggregate: str) -> Query[OutboxItem]:
            return OutboxItem.of(name, aggregate).query().page(PAGE_ITEMS).consistent()

        def take_turn(turn: OutboxTurn, now: datetime) -> Put[OutboxTurn]:
            is_free = OutboxTurn.owner.missing() | (OutboxTurn.until <= now)
            return OutboxTurn.put(turn).when(is_free | (OutboxTurn.owner == turn.owner))

        def give_turn(turn: OutboxTurn) -> Delete[OutboxTurn]:
            return OutboxTurn.of(name, turn.aggregate).delete().when(OutboxTurn.owner == turn.owner)

        def send(item: OutboxItem) -> SendItem:
            return SendItem(queue, item)

        def remove(item: OutboxItem) -> Delete[OutboxItem]:
            at = OutboxItem.of(name, item.aggregate)
            return at.delete(item.sequence, item.part).when(OutboxItem.id == item.id)

        def keep(item: OutboxItem, seen: OutboxItem) -> Put[OutboxItem]:
            is_as_seen = (OutboxItem.status == seen.status) & (OutboxItem.attempts == seen.attempts)
            return OutboxItem.put(item).when(OutboxItem.id == seen.id, is_as_seen)

        def counter(aggregate: str) -> Get[OutboxCounter]:
            return OutboxCounter.of(name, aggregate).get().consistent()

        def count(aggregate: str, last: int, seen: int) -> Put[OutboxCounter]:
            put = OutboxCounter.put(OutboxCounter(outbox=name, aggregate=aggregate, last=last))
            return put.when(OutboxCounter.last == seen) if seen else put.if_absent()

        self.append: Pattern[[OutboxItem], Put[OutboxItem]] = made(
            append, f"{prefix}1", f"append_to_{spoken}", f"Announce through {name}", example=lambda: (item(),)
        )
        self.waiting: Pattern[..., Rows[OutboxItem]] = made(
            waiting,
            f"{prefix}2",
            f"{spoken}_waiting",
            f"What waits in {name}, oldest first",
            example=(OutboxStatus.PENDING, 0),
        )
        self.of_aggregate: Pattern[[str], Query[OutboxItem]] = made(
            of_aggregate,
            f"{prefix}3",
            f"{spoken}_of_aggregate",
            f"What {name} has of an aggregate, in order",
            example=("a-1",),
        )
        self.take_turn: Pattern[[OutboxTurn, datetime], Put[OutboxTurn]] = made(
            take_turn,
            f"{prefix}4",
            f"take_turn_of_{spoken}",
            f"Take the turn to relay an aggregate of {name}, or keep it",
            example=(turn, _EXAMPLE_TIME),
        )
        self.give_turn: Pattern[[OutboxTurn], Delete[OutboxTurn]] = made(
            give_turn,
            f"{prefix}5",
            f"give_turn_of_{spoken}",
            f"Give the turn to relay an aggregate of {name} back",
            example=(turn,),
        )
        self.send: Pattern[[OutboxItem], SendItem] = made(
            send, f"{prefix}6", f"send_from_{spoken}", f"Send an item of {name}", example=lambda: (item(),)
        )
        self.remove: Pattern[[OutboxItem], Delete[OutboxItem]] = made(
            remove,
            f"{prefix}7",
            f"remove_from_{spoken}",
            f"Remove an item of {name} that is sent",
            example=lambda: (item(),),
        )
        self.keep: Pattern[[OutboxItem, OutboxItem], Put[OutboxItem]] = made(
            keep,
            f"{prefix}8",
            f"keep_in_{spoken}",
            f"Keep an item of {name} for another attempt, or give it up",
            example=lambda: (item(), item()),
        )
        self.counter: Pattern[[str], Get[OutboxCounter]] = made(
            counter,
            f"{prefix}9",
            f"{spoken}_counter",
            f"The last number of an aggregate in {name}",
            example=("a-1",),
        )
        self.count: Pattern[[str, int, int], Put[OutboxCounter]] = made(
            count,
            f"{prefix}10",
            f"count_in_{spoken}",
            f"The next number of an aggregate in {name}",
            example=("a-1", 1, 0),
        )


LISTED: Final = (
    OutboxItem.outbox,
    OutboxItem.aggregate,
    OutboxItem.sequence,
    OutboxItem.part,
    OutboxItem.id,
    OutboxItem.status,
    OutboxItem.created_at,
    OutboxItem.attempts,
    OutboxItem.reason,
)


def _example_item(name: str, shards: int) -> OutboxItem:
    return OutboxItem(
        outbox=name,
        aggregate="a-1",
        sequence=1,
        id="01KGJ000000000000000000000",
        body="{}",
        shard=shard_of("a-1", shards),
        created_at=_EXAMPLE_TIME,
    )
