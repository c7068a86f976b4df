"""A small system with queues, for the commands."""

from __future__ import annotations

from pydantic import BaseModel

from holdfast.model.queues import Queue
from holdfast.model.system import System


class Ticket(BaseModel):
    id: str
    desk: str


tickets = Queue(
    "tickets",
    Ticket,
    fifo=True,
    group=lambda ticket: ticket.desk,
    deduplication=lambda ticket: ticket.id,
    receives_max=1,
)
notes = Queue("notes", Ticket, receives_max=None)

SYSTEM = System(name="desk", purpose="Takes tickets", tables=(), patterns=(), queues=(tickets, notes))
BANK = System(
    name="bank",
    purpose="Pays",
    tables=(),
    patterns=(),
    queues=(Queue("payments", Ticket),),
    needs_environment=True,
)
