"""The outbox table and its entities: messages, the turn to relay an aggregate, an aggregate's counter.

An item exists until its message is in the queue, and is then deleted. The index `waiting`, spread over
shards, lets a sweep find items without scanning the table; it does not project the body.
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from typing import Final

from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.messaging.messages import OutboxStatus
from holdfast.model.entities import Attr, Entity, IndexKey, Key, Lifetime, attr
from holdfast.model.tables import Table, include, keep_names

OUTBOX: Final = Table(
    "Outbox",
    "aggregate_key",
    "place",
    ttl="expires_at",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Messages written with the state that they announce, until they are sent to their queue",
)
"""The table of outbox items. Add it to the tables of a system that uses `Outbox`."""
# The attributes that the index projects: all but the body.
_INDEXED: Final = (
    *("outbox", "aggregate", "sequence", "part", "id"),
    *("status", "created_at", "attempts", "not_before", "reason"),
)
WAITING: Final = OUTBOX.global_index(
    "waiting",
    "waiting_shard",
    "waiting_since",
    projection=include(*_INDEXED),
    purpose="Messages that are pending or dead",
)
SEQUENCE_DIGITS: Final = 15
PART_DIGITS: Final = 3
SHARD_DIGITS: Final = 3
# A turn that its holder could not release expires after this time; it can be taken over long before.
TURN_LIFETIME: Final = timedelta(hours=1)


class OutboxItem(Entity, table=OUTBOX):
    """A message to send. Within an aggregate the order is `sequence`, then `part`."""

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
        outbox + "#" + aggregate,
        "ITEM#" + sequence.zero_pad(SEQUENCE_DIGITS) + "#" + part.zero_pad(PART_DIGITS),
    )
    by_status = IndexKey(
        WAITING,
        outbox + "#" + status + "#" + shard.zero_pad(SHARD_DIGITS),
        created_at + "#" + aggregate,
    )


INDEXED_ATTRIBUTES: Final = {name: getattr(OutboxItem, name) for name in _INDEXED}


class OutboxTurn(Entity, table=OUTBOX):
    """The right to relay an aggregate: its owner, and when it ends unless it is renewed."""

    outbox: Attr[str] = attr()
    aggregate: Attr[str] = attr()
    owner: Attr[str] = attr()
    until: Attr[datetime] = attr()

    of = Key(outbox + "#" + aggregate, "TURN")
    lives = Lifetime(until, TURN_LIFETIME)


class OutboxCounter(Entity, table=OUTBOX):
    """The last number given to an item, for aggregates without a version."""

    outbox: Attr[str] = attr()
    aggregate: Attr[str] = attr()
    last: Attr[int] = attr()

    of = Key(outbox + "#" + aggregate, "COUNTER")


declare_retention(OutboxItem, None, "until it is sent to its queue; a dead item until it is redriven")
declare_retention(
    OutboxCounter, None, "one per aggregate without a version, kept indefinitely: its numbers only grow"
)


def compute_shard(aggregate: str, shards: int) -> int:
    """Return the shard of an aggregate. The same in every process, unlike Python's own hash."""
    return zlib.crc32(aggregate.encode()) % shards
