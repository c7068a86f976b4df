"""Messages to employees, and the outbox and queue that announce them to the sender.

Both are written in the transaction of the change.

    await stores.transact(change, *build_notice_writes(stores, message))

Inside a flow, the writes go into `Next(writes=…)`. `workers.message_sender` consumes the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel

from holdfast import Queue, Rate, Schedule, Stores, Write
from holdfast.guarantees import Outbox
from holdfast.model.ulids import Ulid
from tripcortex.model import patterns
from tripcortex.model.entities import EmployeeId, Message
from tripcortex.model.ids import get_ulids

RATE: Final = Rate(per="message to an employee")
# In real time: a simulated clock must not delay messages to employees.
POLL_S: Final = 0.5


class Notice(BaseModel):
    """An announcement of a message. The content stays in the employee's messages and is never in a queue."""

    employee_id: EmployeeId
    message_id: Ulid


notices = Queue(
    "tripcortex-notices",
    Notice,
    fifo=True,
    group=lambda notice: notice.employee_id,
    deduplication=lambda notice: notice.message_id,
    visibility_s=60,
    purpose="Announces messages to employees, in order per employee",
    pattern_ids=("TN90", "TN91", "TN92"),
    rate=RATE,
)
# One shard: a few messages per booking, and each poll is a query.
NOTICES: Final = Outbox(notices, prefix="TN", rate=RATE, shards=1)


def build_message(
    stores: Stores,
    employee_id: EmployeeId,
    about: str,
    body: Mapping[str, Any],
    booking_id: Ulid | None = None,
) -> Message:
    """Return a new message with an id and the current time; `about` is its kind, such as "options"."""
    return Message(
        employee_id=employee_id,
        message_id=get_ulids(stores.clock).new(),
        kind=about,
        booking_id=booking_id,
        body=dict(body),
        at=datetime.fromtimestamp(int(stores.clock.now()), UTC),
    )


def build_notice_writes(stores: Stores, message: Message) -> tuple[Write[Any], ...]:
    """Return the writes of a message and its announcement, for the transaction of the change it reports."""
    notice = Notice(employee_id=message.employee_id, message_id=message.message_id)
    return (
        patterns.put_message(message),
        NOTICES.enqueue(stores, message.message_id, notice, sequence=1),
    )


class _PollTimer:
    """Wakes the relay periodically in real time, whatever clock the stores use."""

    async def wait(self, timeout_s: float) -> str | None:
        """Sleep at most half a second of real time; return "poll"."""
        await asyncio.sleep(min(POLL_S, timeout_s))
        return "poll"


@asynccontextmanager
async def _open_poll_timer(stores: Stores) -> AsyncIterator[_PollTimer]:
    yield _PollTimer()


RELAY: Final = Schedule("notices", every_s=POLL_S, run=NOTICES.send_unsent, wake_source=_open_poll_timer)
