"""Handlers of the SQS engine that send, receive, delete and browse messages and change their visibility.

A single message is sent as a batch of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, ReceiptLost, RequestRefused, SendIncomplete, StoreFailed
from holdfast.core.limits import MAX_QUEUE_BATCH
from holdfast.core.rng import make_uuid
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    DeleteMessages,
    IncomingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
    SentMessage,
)
from holdfast.stores.queues.checks import FIFO_SUFFIX, check_messages
from holdfast.stores.queues.sqs.errors import map_error_code
from holdfast.stores.queues.sqs.messages import parse_incoming, to_entry
from holdfast.stores.queues.sqs.service import RECEIVE_ACTION, Service

# While a caller browses, no other caller may receive the messages shown; at the end they are visible again.
BROWSE_VISIBILITY_S: Final = 30


async def send_messages(operation: SendMessages, service: Service) -> tuple[SentMessage, ...]:
    """Send a batch.

    Raise the error of the first message if SQS accepts none, `SendIncomplete` if it accepts some.
    """
    fifo = operation.queue.endswith(FIFO_SUFFIX)
    # SQS itself reports whether the queue deduplicates by content.
    check_messages(
        operation.messages, QueueDefinition(name=operation.queue, fifo=fifo, content_deduplication=fifo)
    )
    response = await service.send(
        "SendMessageBatch",
        is_repeatable=fifo,
        QueueUrl=await service.get_url(operation.queue),
        Entries=[to_entry(number, message) for number, message in enumerate(operation.messages)],
    )
    if response.get("Failed"):
        raise _build_send_error(operation, response["Failed"])
    entries = {int(each["Id"]): each for each in response["Successful"]}
    return tuple(_to_sent(entries[number], fifo=fifo) for number in range(len(operation.messages)))


async def receive_messages(operation: ReceiveMessages, service: Service) -> tuple[IncomingMessage, ...]:
    """Receive up to `count` messages.

    SQS takes whole seconds: the wait and the visibility timeout are rounded up.
    """
    request: dict[str, Any] = {
        "QueueUrl": await service.get_url(operation.queue),
        "MaxNumberOfMessages": operation.count,
        "WaitTimeSeconds": math.ceil(operation.wait_s),
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    }
    if operation.visibility_s is not None:
        request["VisibilityTimeout"] = math.ceil(operation.visibility_s)
    if operation.queue.endswith(FIFO_SUFFIX):
        # A retry after a lost response gets the same messages, instead of waiting for their visibility
        # timeout.
        request["ReceiveRequestAttemptId"] = str(make_uuid())
    response = await service.send(RECEIVE_ACTION, **request)
    return tuple(map(parse_incoming, response.get("Messages", ())))


async def delete_messages(operation: DeleteMessages, service: Service) -> None:
    """Delete the messages of all valid receipts; raise `ReceiptLost` if some were no longer valid."""
    await _send_receipts("DeleteMessageBatch", operation.queue, operation.receipts, service)


async def change_visibility(operation: ChangeVisibility, service: Service) -> None:
    """Change the visibility timeout of messages; raise `ReceiptLost` if some receipts were no longer valid.

    SQS takes whole seconds: fractions are rounded up.
    """
    seconds = math.ceil(operation.seconds)
    await _send_receipts(
        "ChangeMessageVisibilityBatch",
        operation.queue,
        operation.receipts,
        service,
        VisibilityTimeout=seconds,
    )


async def browse(operation: Browse, service: Service) -> tuple[IncomingMessage, ...]:
    """Return visible messages and make them visible again. SQS has no peek, so this counts as a receive."""
    found: list[IncomingMessage] = []
    try:
        while len(found) < operation.count:
            count = min(MAX_QUEUE_BATCH, operation.count - len(found))
            received = await receive_messages(
                ReceiveMessages(operation.queue, count, visibility_s=BROWSE_VISIBILITY_S), service
            )
            if not received:
                break
            found += received
    finally:
        for start in range(0, len(found), MAX_QUEUE_BATCH):
            await make_visible(operation.queue, found[start : start + MAX_QUEUE_BATCH], service)
    return tuple(_clear_receipt(each) for each in found)


async def make_visible(queue: str, messages: Sequence[IncomingMessage], service: Service) -> None:
    """Make received messages visible again at once; ignore those whose receipts are no longer valid."""
    try:
        await change_visibility(ChangeVisibility(queue, tuple(each.receipt for each in messages), 0), service)
    except ReceiptLost:
        # Their visibility timeout had expired: they are visible already.
        return


async def _send_receipts(
    action: str, queue: str, receipts: Sequence[str], service: Service, **more: Any
) -> None:
    """Send one batch request about these receipts.

    Raise `ReceiptLost` only if no entry failed for another reason. `more` is added to each entry.
    """
    unique = list(dict.fromkeys(receipts))
    entries = [{"Id": str(number), "ReceiptHandle": each, **more} for number, each in enumerate(unique)]
    response = await service.send(action, QueueUrl=await service.get_url(queue), Entries=entries)
    errors = [_map_entry_error(each) for each in response.get("Failed", ())]
    other = next((each for each in errors if not isinstance(each, ReceiptLost)), None)
    if other is not None:
        raise other
    if errors:
        raise ReceiptLost(
            f"{len(errors)} of {len(receipts)} receipts on {queue} are no longer valid: the visibility "
            "timeout expired and another receiver got the message, or it was deleted. The others were "
            "processed."
        )


def _build_send_error(operation: SendMessages, failed: Sequence[dict[str, Any]]) -> HoldfastError:
    """Return the error for messages that SQS did not accept.

    They are not retried here: on a FIFO queue a later message would overtake the failed one.
    """
    reasons = [_map_entry_error(each) for each in failed]
    if len(failed) == len(operation.messages):
        return reasons[0]
    return SendIncomplete(
        f"SQS did not accept {len(failed)} of {len(operation.messages)} messages for {operation.queue}: "
        f"{reasons[0].message} The others were sent. Send the messages in `unsent` again.",
        sorted(int(each["Id"]) for each in failed),
    ).with_code(reasons[0].code)


def _map_entry_error(entry: dict[str, Any]) -> HoldfastError:
    """Return the error for a failed entry of a batch: `StoreFailed` if an unknown code is SQS's fault."""
    code, text = entry.get("Code", ""), entry.get("Message", "")
    error = map_error_code(code, text)
    if entry.get("SenderFault", True) or not isinstance(error, RequestRefused):
        return error
    return StoreFailed(f"SQS failed: {code} {text}").with_code(code)


def _to_sent(entry: dict[str, Any], *, fifo: bool) -> SentMessage:
    """Return id and, for a FIFO queue, sequence number of an accepted entry."""
    sequence = entry.get("SequenceNumber")
    return SentMessage(id=entry["MessageId"], sequence=int(sequence) if fifo and sequence else None)


def _clear_receipt(message: IncomingMessage) -> IncomingMessage:
    """Return the message without its receipt."""
    return replace(message, receipt="")
