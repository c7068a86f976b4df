"""Executions: one row per item whose flow has not ended, written in the transaction of each step.

The item is the truth. Its execution says what to do next and when: resend a step after a pause or because its
worker was lost, end a wait at its deadline. The index `due`, spread over shards, gives the sweeper what is
due now and what is parked, without a scan.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import BaseModel

from holdfast.guarantees import declare_retention
from holdfast.model.entities import Attr, Entity, IndexKey, Key, attr
from holdfast.model.tables import Table, keep_names
from holdfast.runtime.telemetry.figures import FLOW_EXECUTIONS, FLOW_MOST_OVERDUE, FLOW_OVERDUE, Figure

FLOWS: Final = Table(
    "Flows",
    "flow_shard",
    "key",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Executions of flows that have not ended, and when each is due",
)
"""The table of executions. Add it to the tables of a system that has flows."""
DUE: Final = FLOWS.global_index("due", "lane_shard", "due_key", purpose="Executions that are due, or parked")
SHARD_DIGITS: Final = 3


class Lane(StrEnum):
    """The partition of the index: an execution is due at a time, or parked."""

    DUE = "due"
    PARKED = "parked"


class ParkedFor(StrEnum):
    """The reason why a flow is parked. The first two resolve themselves once newer code runs."""

    UNKNOWN_STATE = "unknown state"
    UNREADABLE = "unreadable item"
    FAILED = "failed step"
    MISTAKE = "mistaken step"
    LOST = "lost step"


class Execution(Entity, table=FLOWS):
    """One running flow. `version` is the item's when it entered this state; it identifies late messages.

    `due` is when the sweeper looks at it, or since when it is parked; `due_set_at` is when that was set, by
    the same clock. `attempts` counts failed attempts in this state, `delays` those that do not count, `sends`
    messages that the sweeper sent, `takes` redeliveries of a message whose worker was lost.
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
    # Absent in executions of version 0.2 and before.
    due_set_at: Attr[datetime | None] = attr(default=None)
    attempts: Attr[int] = attr(default=0)
    delays: Attr[int] = attr(default=0)
    sends: Attr[int] = attr(default=0)
    takes: Attr[int] = attr(default=0)
    delayed_since: Attr[datetime | None] = attr(default=None)
    # The last failure, and why it is parked: error classes and ids, no data of a step.
    error: Attr[str | None] = attr(default=None)
    # A `ParkedFor`, or a value of newer code.
    parked_for: Attr[str | None] = attr(default=None)
    parked: Attr[str | None] = attr(default=None)
    correlation: Attr[str | None] = attr(default=None)

    of = Key(flow + "#" + shard.zero_pad(SHARD_DIGITS), key)
    by_due = IndexKey(DUE, flow + "#" + lane + "#" + shard.zero_pad(SHARD_DIGITS), due + "#" + key)

    @property
    def is_parked(self) -> bool:
        return self.lane is Lane.PARKED

    def is_pausing(self, now: datetime) -> bool:
        """Return True if an attempt failed and the next is not sent yet: a copy of an earlier message is then
        ignored.
        """
        return self.error is not None and not self.sends and self.due is not None and now < self.due


# The label is part of what `holdfast retention --json` returns.
declare_retention(Execution, None, "until the flow ends", label="Place")


class StepMessage(BaseModel):
    """Asks a worker to look at an item; the item says what is to be done."""

    flow: str
    key: str
    state: str
    version: int


def describe_executions(
    flow: str, states: Collection[str], executions: Iterable[Execution], now: datetime
) -> list[Figure]:
    """Return the figures of a flow for the metrics. A state that this code does not know is `unknown`."""
    counts: Counter[tuple[str, bool]] = Counter()
    overdue_s: list[float] = []
    for each in executions:
        counts[each.state if each.state in states else "unknown", each.is_parked] += 1
        if each.due is not None and each.due <= now and not each.is_parked:
            overdue_s.append((now - each.due).total_seconds())
    return [
        *(
            Figure(FLOW_EXECUTIONS, count, {"flow": flow, "state": state, "parked": str(is_parked).lower()})
            for (state, is_parked), count in counts.items()
        ),
        Figure(FLOW_OVERDUE, len(overdue_s), {"flow": flow}),
        Figure(FLOW_MOST_OVERDUE, max(overdue_s, default=0.0), {"flow": flow}),
    ]


def compute_shard(key: str, shards: int) -> int:
    """Return the shard of a key, the same in every process: Python's own hash is not."""
    return zlib.crc32(key.encode()) % shards
