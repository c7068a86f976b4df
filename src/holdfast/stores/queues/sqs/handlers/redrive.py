"""The SQS engine's handler of Redrive: receive dead letters, send them to the target, delete them, in order.

On a FIFO queue the message's first deduplication id may still be in the target's deduplication window, and
SQS would drop the message. So it is sent under an id derived from the dead letter's own id, which no other
message has. After a crash between send and delete, a second redrive within the window sends it under the same
id, so that it arrives once. On a standard queue it may then arrive twice.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import NotFound, SendIncomplete
from holdfast.core.limits import MAX_QUEUE_BATCH
from holdfast.operations.queues import (
    DeleteMessages,
    IncomingMessage,
    OutgoingMessage,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.sqs.handlers.messages import (
    delete_messages,
    make_visible,
    receive_messages,
    send_messages,
)
from holdfast.stores.queues.sqs.messages import DEDUPLICATION_ATTRIBUTE
from holdfast.stores.queues.sqs.service import Service

REDRIVE_VISIBILITY_S: Final = 60
# A receive that does not wait queries only some of SQS's servers, and may miss existing messages.
RECEIVE_WAIT_S: Final = 1


async def redrive(operation: Redrive, service: Service) -> int:
    """Move up to `count` messages, or all if it is None, in batches of ten; return how many were moved."""
    await _require_target(operation, service)
    moved = 0
    while operation.count is None or moved < operation.count:
        wanted = MAX_QUEUE_BATCH if operation.count is None else operation.count - moved
        receive = ReceiveMessages(
            operation.source, min(MAX_QUEUE_BATCH, wanted), RECEIVE_WAIT_S, REDRIVE_VISIBILITY_S
        )
        dead = await receive_messages(receive, service)
        if not dead:
            break
        await _move(operation, dead, service)
        moved += len(dead)
    return moved


async def _require_target(operation: Redrive, service: Service) -> None:
    """Raise `NotFound`, with a note that nothing was moved, if the target queue does not exist."""
    try:
        await service.get_url(operation.target)
    except NotFound as error:
        error.add_note(f"No message of {operation.source} was moved.")
        raise


async def _move(operation: Redrive, dead: tuple[IncomingMessage, ...], service: Service) -> None:
    """Send one batch to the target and delete what was sent; make visible again what was not sent, and
    raise.
    """
    sent, unsent = dead, tuple[IncomingMessage, ...]()
    try:
        await send_messages(SendMessages(operation.target, tuple(map(_to_outgoing, dead))), service)
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
            await make_visible(operation.source, unsent, service)


def _to_outgoing(message: IncomingMessage) -> OutgoingMessage:
    """Return the dead letter as a message to send; on a FIFO queue with an id derived from its own."""
    if message.group is None:
        return OutgoingMessage(body=message.body, attributes=message.attributes)
    before = {} if message.deduplication is None else {DEDUPLICATION_ATTRIBUTE: message.deduplication}
    return OutgoingMessage(
        body=message.body,
        group=message.group,
        deduplication=f"redrive-{message.id}",
        attributes={**message.attributes, **before},
    )
