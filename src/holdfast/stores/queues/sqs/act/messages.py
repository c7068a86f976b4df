"""Send, receive, delete, hold and browse messages at SQS. A single message is sent as a batch of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from msgspec.structs import replace

from holdfast.core.errors import HoldfastError, ReceiptLost, RequestRefused, SendIncomplete, StoreFailed
from holdfast.core.limits import QUEUE_BATCH_MAX
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    DeleteMessages,
    Incoming,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
    Sent,
)
from holdfast.stores.queues.checks import FIFO_ENDING, check_messages
from holdfast.stores.queues.sqs.failures import error_of
from holdfast.stores.queues.sqs.messages import entry_of, incoming_of
from holdfast.stores.queues.sqs.service import RECEIVE, Service

# While a caller browses, no other caller may receive the messages shown; they are given back at the end.
BROWSE_HOLD_S: Final = 30


async def send_messages(operation: SendMessages, service: Service) -> tuple[Sent, ...]:
    fifo = operation.queue.endswith(FIFO_ENDING)
    # SQS itself reports whether the queue deduplicates by content.
    check_messages(
        operation.messages, QueueDefinition(name=operation.queue, fifo=fifo, content_deduplication=fifo)
    )
    answer = await service.ask(
        "SendMessageBatch",
        is_repeatable=fifo,
        QueueUrl=await service.url(operation.queue),
        Entries=[entry_of(number, message) for number, message in enumerate(operation.messages)],
    )
    if answer.get("Failed"):
        raise _unsent(operation, answer["Failed"])
    told = {int(each["Id"]): each for each in answer["Successful"]}
    return tuple(_sent(told[number], fifo=fifo) for number in range(len(operation.messages)))


async def receive_messages(operation: ReceiveMessages, service: Service) -> tuple[Incoming, ...]:
    request: dict[str, Any] = {
        "QueueUrl": await service.url(operation.queue),
        "MaxNumberOfMessages": operation.count,
        "WaitTimeSeconds": math.ceil(operation.wait_s),
        "MessageSystemAttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    }
    if operation.visibility_s is not None:
        request["VisibilityTimeout"] = math.ceil(operation.visibility_s)
    if operation.queue.endswith(FIFO_ENDING):
        # A retry after a lost response gets the same messages, instead of waiting for their visibility
        # timeout.
        request["ReceiveRequestAttemptId"] = str(uuid4())
    answer = await service.ask(RECEIVE, **request)
    return tuple(map(incoming_of, answer.get("Messages", ())))


async def delete_messages(operation: DeleteMessages, service: Service) -> None:
    await _with_receipts("DeleteMessageBatch", operation.queue, operation.receipts, service)


async def change_visibility(operation: ChangeVisibility, service: Service) -> None:
    """Change the visibility timeout of messages. SQS takes whole seconds: fractions are rounded up."""
    seconds = math.ceil(operation.seconds)
    await _with_receipts(
        "ChangeMessageVisibilityBatch",
        operation.queue,
        operation.receipts,
        service,
        VisibilityTimeout=seconds,
    )


async def browse(operation: Browse, service: Service) -> tuple[Incoming, ...]:
    """Return messages and give them back at once. SQS has no peek, so this counts as a receive."""
    found: list[Incoming] = []
    try:
        while len(found) < operation.count:
            count = min(QUEUE_BATCH_MAX, operation.count - len(found))
            received = await receive_messages(
                ReceiveMessages(operation.queue, count, visibility_s=BROWSE_HOLD_S), service
            )
            if not received:
                break
            found += received
    finally:
        for start in range(0, len(found), QUEUE_BATCH_MAX):
            await give_back(operation.queue, found[start : start + QUEUE_BATCH_MAX], service)
    return tuple(_without_receipt(each) for each in found)


async def give_back(queue: str, messages: Sequence[Incoming], service: Service) -> None:
    try:
        await change_visibility(ChangeVisibility(queue, tuple(each.receipt for each in messages), 0), service)
    except ReceiptLost:
        # Their visibility timeout had expired: they are visible already.
        return


async def _with_receipts(
    action: str, queue: str, receipts: Sequence[str], service: Service, **more: Any
) -> None:
    unique = list(dict.fromkeys(receipts))
    entries = [{"Id": str(number), "ReceiptHandle": each, **more} for number, each in enumerate(unique)]
    answer = await service.ask(action, QueueUrl=await service.url(queue), Entries=entries)
    failures = [_failure(each) for each in answer.get("Failed", ())]
    other = next((each for each in failures if not isinstance(each, ReceiptLost)), None)
    if other is not None:
        raise other
    if failures:
        raise ReceiptLost(
            f"{len(failures)} of {len(receipts)} receipts on {queue} no longer hold: the visibility time was "
            "over and "
            "the message went to another receiver, or it is gone. The others are done."
        )


def _unsent(operation: SendMessages, failed: Sequence[dict[str, Any]]) -> HoldfastError:
    """Return the error for messages that SQS did not take.

    They are not retried here: on a FIFO queue a later message would overtake the failed one.
    """
    reasons = [_failure(each) for each in failed]
    if len(failed) == len(operation.messages):
        return reasons[0]
    return SendIncomplete(
        f"{len(failed)} of {len(operation.messages)} messages for {operation.queue} were not taken: "
        f"{reasons[0].message} The others are sent: send again those that `unsent` names.",
        sorted(int(each["Id"]) for each in failed),
    )


def _failure(entry: dict[str, Any]) -> HoldfastError:
    code, text = entry.get("Code", ""), entry.get("Message", "")
    error = error_of(code, text)
    if entry.get("SenderFault", True) or not isinstance(error, RequestRefused):
        return error
    return StoreFailed(f"SQS failed: {code} {text}")


def _sent(told: dict[str, Any], *, fifo: bool) -> Sent:
    sequence = told.get("SequenceNumber")
    return Sent(id=told["MessageId"], sequence=int(sequence) if fifo and sequence else None)


def _without_receipt(message: Incoming) -> Incoming:
    return replace(message, receipt="")
