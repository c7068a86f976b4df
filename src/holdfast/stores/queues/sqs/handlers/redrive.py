"""The SQS engine's handlers of Redrive and DiscardMessages.

A redrive receives dead letters, sends them to the target and deletes them, in order. SQS finds no message by
its id: whoever wants some messages receives the others too, which are visible again at the end. Of a FIFO
group only those are found that one receive returns: up to ten.

On a FIFO queue the message's first deduplication id may still be in the target's deduplication window, and
SQS would drop the message. So it is sent under an id derived from the dead letter's own id, which no other
message has. After a crash between send and delete, a second redrive within the window sends it under the same
id, so that it arrives once. On a standard queue it may then arrive twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from holdfast.core.errors import NotFound, SendIncomplete
from holdfast.core.limits import MAX_QUEUE_BATCH
from holdfast.operations.queues import (
    DeleteMessages,
    DiscardMessages,
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
    """Move up to `count` selected messages, or all if it is None, in batches of ten; return how many."""
    await _require_target(operation, service)
    moved, left = 0, None if operation.ids is None else set(operation.ids)
    async with _receive_others(operation.source, service) as others:
        while (operation.count is None or moved < operation.count) and left != set():
            # Of a selection, any message may be the next: receive full batches.
            is_selection = left is not None or operation.group is not None
            wanted = MAX_QUEUE_BATCH if operation.count is None or is_selection else operation.count - moved
            received = await _receive(operation.source, wanted, service)
            if not received:
                break
            chosen = [each for each in received if _is_selected(each, operation)]
            chosen = chosen if operation.count is None else chosen[: operation.count - moved]
            others += [each for each in received if each not in chosen]
            if chosen:
                await _move(operation, tuple(chosen), service)
            moved += len(chosen)
            left = None if left is None else left - {each.id for each in chosen}
    return moved


async def discard_messages(operation: DiscardMessages, service: Service) -> int:
    """Delete the messages with these ids, as far as a receive finds them; return how many."""
    left, discarded = set(operation.ids), 0
    async with _receive_others(operation.queue, service) as others:
        while left and (received := await _receive(operation.queue, MAX_QUEUE_BATCH, service)):
            chosen = tuple(each for each in received if each.id in left)
            others += [each for each in received if each not in chosen]
            if chosen:
                receipts = tuple(each.receipt for each in chosen)
                await delete_messages(DeleteMessages(operation.queue, receipts), service)
            left -= {each.id for each in chosen}
            discarded += len(chosen)
    return discarded


async def _receive(queue: str, count: int, service: Service) -> tuple[IncomingMessage, ...]:
    """Receive up to ten messages, which stay invisible for `REDRIVE_VISIBILITY_S`."""
    receive = ReceiveMessages(queue, min(MAX_QUEUE_BATCH, count), RECEIVE_WAIT_S, REDRIVE_VISIBILITY_S)
    return await receive_messages(receive, service)


@asynccontextmanager
async def _receive_others(queue: str, service: Service) -> AsyncIterator[list[IncomingMessage]]:
    """Yield a list for received messages that nobody wanted: they are visible again at the end."""
    others: list[IncomingMessage] = []
    try:
        yield others
    finally:
        for start in range(0, len(others), MAX_QUEUE_BATCH):
            await make_visible(queue, others[start : start + MAX_QUEUE_BATCH], service)


def _is_selected(message: IncomingMessage, operation: Redrive) -> bool:
    """Return whether the redrive is about this message."""
    by_id = operation.ids is None or message.id in operation.ids
    return by_id and operation.group in (None, message.group)


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
