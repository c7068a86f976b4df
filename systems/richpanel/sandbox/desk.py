"""The help desk's data: tickets and what was done to them. It lives in memory and ends with the process.

Whatever changes a ticket is written into the ledger, in the order it took effect. The ledger is what the tests believe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal

from holdfast.clock import Clock

Effect = Literal["message", "note", "tag", "assign"]
Author = Literal["customer", "middleware"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One effect. `reference` is what the caller gave with it, and `value` what it was about (a tag, a team)."""

    number: int
    ticket_id: str
    effect: Effect
    value: str
    reference: str
    at: str


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    author: Author
    text: str
    created_at: str


@dataclass(slots=True)
class Ticket:
    id: str
    channel: str
    customer: dict[str, str]
    tags: set[str] = field(default_factory=set)
    assignee: str | None = None
    messages: list[Message] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    activities: list[LedgerEntry] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "conversation_id": self.id,
            "channel": self.channel,
            "customer": self.customer,
            "tags": sorted(self.tags),
            "assignee": self.assignee,
            "message_ids": [message.id for message in self.messages],
        }


class Desk:
    """All tickets, and the ledger."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tickets: dict[str, Ticket] = {}
        self._numbers: Iterator[int] = count(1)
        self.ledger: list[LedgerEntry] = []

    def open(self, ticket_id: str, channel: str, customer: dict[str, str]) -> Ticket:
        return self._tickets.setdefault(ticket_id, Ticket(ticket_id, channel, customer))

    def ticket(self, ticket_id: str) -> Ticket | None:
        return self._tickets.get(ticket_id)

    def hear(self, ticket: Ticket, text: str, message_id: str | None = None) -> Message:
        """The customer writes."""
        message = Message(
            message_id or f"msg-{ticket.id}-{len(ticket.messages) + 1}", "customer", text, self._now()
        )
        ticket.messages.append(message)
        return message

    def do(self, ticket: Ticket, effect: Effect, value: str, reference: str) -> LedgerEntry:
        """The middleware does something. Asked twice, it is done twice."""
        match effect:
            case "message":
                number = len(ticket.messages) + 1
                ticket.messages.append(Message(f"msg-{ticket.id}-{number}", "middleware", value, self._now()))
            case "note":
                ticket.notes.append(value)
            case "tag":
                ticket.tags.add(value)
            case "assign":
                ticket.assignee = value
        entry = LedgerEntry(next(self._numbers), ticket.id, effect, value, reference, self._now())
        ticket.activities.append(entry)
        self.ledger.append(entry)
        return entry

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds")


def told(entry: LedgerEntry) -> dict[str, Any]:
    return asdict(entry)
