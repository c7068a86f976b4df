"""The operations of a queues store, as frozen values. Standard and FIFO queues, as SQS has them.

A definition names everything that matters to delivery. Messages are text with a few attributes; an engine
neither reads nor changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One thing to do on one queue; `R_co` is what running it gives. `pattern` is who made it."""

    pattern: str | None = None


class QueueDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue is. The name of a FIFO queue ends in `.fifo`, and its dead-letter queue is FIFO too."""

    name: str
    fifo: bool = False
    visibility_s: int = 30
    delay_s: int = 0
    retention_s: int = 4 * 86400
    # FIFO: without a deduplication id, the hash of the body is taken for one.
    content_deduplication: bool = False
    # After so many receives a message goes to this queue instead of being received again.
    dead_letters: str | None = None
    receives_max: int = 5


class QueueDescription(msgspec.Struct, frozen=True, kw_only=True):
    """`oldest_age_s` is the age of the oldest message that waits; None where there is none, or none can be
    told.
    """

    definition: QueueDefinition
    visible: int
    in_flight: int
    delayed: int
    oldest_age_s: float | None = None

    @property
    def backlog(self) -> int:
        return self.visible + self.in_flight + self.delayed


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send. `group` is needed on a FIFO queue and refused on another; so is `deduplication`."""

    body: str
    group: str | None = None
    deduplication: str | None = None
    # Standard queues only; None leaves it to the queue.
    delay_s: int | None = None
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """`sequence` orders the messages of a FIFO queue. A duplicate within the window has the id of the
    first.
    """

    id: str
    sequence: int | None = None


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A message received: nobody else sees it until it is deleted, released, or its visibility time is
    over.
    """

    id: str
    receipt: str
    body: str
    sent_at: float
    receives: int
    group: str | None = None
    deduplication: str | None = None
    sequence: int | None = None
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    # Of a dead letter: the queue it could not be done in, where the engine knows.
    died_in: str | None = None


class CreateQueue(Operation[None], frozen=True):
    """Makes the queue; one that is there with the same definition is left alone, with another it is
    refused.
    """

    definition: QueueDefinition


class UpdateQueue(Operation[None], frozen=True):
    """Another definition for a queue that is there. Whether it is FIFO cannot be changed."""

    definition: QueueDefinition


class DeleteQueue(Operation[None], frozen=True):
    queue: str


class PurgeQueue(Operation[None], frozen=True):
    queue: str


class ListQueues(Operation[tuple[str, ...]], frozen=True):
    prefix: str = ""


class DescribeQueue(Operation[QueueDescription], frozen=True):
    queue: str


class SendMessages(Operation[tuple[Sent, ...]], frozen=True):
    """Up to ten, in this order. Embedded, all or none; at SQS each on its own, and `SendIncomplete` says
    which.
    """

    queue: str
    messages: tuple[Outgoing, ...]


class ReceiveMessages(Operation[tuple[Incoming, ...]], frozen=True):
    """Up to ten. Waits up to `wait_s` for the first. On a FIFO queue, messages of one group come in order."""

    queue: str
    count: int = 1
    wait_s: float = 0.0
    visibility_s: float | None = None


class DeleteMessages(Operation[None], frozen=True):
    """Done with them. A receipt that another receive has replaced raises `ReceiptLost`; the others are
    deleted.
    """

    queue: str
    receipts: tuple[str, ...]


class ChangeVisibility(Operation[None], frozen=True):
    """So many seconds from now, whatever was before: more to go on working, 0 to give it back."""

    queue: str
    receipts: tuple[str, ...]
    seconds: float


class Redrive(Operation[int], frozen=True):
    """Moves messages of a dead-letter queue back, oldest first, and gives how many.

    They keep body, group, deduplication id and attributes, and begin to be counted anew.
    """

    source: str
    target: str
    count: int | None = None


class Browse(Operation[tuple[Incoming, ...]], frozen=True):
    """The oldest messages, without receiving them where the engine can; their receipts are empty."""

    queue: str
    count: int = 10
