"""Redrive at SQS: receive from the dead-letter queue, send to the target, delete, in the order received.

On a FIFO queue the message's first deduplication id may still be in the target's deduplication window, and
SQS would drop the message. So it is sent under an id derived from the dead letter's own id, which no other
message has. After a crash between send and delete, a second redrive within the window sends it under the same
id, so that it arrives once. On a standard queue it may then arrive twice.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import NotFound, SendIncomplete
from holdfast.core.limits import QUEUE_BATCH_MAX
from holdfast.operations.queues import (
    DeleteMessages,
    Incoming,
    Outgoing,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.sqs.act.messages import (
    delete_messages,
    give_back,
    receive_messages,
    send_messages,
)
from holdfast.stores.queues.sqs.messages import DEDUPLICATION
from holdfast.stores.queues.sqs.service import Service

HOLD_S: Final = 60
# A receive that does not wait asks only some of SQS's servers, and may miss existing messages.
WAIT_S: Final = 1


async def redrive(operation: Redrive, service: Service) -> int:
    await _require_target(operation, service)
    moved = 0
    while operation.count is None or moved < operation.count:
        wanted = QUEUE_BATCH_MAX if operation.count is None else operation.count - moved
        receive = ReceiveMessages(operation.source, min(QUEUE_BATCH_MAX, wanted), WAIT_S, HOLD_S)
        dead = await receive_messages(receive, service)
        if not dead:
            break
        await _move(operation, dead, service)
        moved += len(dead)
    return moved


async def _require_target(operation: Redrive, service: Service) -> None:
    try:
        await service.url(operation.target)
    except NotFound as error:
        error.add_note(f"Nothing of {operation.source} was moved.")
        raise


async def _move(operation: Redrive, dead: tuple[Incoming, ...], service: Service) -> None:
    sent, unsent = dead, tuple[Incoming, ...]()
    try:
        await send_messages(SendMessages(operation.target, tuple(map(_again, dead))), service)
    except SendIncomplete as error:
        unsent = tuple(dead[number] for number in error.unsent)
        sent = tuple(each for each in dead if each not in unsent)
        raise
    except BaseException:
        sent, unsent = (), dead
        raise
    finally:
        if sent:
            await delete_messages(
                DeleteMessages(operation.source, tuple(each.receipt for each in sent)), service
            )
        if unsent:
            await give_back(operation.source, unsent, service)


def _again(message: Incoming) -> Outgoing:
    if message.group is None:
        return Outgoing(body=message.body, attributes=message.attributes)
    before = {} if message.deduplication is None else {DEDUPLICATION: message.deduplication}
    return Outgoing(
        body=message.body,
        group=message.group,
        deduplication=f"redrive-{message.id}",
        attributes={**message.attributes, **before},
    )
