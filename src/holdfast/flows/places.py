"""Where each flow stands: a row per item that has not ended, written in the transaction of each step.

The item is the truth. Its place says what the flow is to do next and when: send a step again after a pause or because
nothing was heard of it, end a wait at its deadline. By the index `due`, spread over shards, a sweep finds what is to be
done now and what was set aside, without reading the table.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import BaseModel

from holdfast.guarantees import kept
from holdfast.model import Attr, Entity, IndexKey, Key, Table, as_written, attr

FLOWS: Final = Table(
    "Flows",
    "flow_shard",
    "key",
    names=as_written,
    recovery=True,
    purpose="Where each flow that has not ended stands, and when something is to be done about it",
)
DUE: Final = FLOWS.index("due", "lane_shard", "due_key", purpose="What is due, and what was set aside")
SHARD_DIGITS: Final = 3


class Lane(StrEnum):
    DUE = "due"
    PARKED = "parked"


class ParkedFor(StrEnum):
    """Why a flow was set aside. The first two end by themselves when code that understands it comes."""

    UNKNOWN_STATE = "unknown state"
    UNREADABLE = "unreadable item"
    FAILED = "failed step"
    MISTAKE = "mistaken step"
    LOST = "lost step"


class Place(Entity, table=FLOWS):
    """One running flow. `version` is the item's when it came to this state: by it a late message is known.

    `due` is when the sweeper looks at it; of one that is parked, since when it is. `attempts` are failed tries in this
    state, `delays` those that do not count, `sends` messages that the sweeper sent since, `takes` how often one was taken up
    again of which nothing was heard.
    """

    flow: Attr[str] = attr()
    shard: Attr[int] = attr()
    key: Attr[str] = attr()
    state: Attr[str] = attr()
    step: Attr[str | None] = attr(default=None)
    since: Attr[datetime] = attr()
    version: Attr[int] = attr()
    revision: Attr[int] = attr(default=0)
    lane: Attr[Lane] = attr(default=Lane.DUE)
    due: Attr[datetime | None] = attr(default=None)
    attempts: Attr[int] = attr(default=0)
    delays: Attr[int] = attr(default=0)
    sends: Attr[int] = attr(default=0)
    takes: Attr[int] = attr(default=0)
    delayed_since: Attr[datetime | None] = attr(default=None)
    # The last failure, and why it is parked; pointers and kinds of errors, nothing that a step was given.
    error: Attr[str | None] = attr(default=None)
    # A `ParkedFor`, or what newer code calls it.
    parked_for: Attr[str | None] = attr(default=None)
    parked: Attr[str | None] = attr(default=None)
    correlation: Attr[str | None] = attr(default=None)

    of = Key(flow + "#" + shard.padded(SHARD_DIGITS), key)
    by_due = IndexKey(DUE, flow + "#" + lane + "#" + shard.padded(SHARD_DIGITS), due + "#" + key)

    @property
    def is_parked(self) -> bool:
        return self.lane is Lane.PARKED

    def is_pausing(self, now: datetime) -> bool:
        """Whether a try failed, and the next one is not yet sent: a copy of an earlier message is nobody's turn."""
        return self.error is not None and not self.sends and self.due is not None and now < self.due


kept(Place, None, "until the flow ends")


class StepMessage(BaseModel):
    """Tells a worker that something is to be done about an item; what that is, the item says."""

    flow: str
    key: str
    state: str
    version: int


def shard_of(key: str, shards: int) -> int:
    """The same in every process: Python's own hash is not."""
    return zlib.crc32(key.encode()) % shards
