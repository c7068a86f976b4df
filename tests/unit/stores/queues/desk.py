"""Two small systems with queues, for the tests of `holdfast queues`."""

from __future__ import annotations

from pydantic import BaseModel

from holdfast.model.queues import Queue
from holdfast.model.system import Deployment, System


class Ticket(BaseModel):
    id: str
    desk: str


tickets = Queue(
    "tickets",
    Ticket,
    fifo=True,
    group=lambda ticket: ticket.desk,
    deduplication=lambda ticket: ticket.id,
    max_receives=1,
)
notes = Queue("notes", Ticket, max_receives=None)

SYSTEM = System(name="desk", purpose="Takes tickets", tables=(), patterns=(), queues=(tickets, notes))
BANK = System(
    name="bank",
    purpose="Pays",
    queues=(Queue("payments", Ticket),),
    deployment=Deployment(needs_environment=True),
)
