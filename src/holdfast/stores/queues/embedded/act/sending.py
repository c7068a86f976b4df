"""SendMessages: all messages of a batch or none, in order, each once within the deduplication window."""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

from holdfast.core.rng import RNG
from holdfast.operations.queues import Outgoing, SendMessages, Sent
from holdfast.stores.queues.checks import check_messages
from holdfast.stores.queues.embedded.act.writing import Writing
from holdfast.stores.queues.embedded.storage import deduplications, messages, sweeping
from holdfast.stores.queues.embedded.storage.catalog import QueueRow


def send_messages(operation: SendMessages, work: Writing) -> tuple[Sent, ...]:
    queue = work.queue(operation.queue)
    check_messages(operation.messages, queue.definition)
    sent_at = work.sent_at(queue)
    # Check everything before writing the first row: a refused unit must have nothing to undo.
    encoded = [messages.encoded_attributes(each.attributes) for each in operation.messages]
    sent = tuple(
        _sent(each, attributes, queue, work, sent_at)
        for each, attributes in zip(operation.messages, encoded, strict=True)
    )
    work.wakes.add(queue.name)
    if work.sweeps:
        sweeping.sweep(work.connection, work.now)
    return sent


def _sent(message: Outgoing, attributes: bytes, queue: QueueRow, work: Writing, sent_at: float) -> Sent:
    if not queue.definition.fifo:
        id, _ = _inserted(message, attributes, None, queue, work, sent_at)
        return Sent(id=id)
    deduplication = message.deduplication or sha256(message.body.encode()).hexdigest()
    first = deduplications.first(work.connection, queue.number, deduplication, work.now)
    if first is None:
        first = _inserted(message, attributes, deduplication, queue, work, sent_at)
        deduplications.note(work.connection, queue.number, deduplication, work.now, first)
    return Sent(id=first[0], sequence=first[1])


def _inserted(
    message: Outgoing,
    attributes: bytes,
    deduplication: str | None,
    queue: QueueRow,
    work: Writing,
    sent_at: float,
) -> tuple[str, int]:
    delay_s = queue.definition.delay_s if message.delay_s is None else message.delay_s
    new = messages.NewMessage(
        # Unlike uuid4, this makes no system call, which would release the GIL for each message.
        id=str(UUID(int=RNG.getrandbits(128), version=4)),
        group=message.group,
        deduplication=deduplication,
        sent_at=sent_at,
        available_at=work.now + delay_s,
        died_in=None,
        attributes=attributes,
        body=message.body,
    )
    return new.id, messages.insert(work.connection, queue.lot, new)
