"""The operations of a queues store, as frozen values, for standard and FIFO queues as in SQS.

A definition contains every setting that affects delivery. Messages are text with a few attributes; an engine
neither reads nor changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

__all__ = [
    "Browse",
    "ChangeVisibility",
    "CreateQueue",
    "DeleteMessages",
    "DeleteQueue",
    "DescribeQueue",
    "DiscardMessages",
    "IncomingMessage",
    "ListQueues",
    "Operation",
    "OutgoingMessage",
    "PurgeQueue",
    "QueueDefinition",
    "QueueDescription",
    "ReceiveMessages",
    "Redrive",
    "SendMessages",
    "SentMessage",
    "UpdateQueue",
]

R_co = TypeVar("R_co", covariant=True)


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One operation on one queue. `R_co` is the type of its result; `pattern` is the id of the access pattern
    that built it.
    """

    pattern: str | None = None


class QueueDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a queue. The name of a FIFO queue ends in `.fifo`, and its dead-letter queue is FIFO
    too.
    """

    name: str
    fifo: bool = False
    visibility_s: int = 30
    delay_s: int = 0
    retention_s: int = 4 * 86400
    # FIFO: without a deduplication id, the hash of the body is the id.
    content_deduplication: bool = False
    # After this many receives a message moves to this queue instead of being received again.
    dead_letters: str | None = None
    # Stored under its first name.
    max_receives: int = msgspec.field(default=5, name="receives_max")


class QueueDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a queue. `oldest_age_s` is the age of the oldest waiting message; None if there is none or
    the engine does not know.
    """

    definition: QueueDefinition
    visible: int
    in_flight: int
    delayed: int
    oldest_age_s: float | None = None

    @property
    def backlog(self) -> int:
        """All messages of the queue: visible, in flight and delayed."""
        return self.visible + self.in_flight + self.delayed


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send. `group` is required on a FIFO queue and invalid on a standard one; `deduplication`
    is invalid on a standard one.
    """

    body: str
    group: str | None = None
    deduplication: str | None = None
    # Standard queues only; None uses the queue's delay.
    delay_s: int | None = None
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)


class SentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A sent message. `sequence` orders the messages of a FIFO queue. A duplicate within the deduplication
    window has the id of the first message.
    """

    id: str
    sequence: int | None = None


class IncomingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A received message: no other consumer receives it until it is deleted, released, or its visibility
    timeout ends.
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
    # For a dead letter: the queue where processing failed, if the engine knows it.
    died_in: str | None = None


class CreateQueue(Operation[None], frozen=True):
    """Create the queue. An existing queue with the same definition is unchanged; a different definition is an
    error.
    """

    definition: QueueDefinition


class UpdateQueue(Operation[None], frozen=True):
    """Replace the definition of an existing queue. A queue cannot change between standard and FIFO."""

    definition: QueueDefinition


class DeleteQueue(Operation[None], frozen=True):
    """Delete a queue and its messages."""

    queue: str


class PurgeQueue(Operation[None], frozen=True):
    """Delete all messages of a queue; the queue stays."""

    queue: str


class ListQueues(Operation[tuple[str, ...]], frozen=True):
    """List the queues."""

    prefix: str = ""


class DescribeQueue(Operation[QueueDescription], frozen=True):
    """Return a queue's definition and the numbers of its messages."""

    queue: str


class SendMessages(Operation[tuple[SentMessage, ...]], frozen=True):
    """Send up to ten messages, in this order. Embedded, all or none are sent; SQS sends each separately, and
    `SendIncomplete` lists the failures.
    """

    queue: str
    messages: tuple[OutgoingMessage, ...]


class ReceiveMessages(Operation[tuple[IncomingMessage, ...]], frozen=True):
    """Receive up to ten messages, waiting up to `wait_s` for the first. A FIFO queue delivers the messages of
    a group in order.
    """

    queue: str
    count: int = 1
    wait_s: float = 0.0
    visibility_s: float | None = None


class DeleteMessages(Operation[None], frozen=True):
    """Delete processed messages. A receipt that a later receive has replaced raises `ReceiptLost`; the others
    are deleted.
    """

    queue: str
    receipts: tuple[str, ...]


class ChangeVisibility(Operation[None], frozen=True):
    """Set the visibility timeout to this many seconds from now: more to continue the work, 0 to release the
    message.
    """

    queue: str
    receipts: tuple[str, ...]
    seconds: float


class Redrive(Operation[int], frozen=True):
    """Move up to `count` messages (None: all) of the dead-letter queue `source` to `target`, oldest first,
    and return how many.

    They keep body, group, deduplication id and attributes; their receive count restarts. `ids` and `group`
    select messages: only these are moved.
    """

    source: str
    target: str
    count: int | None = None
    ids: tuple[str, ...] | None = None
    group: str | None = None


class DiscardMessages(Operation[int], frozen=True):
    """Delete the messages with these ids, without receiving them where the engine can, and return how many.

    A message that a receiver holds is kept: its receiver may still process it.
    """

    queue: str
    ids: tuple[str, ...]


class Browse(Operation[tuple[IncomingMessage, ...]], frozen=True):
    """Return the oldest messages, without receiving them where the engine can. Their receipts are empty."""

    queue: str
    count: int = 10
