"""What is to be told: a message is written with what it tells, and announced on a queue by the same transaction.

    await stores.transact(change, *notice_writes(stores, message))

Inside a flow, the writes go into `Next(writes=…)`. The sender (`sender.py`) works the queue off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import BaseModel

from holdfast import (
    ChangeVisibility,
    DeleteReceived,
    Queue,
    Rate,
    Receive,
    Received,
    Schedule,
    Stores,
    Ulid,
    Write,
    pattern,
)
from holdfast.guarantees import Outbox
from tripcortex import patterns
from tripcortex.ids import ids_of
from tripcortex.model import EmployeeId, Message

RATE: Final = Rate(per="message to an employee")
# In real time: what an employee waits for is not moved by a run clock.
LOOK_S: Final = 0.5


class Notice(BaseModel):
    """That there is something to tell. What it is stands in the employee's messages, and in no queue."""

    employee_id: EmployeeId
    message_id: Ulid


notices = Queue(
    "tripcortex-notices",
    Notice,
    fifo=True,
    group=lambda notice: notice.employee_id,
    deduplication=lambda notice: notice.message_id,
    visibility_s=60,
    purpose="Which employee is to be told what, in order",
)
# One shard: a few messages per booking, and each look at it is a query.
NOTICES: Final = Outbox(notices, "TN", rate=RATE, shards=1)


def message_to(
    stores: Stores,
    employee_id: EmployeeId,
    about: str,
    body: Mapping[str, Any],
    booking_id: Ulid | None = None,
) -> Message:
    return Message(
        employee_id=employee_id,
        message_id=ids_of(stores.clock).new(),
        kind=about,
        booking_id=booking_id,
        body=dict(body),
        at=datetime.fromtimestamp(int(stores.clock.now()), UTC),
    )


def notice_writes(stores: Stores, message: Message) -> tuple[Write[Any], ...]:
    """For the transaction of what it tells: the message, and its announcement."""
    notice = Notice(employee_id=message.employee_id, message_id=message.message_id)
    return (
        patterns.put_message(message),
        NOTICES.item(stores, message.message_id, notice, sequence=1),
    )


async def hurry(stores: Stores, message: Message) -> None:
    """Sends the announcement at once, for who has just committed it. Without this the relay finds it."""
    await NOTICES.relay(stores, message.message_id)


# --- how the queue is worked off -------------------------------------------------------------------------------


@pattern("TN90", "Receive notices", rate=RATE, example=(1, 0.0))
def receive(count: int, wait_s: float) -> Receive[Notice]:
    return notices.receive(count, wait_s=wait_s)


@pattern("TN91", "A notice is done", rate=RATE, example=())
def done(*received: Received[Notice]) -> DeleteReceived[Notice]:
    return notices.delete(*received)


@pattern("TN92", "Hold a notice, or give it back", rate=RATE, example=(None, 60.0))
def hold(received: Received[Notice] | None, seconds: float) -> ChangeVisibility[Notice]:
    return notices.hold(*(() if received is None else (received,)), seconds=seconds)


class _Looks:
    """Wakes the relay again and again, whatever clock the stores have."""

    async def wait(self, timeout_s: float) -> str | None:
        await asyncio.sleep(min(LOOK_S, timeout_s))
        return "look"


@asynccontextmanager
async def _looking(stores: Stores) -> AsyncIterator[_Looks]:
    yield _Looks()


RELAY: Final = Schedule("notices", every_s=LOOK_S, run=NOTICES.relay, wakes=_looking)
