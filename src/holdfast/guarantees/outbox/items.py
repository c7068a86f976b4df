"""What an outbox keeps, in a table of its own: the items, whose turn it is to relay an aggregate, and its counter.

An item is there until its message is with the queue, and then deleted. By the index `waiting`, spread over shards, a
sweep finds what is there without reading the table; the body is not copied into it.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Final

from holdfast.guarantees.lifetimes import kept
from holdfast.model import Attr, Entity, IndexKey, Key, Lifetime, Table, as_written, attr, include
from holdfast.model.queues import ANNOUNCEMENT, CORRELATION, QueueOperation
from holdfast.operations import queues as requests
from holdfast.stores.queues.checks import TOKEN

OUTBOX: Final = Table(
    "Outbox",
    "aggregate_key",
    "place",
    ttl="expires_at",
    names=as_written,
    recovery=True,
    purpose="Messages written with the state that they announce, until they are with their queue",
)
WAITING: Final = OUTBOX.index(
    "waiting",
    "waiting_shard",
    "waiting_since",
    projection=include(
        "outbox",
        "aggregate",
        "sequence",
        "part",
        "id",
        "status",
        "created_at",
        "attempts",
        "not_before",
        "reason",
    ),
    purpose="What waits to be relayed, and what was given up",
)
SEQUENCE_DIGITS: Final = 15
PART_DIGITS: Final = 3
SHARD_DIGITS: Final = 3
# A turn that its holder could not give back is forgotten after so long; it can be taken over long before.
TURN_KEPT: Final = timedelta(hours=1)


class OutboxStatus(StrEnum):
    PENDING = "pending"
    DEAD = "dead"  # given up; it holds up its aggregate until it is redriven


class OutboxItem(Entity, table=OUTBOX):
    """A message to be sent. Within an aggregate they go out by `sequence`, then by `part`."""

    outbox: Attr[str] = attr()
    aggregate: Attr[str] = attr()
    sequence: Attr[int] = attr()
    part: Attr[int] = attr(default=0)
    id: Attr[str] = attr()
    body: Attr[str] = attr()
    correlation: Attr[str | None] = attr(default=None)
    status: Attr[OutboxStatus] = attr(default=OutboxStatus.PENDING)
    shard: Attr[int] = attr()
    created_at: Attr[datetime] = attr()
    attempts: Attr[int] = attr(default=0)
    not_before: Attr[datetime | None] = attr(default=None)
    reason: Attr[str | None] = attr(default=None)

    of = Key(
        outbox + "#" + aggregate, "ITEM#" + sequence.padded(SEQUENCE_DIGITS) + "#" + part.padded(PART_DIGITS)
    )
    by_status = IndexKey(
        WAITING,
        outbox + "#" + status + "#" + shard.padded(SHARD_DIGITS),
        created_at + "#" + aggregate,
    )


class OutboxTurn(Entity, table=OUTBOX):
    """Who relays an aggregate, and until when unless it goes on."""

    outbox: Attr[str] = attr()
    aggregate: Attr[str] = attr()
    owner: Attr[str] = attr()
    until: Attr[datetime] = attr()

    of = Key(outbox + "#" + aggregate, "TURN")
    lives = Lifetime(until, TURN_KEPT)


class OutboxCounter(Entity, table=OUTBOX):
    """The last number given to an item, for aggregates that have no version of their own."""

    outbox: Attr[str] = attr()
    aggregate: Attr[str] = attr()
    last: Attr[int] = attr()

    of = Key(outbox + "#" + aggregate, "COUNTER")


kept(OutboxItem, None, "until it is with its queue; one that was given up, until it is redriven")
kept(OutboxCounter, None, "one for each aggregate without a version, without an end: its numbers only grow")


@dataclass(frozen=True)
class SendItem(QueueOperation[Any, requests.Sent]):
    """An item sent: on a FIFO queue in the group of its aggregate, and told from a copy by its id."""

    writes: ClassVar[bool] = True

    item: OutboxItem

    kind = "SendMessage"

    def request(self, environment: str) -> requests.SendMessages:
        item, fifo = self.item, self.queue.fifo
        correlation = {} if item.correlation is None else {CORRELATION: item.correlation}
        outgoing = requests.Outgoing(
            body=item.body,
            group=group_of(item.aggregate) if fifo else None,
            deduplication=item.id if fifo else None,
            attributes={ANNOUNCEMENT: item.id, **correlation},
        )
        return requests.SendMessages(self._name(environment), (outgoing,), pattern=self.pattern)

    def answer(self, result: tuple[requests.Sent, ...]) -> requests.Sent:
        return result[0]


def group_of(aggregate: str) -> str:
    """The aggregate, or its hash where a queue would not take it: with spaces, letters beyond ASCII, or too long."""
    return aggregate if TOKEN.fullmatch(aggregate) else hashlib.sha256(aggregate.encode()).hexdigest()


def shard_of(aggregate: str, shards: int) -> int:
    """The same in every process: Python's own hash is not."""
    return zlib.crc32(aggregate.encode()) % shards
