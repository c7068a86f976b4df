"""What the statements of an outbox take and give, and the sending of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from holdfast.guarantees.outbox.items import group_of
from holdfast.limits import MESSAGE_BYTES_MAX
from holdfast.model import Queue, SqlRow
from holdfast.model.queues import ANNOUNCEMENT, BATCH_MAX, CORRELATION, QueueOperation
from holdfast.operations import queues as requests
from holdfast.stores.queues.checks import message_bytes


class Announced(BaseModel):
    """A message to be written down: its body is that which the queue will have."""

    model_config = ConfigDict(frozen=True)

    queue_name: str
    aggregate: str
    body: str
    correlation_id: str | None
    at: datetime


class Claimed(SqlRow):
    """A row in the hands of one publisher; or one without its body, which was found behind another and set aside."""

    id: int
    queue_name: str
    aggregate: str
    message_body: str
    correlation_id: str | None
    created_at: datetime
    is_behind: bool = False


class Failed(SqlRow):
    id: int
    is_dead: bool


class CountersLooked(SqlRow):
    """How many counters were removed, and up to which aggregate was looked; None where there are no more."""

    removed: int
    last: str | None


class WaitingRow(SqlRow):
    """All but the body."""

    id: int
    queue_name: str
    aggregate: str
    sequence_number: int
    created_at: datetime
    retry_count: int
    last_error: str | None
    dead_at: datetime | None


class Backlog(SqlRow):
    """What is not with one queue: how much will be sent, how much was given up, since when the oldest waits."""

    queue_name: str
    pending: int
    dead: int
    oldest_at: datetime

    def oldest_age_s(self, now: float) -> float:
        return max(0.0, now - self.oldest_at.timestamp())


@dataclass(frozen=True)
class SendRows(QueueOperation[Any, "tuple[requests.Sent, ...]"]):
    """Up to ten rows for one queue: on a FIFO queue in the groups of their aggregates, told from copies by their ids.

    An id is that of the row with the outbox and the moment before and behind it: two databases, or one that was made
    anew, count from one alike, and a queue would drop the second's messages for copies.
    """

    writes: ClassVar[bool] = True

    outbox: str
    rows: tuple[Claimed, ...]

    kind = "SendMessageBatch"

    def request(self, environment: str) -> requests.SendMessages:
        outgoing = tuple(self._outgoing(row) for row in self.rows)
        return requests.SendMessages(self._name(environment), outgoing, pattern=self.pattern)

    def answer(self, result: tuple[requests.Sent, ...]) -> tuple[requests.Sent, ...]:
        return result

    def _outgoing(self, row: Claimed) -> requests.Outgoing:
        id = f"{self.outbox}-{row.id}-{int(row.created_at.timestamp() * 1_000_000)}"
        correlation = {} if row.correlation_id is None else {CORRELATION: row.correlation_id}
        return requests.Outgoing(
            body=row.message_body,
            group=group_of(row.aggregate) if self.queue.fifo else None,
            deduplication=id if self.queue.fifo else None,
            attributes={ANNOUNCEMENT: id, **correlation},
        )


def sends_of(queue: Queue[Any], outbox: str, rows: Sequence[Claimed]) -> Iterator[tuple[Claimed, ...]]:
    """The rows for one queue in requests that it takes: up to ten, and not too many bytes together."""
    taken: list[Claimed] = []
    size = 0
    for row, row_bytes in _with_sizes(queue, outbox, rows):
        if taken and (len(taken) == BATCH_MAX or size + row_bytes > MESSAGE_BYTES_MAX):
            yield tuple(taken)
            taken, size = [], 0
        taken.append(row)
        size += row_bytes
    if taken:
        yield tuple(taken)


def _with_sizes(queue: Queue[Any], outbox: str, rows: Iterable[Claimed]) -> Iterator[tuple[Claimed, int]]:
    for row in rows:
        [outgoing] = SendRows(queue, outbox, (row,)).request("").messages
        yield row, message_bytes(outgoing)
