"""Parameter and row types of the SQL outbox's statements, and the operation that sends claimed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from holdfast.core.limits import MAX_MESSAGE_BYTES
from holdfast.guarantees.messaging.outbox.items import get_group
from holdfast.model import Queue, SqlRow
from holdfast.model.queues import ANNOUNCEMENT_ATTRIBUTE, CORRELATION_ATTRIBUTE, MAX_BATCH, QueueOperation
from holdfast.operations import queues as requests
from holdfast.stores.queues.checks import count_message_bytes


class NewMessage(BaseModel):
    """A message to write to the outbox, with the body that the queue will get."""

    model_config = ConfigDict(frozen=True)

    queue_name: str
    aggregate: str
    body: str
    correlation_id: str | None
    at: datetime


class ClaimedRow(SqlRow):
    """A row claimed by one publisher; or one without its body that was found behind another and set aside."""

    id: int
    queue_name: str
    aggregate: str
    message_body: str
    correlation_id: str | None
    created_at: datetime
    is_behind: bool = False


class FailedRow(SqlRow):
    """A row whose failed attempt was recorded, and if it is dead now."""

    id: int
    is_dead: bool


class CounterSweep(SqlRow):
    """The number of removed counters, and the last aggregate examined; None at the end."""

    removed: int
    last: str | None


class UnsentRow(SqlRow):
    """An unsent row without its body."""

    id: int
    queue_name: str
    aggregate: str
    sequence_number: int
    created_at: datetime
    retry_count: int
    last_error: str | None
    dead_at: datetime | None


class Backlog(SqlRow):
    """The unsent rows of one queue: how many are pending, how many dead, and since when the oldest waits."""

    queue_name: str
    pending: int
    dead: int
    oldest_at: datetime

    def oldest_age_s(self, now: float) -> float:
        """Return the age of the oldest unsent row in seconds."""
        return max(0.0, now - self.oldest_at.timestamp())


@dataclass(frozen=True)
class SendRows(QueueOperation[Any, "tuple[requests.SentMessage, ...]"]):
    """Sends up to ten claimed rows to one queue.

    On a FIFO queue they are in the groups of their aggregates, deduplicated by their ids. A deduplication id
    consists of the outbox, the row's id and its time: two databases, or a recreated one, both count from one,
    and the queue would drop the messages of the second as copies. `outbox` is the outbox's channel name.
    """

    writes: ClassVar[bool] = True

    outbox: str
    rows: tuple[ClaimedRow, ...]

    kind = "SendMessageBatch"

    def build_request(self, environment: str) -> requests.SendMessages:
        outgoing = tuple(self._build_outgoing(row) for row in self.rows)
        return requests.SendMessages(self._get_physical_name(environment), outgoing, pattern=self.pattern)

    def decode_result(self, result: tuple[requests.SentMessage, ...]) -> tuple[requests.SentMessage, ...]:
        return result

    def _build_outgoing(self, row: ClaimedRow) -> requests.OutgoingMessage:
        """Return the row's message, with its deduplication id and correlation id as attributes."""
        id = f"{self.outbox}-{row.id}-{int(row.created_at.timestamp() * 1_000_000)}"
        correlation = {} if row.correlation_id is None else {CORRELATION_ATTRIBUTE: row.correlation_id}
        return requests.OutgoingMessage(
            body=row.message_body,
            group=get_group(row.aggregate) if self.queue.fifo else None,
            deduplication=id if self.queue.fifo else None,
            attributes={ANNOUNCEMENT_ATTRIBUTE: id, **correlation},
        )


def split_requests(
    queue: Queue[Any], outbox: str, rows: Sequence[ClaimedRow]
) -> Iterator[tuple[ClaimedRow, ...]]:
    """Split the rows for one queue into requests that it accepts: up to ten rows, within the size limit.

    `outbox` is the outbox's channel name.
    """
    taken: list[ClaimedRow] = []
    size = 0
    for row, row_bytes in _measure_rows(queue, outbox, rows):
        if taken and (len(taken) == MAX_BATCH or size + row_bytes > MAX_MESSAGE_BYTES):
            yield tuple(taken)
            taken, size = [], 0
        taken.append(row)
        size += row_bytes
    if taken:
        yield tuple(taken)


def _measure_rows(
    queue: Queue[Any], outbox: str, rows: Iterable[ClaimedRow]
) -> Iterator[tuple[ClaimedRow, int]]:
    """Yield each row with the bytes of its message."""
    for row in rows:
        [outgoing] = SendRows(queue, outbox, (row,)).build_request("").messages
        yield row, count_message_bytes(outgoing)
