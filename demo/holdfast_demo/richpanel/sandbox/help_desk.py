"""The sandbox help desk's data: tickets and their effects, in the memory of the process.

The ledger lists every change of a ticket in the order it took effect. Tests check against the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal

from holdfast.core.clock import Clock

Effect = Literal["message", "note", "tag", "assign"]
Author = Literal["customer", "middleware"]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One effect. `reference` comes from the caller; `value` is the tag, the team or the text."""

    number: int
    ticket_id: str
    effect: Effect
    value: str
    reference: str
    at: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a ticket."""

    id: str
    author: Author
    text: str
    created_at: str


@dataclass(slots=True)
class Ticket:
    """A ticket with everything that happened to it."""

    id: str
    channel: str
    customer: dict[str, Any]
    tags: set[str] = field(default_factory=set)
    assignee: str | None = None
    messages: list[Message] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    activities: list[LedgerEntry] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the ticket as the API responds it."""
        return {
            "id": self.id,
            "conversation_id": self.id,
            "channel": self.channel,
            "customer": self.customer,
            "tags": sorted(self.tags),
            "assignee": self.assignee,
            "message_ids": [message.id for message in self.messages],
        }


class SandboxHelpDesk:
    """All tickets, and the ledger."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tickets: dict[str, Ticket] = {}
        self._numbers: Iterator[int] = count(1)
        self.ledger: list[LedgerEntry] = []

    def open_ticket(self, ticket_id: str, channel: str, customer: dict[str, Any]) -> Ticket:
        """Return the ticket with this id; open it first if it does not exist."""
        return self._tickets.setdefault(ticket_id, Ticket(ticket_id, channel, customer))

    def find_ticket(self, ticket_id: str) -> Ticket | None:
        """Return the ticket, or None."""
        return self._tickets.get(ticket_id)

    def add_customer_message(self, ticket: Ticket, text: str, message_id: str | None = None) -> Message:
        """Add a message of the customer. Without `message_id` it gets a numbered one."""
        message = Message(
            message_id or f"msg-{ticket.id}-{len(ticket.messages) + 1}", "customer", text, self._now()
        )
        ticket.messages.append(message)
        return message

    def apply(self, ticket: Ticket, effect: Effect, value: str, reference: str) -> LedgerEntry:
        """Apply an effect of the middleware, record it in the ledger and return the entry. A repeated call
        applies it again.
        """
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


def to_json(entry: LedgerEntry) -> dict[str, Any]:
    """Return an entry as the API responds it."""
    return asdict(entry)
