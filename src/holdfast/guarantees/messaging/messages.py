"""The messages of an outbox: as operators see them, and as their queue gets them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from holdfast.core.limits import MAX_MESSAGE_BYTES
from holdfast.model.queues import (
    ANNOUNCEMENT_ATTRIBUTE,
    CORRELATION_ATTRIBUTE,
    MAX_BATCH,
    Queue,
    QueueOperation,
)
from holdfast.model.sql import SqlRow
from holdfast.operations import queues as requests
from holdfast.stores.queues.checks import TOKEN, count_message_bytes


class OutboxStatus(StrEnum):
    """The state of a message that is not sent yet."""

    PENDING = "pending"
    DEAD = "dead"  # no more attempts; it blocks its aggregate until it is redriven or discarded


class UnsentMessage(SqlRow):
    """A message that has not been sent to its queue."""

    outbox: str
    aggregate: str
    sequence: int
    part: int
    id: str
    status: OutboxStatus
    created_at: datetime
    attempts: int
    reason: str | None
    queue: str


class Backlog(SqlRow):
    """The unsent messages of one queue: how many are pending, how many dead, and the time of the oldest."""

    queue_name: str
    pending: int
    dead: int
    oldest_at: datetime

    def oldest_age_s(self, now: float) -> float:
        """Return the age of the oldest unsent message in seconds."""
        return max(0.0, now - self.oldest_at.timestamp())


@dataclass(frozen=True, eq=False)
class OutboxMessage:
    """A message as its queue gets it. `stored` is the item or row that it was read from.

    The queue and the receiver recognise a copy by the `id`, which is the same for every send.
    """

    id: str
    queue_name: str
    aggregate: str
    body: str
    correlation: str | None
    stored: Any = None


@dataclass(frozen=True)
class SendOutboxMessages(QueueOperation[Any, "tuple[requests.SentMessage, ...]"]):
    """Send up to ten messages to one queue.

    On a FIFO queue they are in the groups of their aggregates, deduplicated by their ids.
    """

    writes: ClassVar[bool] = True

    messages: tuple[OutboxMessage, ...]

    kind = "SendMessageBatch"

    def build_request(self, environment: str) -> requests.SendMessages:
        outgoing = tuple(map(self._build_outgoing, self.messages))
        return requests.SendMessages(self._get_physical_name(environment), outgoing, pattern=self.pattern)

    def decode_result(self, result: tuple[requests.SentMessage, ...]) -> tuple[requests.SentMessage, ...]:
        return result

    def _build_outgoing(self, message: OutboxMessage) -> requests.OutgoingMessage:
        """Return the message, with its id and its correlation id as attributes."""
        correlation = {} if message.correlation is None else {CORRELATION_ATTRIBUTE: message.correlation}
        return requests.OutgoingMessage(
            body=message.body,
            group=_get_group(message.aggregate) if self.queue.fifo else None,
            deduplication=message.id if self.queue.fifo else None,
            attributes={ANNOUNCEMENT_ATTRIBUTE: message.id, **correlation},
        )


def split_requests(
    queue: Queue[Any], messages: Iterable[OutboxMessage]
) -> Iterator[tuple[OutboxMessage, ...]]:
    """Split the messages into requests that the queue accepts: up to ten each, within the size limit."""
    taken: list[OutboxMessage] = []
    size = 0
    for message in messages:
        [outgoing] = SendOutboxMessages(queue, (message,)).build_request("").messages
        message_bytes = count_message_bytes(outgoing)
        if taken and (len(taken) == MAX_BATCH or size + message_bytes > MAX_MESSAGE_BYTES):
            yield tuple(taken)
            taken, size = [], 0
        taken.append(message)
        size += message_bytes
    if taken:
        yield tuple(taken)


def _get_group(aggregate: str) -> str:
    """Return the aggregate as message group, or its hash if the queue would refuse it (spaces, non-ASCII, too
    long).
    """
    return aggregate if TOKEN.fullmatch(aggregate) else hashlib.sha256(aggregate.encode()).hexdigest()
