"""Example for the tests of `Once`: an event record, a counter as effect, a manual clock, a lossy engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from holdfast import (
    Attr,
    Component,
    Entity,
    IndexKey,
    Key,
    Load,
    Rate,
    Stores,
    System,
    Table,
    Update,
    Volume,
    attr,
    keep_names,
    pattern,
)
from holdfast.core.errors import OutcomeUnknown
from holdfast.guarantees import Claim, Completion, Once, OnceRecord, OnceStatus, fingerprint
from holdfast.model.system import Design
from holdfast.operations.tables import Operation
from holdfast.stores.tables.port import Tables

events = Table("OnceEvents", "event_id", ttl="expires_at", naming=keep_names)
by_status = events.global_index("by-status", "listed_as", "event_id")
counters = Table("OnceCounters", "name", naming=keep_names)

LEASE_S = 60.0
RETENTION_S = 3600.0
PAYLOAD = fingerprint({"text": "hello"})
OTHER_PAYLOAD = fingerprint({"text": "goodbye"})


class EventRecord(OnceRecord, table=events):
    event_id: Attr[str] = attr()
    # Declared again, so that an index key can use it.
    status: Attr[OnceStatus] = attr(default=OnceStatus.PROCESSING)
    note: Attr[str | None] = attr(default=None)

    of = Key(event_id)
    listed = IndexKey(by_status, "STATUS#" + status, event_id)


class Counter(Entity, table=counters):
    name: Attr[str] = attr()
    value: Attr[int] = attr(default=0)

    of = Key(name)


@pattern("CO1", "Count one", rate=Rate("event"), example=("hits",))
def count(name: str) -> Update[Counter]:
    return Counter.of(name).update().add(Counter.value, 1).or_create()


once = Once(
    EventRecord,
    prefix="ON",
    rate=Rate("event"),
    example=EventRecord(event_id="evt-1", payload_sha256=PAYLOAD),
    lease_s=LEASE_S,
    retention_s=RETENTION_S,
    clock_margin_s=0.0,  # the tests move one clock
)

SYSTEM = System(
    "counting",
    "Counts events, each once",
    tables=[events, counters],
    patterns=[*once.patterns, count],
    components=[
        Component("worker", uses=(once.reads, once.writes, count)),
        Component("claimer", uses=(once.pattern_set.claim,)),
    ],
    design=Design(load=Load(volumes={"event": Volume(per_month=1000)})),
)


class ManualClock:
    """Clock that moves only when the test advances it."""

    def __init__(self, start: float | None = None) -> None:
        self.moment = time.time() if start is None else start

    def now(self) -> float:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += seconds


def make_event(id: str = "evt-1", payload: str = PAYLOAD, **more: Any) -> EventRecord:
    """Return a record of the event; `payload` is the hash of its payload, `more` further attributes."""
    return EventRecord(event_id=id, payload_sha256=payload, **more)


async def claim_event(stores: Stores, record: EventRecord | None = None) -> Claim[EventRecord]:
    """Claim the event (by default `evt-1`); fail if it is done already."""
    taken = await once.claim(stores, record or make_event())
    assert isinstance(taken, Claim)
    return taken


async def replay_event(stores: Stores, record: EventRecord | None = None) -> Completion[EventRecord]:
    """Return the stored completion of the event (by default `evt-1`); fail if it is not done."""
    taken = await once.claim(stores, record or make_event())
    assert isinstance(taken, Completion) and taken.replayed
    return taken


async def read_counter(stores: Stores, name: str = "hits") -> int:
    """Return the counter of the effect; 0 if there is none."""
    found = await stores.run(Counter.of(name).get().consistent())
    return 0 if found is None else found.value


class LossyTables:
    """Tables engine that loses responses and raises `OutcomeUnknown`.

    `is_lost` decides per operation: "done" executes it and drops the response, any other text withholds the
    operation, None runs it normally.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.lost: list[str] = []
        self.withheld: list[Operation[Any]] = []
        self.is_lost: Callable[[Operation[Any]], str | None] = lambda _: None

    async def run(self, operation: Operation[Any]) -> Any:
        """Run, drop or withhold the operation as `is_lost` says."""
        fate = self.is_lost(operation)
        if fate is None:
            return await self._tables.run(operation)
        self.lost.append(fate)
        if fate == "done":
            await self._tables.run(operation)
        else:
            self.withheld.append(operation)
        raise OutcomeUnknown("The answer was lost", safe_to_repeat=True)

    async def deliver_withheld(self) -> None:
        """Execute the withheld operations now, late."""
        while self.withheld:
            await self._tables.run(self.withheld.pop())
