"""The entities of these tests: a table that two entities share, with all kinds of keys, and a plain table."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from pydantic import Field

from holdfast import KEYS_ONLY, Attr, Document, Entity, IndexKey, Key, Lifetime, Table, attr

FAR_AHEAD = datetime(2126, 2, 4, 12, tzinfo=UTC)


class State(StrEnum):
    open = "open"
    waiting = "waiting"
    done = "done"


class Address(Document):
    city: str
    lines: list[str] = Field(default_factory=list)


desk = Table("Desk", partition="PK", sort="SK", ttl="endsAt", point_in_time_recovery=True)
by_state = desk.global_index("by-state", "GSI1PK", "GSI1SK")
by_day = desk.global_index("by-day", "GSI2PK", "created", projection=KEYS_ONLY)
by_rank = desk.global_index("by-rank", "board", "rank", sort_type="N", default=False)
by_agent = desk.global_index("by-agent", "agent", default=False)


def day(moment: datetime) -> date:
    return moment.date()


class Ticket(Entity, table=desk):
    """An item of a board, with every kind of attribute, index key and lifetime."""

    board: Attr[str] = attr()
    number: Attr[int] = attr()
    state: Attr[State] = attr(default=State.open)
    created: Attr[datetime] = attr(default=FAR_AHEAD)
    agent: Attr[str | None] = attr(default=None)
    rank: Attr[Decimal | None] = attr(default=None)
    address: Attr[Address | None] = attr(default=None)
    notes: Attr[list[str]] = attr(default_factory=list)
    tags: Attr[frozenset[str]] = attr(default=frozenset())
    seal: Attr[bytes | None] = attr(default=None)
    version: Attr[int] = attr(default=1)

    of = Key("BOARD#" + board, "TICKET#" + number.zero_pad(6))
    unfinished = IndexKey(
        by_state,
        "OPEN#" + board,
        state + "#" + number.zero_pad(6),
        only=state.one_of(State.open, State.waiting),
    )
    of_day = IndexKey(by_day, "DAY#" + created.transform(day), created)
    of_rank = IndexKey(by_rank, board, rank)
    of_agent = IndexKey(by_agent, agent)
    lives = Lifetime(created, timedelta(days=30))


class Board(Entity, table=desk):
    """An item in the same partition as its tickets."""

    board: Attr[str] = attr()
    title: Attr[str] = attr()
    tickets: Attr[int] = attr(default=0)

    of = Key("BOARD#" + board, "ABOUT")


counters = Table("Counters", partition="name", sort="at", sort_type="N", stream="NEW_IMAGE")


class Counter(Entity, table=counters):
    name: Attr[str] = attr()
    at: Attr[int] = attr()
    value: Attr[int] = attr(default=0)

    of = Key(name, at)
