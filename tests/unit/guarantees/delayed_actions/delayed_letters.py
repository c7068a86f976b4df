"""Example for the tests of `DelayedActions`: delayed letters, and a fake post office that sends them."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import (
    Attr,
    Component,
    EpochSeconds,
    IndexKey,
    Key,
    Load,
    Rate,
    Stores,
    System,
    Table,
    Volume,
    attr,
)
from holdfast.core.errors import ExternalServiceFailed
from holdfast.guarantees import Completion, DelayedAction, DelayedActions
from holdfast.model.entities import TimestampMillis
from holdfast.model.system import Design
from tests.unit.guarantees.idempotency.once_records import count, counters

letters = Table("HeldLetters", "PK", "SK", ttl="TTL")
by_due = letters.global_index("by-due", "DuePK", "DueSK")

LEASE_S = 60.0
RETENTION_S = 24 * 3600.0
ACT_S = 10.0
HOLD_S = 1800.0
KEY_KEPT_S = 6 * 3600.0


class Letter(DelayedAction, table=letters):
    desk: Attr[str] = attr()
    id: Attr[str] = attr()
    text: Attr[str] = attr()
    note: Attr[str | None] = attr(default=None)
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr("TTL", default=None)

    of = Key("DESK#" + desk, "LETTER#" + id)
    due = IndexKey(by_due, "LETTER#" + queue, held_until + "#" + id)


def make_letter(id: str = "l-1", **more: Any) -> Letter:
    """Return a letter; `more` are further attributes."""
    return Letter(**{"desk": "d-1", "id": id, "text": "hello"} | more)


queue = DelayedActions(
    Letter,
    prefix="HQ",
    rate=Rate("letter"),
    example=make_letter,
    payload=("text",),
    lease_s=LEASE_S,
    retention_s=RETENTION_S,
    clock_margin_s=0.0,  # the tests move one clock
    read_rate=Rate("turn"),
)

SYSTEM = System(
    "letters",
    "Sends letters, each once",
    tables=[letters, counters],
    patterns=[*queue.patterns, count],
    components=[
        Component("author", uses=(queue.author,)),
        Component("reviewer", uses=(queue.reviewer, count)),
        Component("sender", uses=(queue.reads, queue.executor, count)),
    ],
    design=Design(
        load=Load(
            volumes={
                "letter": Volume(per_month=1000),
                "event": Volume(per_month=1000),
                "turn": Volume(per_month=3000),
            }
        )
    ),
)


class FakePostOffice:
    """External service that sends letters and records each send in `ledger`.

    It raises `refuses` before a send and `fails` after it; `is_asked` and `may_go_on` let a test act in the
    middle of one. If `keys` is set, the service sends only once per idempotency key.
    """

    def __init__(self) -> None:
        self.ledger: list[tuple[str, str]] = []
        self.looked_up: list[str] = []
        self.keys: set[str] | None = None
        self.fails: BaseException | None = None
        self.refuses: BaseException | None = None
        self.is_asked, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.may_go_on.set()

    async def send(self, record: Letter, key: str) -> dict[str, Any]:
        """Send the letter: record it in the ledger, wait for `may_go_on`, and return the outcome."""
        if self.refuses is not None:
            raise self.refuses
        if self.keys is None or key not in self.keys:
            self.ledger.append((record.id, record.text))
        if self.keys is not None:
            self.keys.add(key)
        self.is_asked.set()
        await self.may_go_on.wait()
        if self.fails is not None:
            raise self.fails
        return {"sent": record.text}

    async def find(self, record: Letter, key: str) -> dict[str, Any] | None:
        """Return the outcome of a letter in the ledger, or None; each look-up is recorded in `looked_up`."""
        self.looked_up.append(key)
        return next(({"sent": text} for id, text in self.ledger if id == record.id), None)


async def hold(stores: Stores, record: Letter | None = None, for_s: float = HOLD_S) -> Letter:
    """Delay a letter (by default `l-1`) and return its stored record."""
    put = queue.delay(stores, record or make_letter(), for_s=for_s)
    await stores.run(put)
    return put.entity


async def execute(stores: Stores, office: FakePostOffice, record: Letter | None = None) -> Completion[Letter]:
    """Execute a letter (by default `l-1`), with a look-up; count `sent` or `refused CODE` with the
    outcome.
    """
    return await queue.execute(
        stores,
        record or make_letter(),
        act=office.send,
        look_up=office.find,
        act_s=ACT_S,
        writes=lambda outcome: [count("sent")],
        refused=lambda error: [count(f"refused {error.code}")],
    )


async def execute_by_key(
    stores: Stores, office: FakePostOffice, record: Letter | None = None
) -> Completion[Letter]:
    """Execute a letter (by default `l-1`) under its idempotency key, which the service keeps for six hours.

    There is no look-up. A refusal is counted as `refused CODE`.
    """
    return await queue.execute(
        stores,
        record or make_letter(),
        act=office.send,
        takes_key=True,
        key_kept_s=KEY_KEPT_S,
        act_s=ACT_S,
        refused=lambda error: [count(f"refused {error.code}")],
    )


async def read_letter(stores: Stores, record: Letter | None = None) -> Letter:
    """Return the stored record of a letter, by default `l-1`; fail if there is none."""
    found = await stores.run(queue.pattern_set.one(record or make_letter()))
    assert found is not None
    return found


async def find_due(stores: Stores) -> list[str]:
    """List the ids of all records that a worker finds due now."""
    return [each.id for each in await queue.find_due(stores, 2)]


async def list_due(stores: Stores) -> list[str]:
    """List the ids of all records that are due now, page by page."""
    now, found, after = stores.now(), list[str](), None
    while True:
        page = await stores.run(queue.pattern_set.due(now, 2, after))
        found += [each.id for each in page]
        if (after := page.cursor) is None:
            return found


NO_ANSWER = ExternalServiceFailed("no answer", may_be_done=True)
NOT_NOW = ExternalServiceFailed("too many requests", may_be_done=False)
