"""The embedded engine's handler of SendMessages: all messages of a batch or none, in order, deduplicated."""

from __future__ import annotations

from hashlib import sha256

from holdfast.core.rng import make_uuid
from holdfast.operations.queues import OutgoingMessage, SendMessages, SentMessage
from holdfast.stores.queues.checks import check_messages
from holdfast.stores.queues.embedded.handlers.write_context import WriteContext
from holdfast.stores.queues.embedded.storage import deduplications, messages, sweeper
from holdfast.stores.queues.embedded.storage.catalog import QueueRow


def send_messages(operation: SendMessages, context: WriteContext) -> tuple[SentMessage, ...]:
    """Insert the messages and return their ids.

    A FIFO message that repeats a deduplication id returns the first one's.
    """
    queue = context.get_queue(operation.queue)
    check_messages(operation.messages, queue.definition)
    sent_at = context.get_sent_at(queue)
    # Check everything before writing the first row: a refused unit must have nothing to undo.
    encoded = [messages.encode_attributes(each.attributes) for each in operation.messages]
    sent = tuple(
        _send_message(each, attributes, queue, context, sent_at)
        for each, attributes in zip(operation.messages, encoded, strict=True)
    )
    context.queues_to_wake.add(queue.name)
    if context.should_sweep:
        sweeper.sweep(context.connection, context.now, context.is_readable)
    return sent


def _send_message(
    message: OutgoingMessage, attributes: bytes, queue: QueueRow, context: WriteContext, sent_at: float
) -> SentMessage:
    """Insert the message, unless its FIFO queue has seen its deduplication id within the window."""
    if not queue.definition.fifo:
        id, _ = _insert_message(message, attributes, None, queue, context, sent_at)
        return SentMessage(id=id)
    deduplication = message.deduplication or sha256(message.body.encode()).hexdigest()
    first = deduplications.find_first(context.connection, queue.number, deduplication, context.deadlines)
    if first is None:
        first = _insert_message(message, attributes, deduplication, queue, context, sent_at)
        deduplications.record(context.connection, queue.number, deduplication, context.now, first)
    return SentMessage(id=first[0], sequence=first[1])


def _insert_message(
    message: OutgoingMessage,
    attributes: bytes,
    deduplication: str | None,
    queue: QueueRow,
    context: WriteContext,
    sent_at: float,
) -> tuple[str, int]:
    """Insert the message and return its id and place."""
    delay_s = queue.definition.delay_s if message.delay_s is None else message.delay_s
    new = messages.NewMessage(
        id=str(make_uuid()),
        group=message.group,
        deduplication=deduplication,
        sent_at=sent_at,
        available_at=context.now + delay_s,
        died_in=None,
        attributes=attributes,
        body=message.body,
        hidden_s=delay_s,
    )
    return new.id, messages.insert(context.connection, queue.lot, new)
