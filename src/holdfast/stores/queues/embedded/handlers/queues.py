"""Handlers of the embedded engine that create, change, delete, purge, sweep, list and describe queues."""

from __future__ import annotations

from holdfast.core.errors import AlreadyExists, InvalidRequest
from holdfast.core.limits import QUEUE_STEP_MESSAGES
from holdfast.operations.queues import (
    Browse,
    CreateQueue,
    DeleteQueue,
    DescribeQueue,
    IncomingMessage,
    ListQueues,
    PurgeQueue,
    QueueDefinition,
    QueueDescription,
    UpdateQueue,
)
from holdfast.stores.queues.checks import canonicalize
from holdfast.stores.queues.embedded.handlers.write_context import WriteContext
from holdfast.stores.queues.embedded.storage import catalog, messages, sweeper
from holdfast.stores.sqlite import Connection


def create_queue(operation: CreateQueue, context: WriteContext) -> None:
    """Create the queue; do nothing if it exists with the same definition.

    Raise `AlreadyExists` if it differs.
    """
    wanted = canonicalize(operation.definition)
    existing = catalog.find_queue(context.connection, wanted.name)
    if existing is None:
        _require_dead_letter_queue(context.connection, wanted)
        catalog.create(context.connection, wanted)
    elif existing.definition != wanted:
        raise AlreadyExists(
            f"The queue {wanted.name} exists with another definition: change it with UpdateQueue, or choose "
            "another name."
        )


def update_queue(operation: UpdateQueue, context: WriteContext) -> None:
    """Replace the queue's definition.

    Raise `NotFound`, or `InvalidRequest` if its kind (FIFO or standard) would change.
    """
    wanted = canonicalize(operation.definition)
    existing = catalog.get_queue(context.connection, wanted.name)
    if existing.definition.fifo != wanted.fifo:
        raise InvalidRequest(
            f"Invalid fifo={wanted.fifo} for the queue {wanted.name}: the kind of a queue never changes. "
            "Create another queue."
        )
    _require_dead_letter_queue(context.connection, wanted)
    catalog.update_definition(context.connection, existing, wanted)
    context.queues_to_wake.add(wanted.name)


def delete_queue(operation: DeleteQueue, context: WriteContext) -> None:
    """Delete the queue from the catalog; `clear_dropped` removes its messages.

    Raise `NotFound` without it.
    """
    catalog.delete(context.connection, catalog.get_queue(context.connection, operation.queue))
    # Wake the waiting receives: their queue no longer exists.
    context.queues_to_wake.add(operation.queue)


def purge_queue(operation: PurgeQueue, context: WriteContext) -> None:
    """Give the queue an empty lot; `clear_dropped` removes the old messages.

    Raise `NotFound` without the queue.
    """
    catalog.purge(context.connection, catalog.get_queue(context.connection, operation.queue))


def clear_dropped(operation: object, context: WriteContext) -> bool:
    """Remove one batch of messages of purged or deleted queues. Return False when none are left."""
    return sweeper.clear_dropped(context.connection, QUEUE_STEP_MESSAGES, context.is_readable)


def sweep(operation: object, context: WriteContext) -> bool:
    """Remove some expired rows of any queue. Return False when none were left."""
    return sweeper.sweep(context.connection, context.now, context.is_readable)


def is_sweep_due(operation: object, connection: Connection, now: float) -> bool:
    """Return whether an expired or dropped message waits to be removed. Writes nothing."""
    return sweeper.is_sweep_due(connection, now)


def list_queues(operation: ListQueues, connection: Connection, now: float) -> tuple[str, ...]:
    """Return the names that begin with the prefix, sorted."""
    return catalog.list_names(connection, operation.prefix)


def describe_queue(operation: DescribeQueue, connection: Connection, now: float) -> QueueDescription:
    """Return the definition, the counts of messages not past retention, and the age of the oldest."""
    queue = catalog.get_queue(connection, operation.queue)
    found = messages.count(connection, queue.lot, now, now - queue.definition.retention_s)
    first = found.oldest_sent_at
    return QueueDescription(
        definition=queue.definition,
        visible=found.visible,
        in_flight=found.held,
        delayed=found.delayed,
        oldest_age_s=None if first is None else max(0.0, now - first),
    )


def browse(operation: Browse, connection: Connection, now: float) -> tuple[IncomingMessage, ...]:
    """Return the oldest messages that are not past retention, visible or not, without receipts and without
    receiving them. Raise `DataDamaged` if all of them are damaged.
    """
    queue = catalog.get_queue(connection, operation.queue)
    position = _get_oldest_position(queue, now)
    return _show(queue, messages.list_oldest(connection, queue.lot, operation.count, position))


def browse_alone(
    operation: Browse, connection: Connection, unverified: Connection, now: float
) -> tuple[IncomingMessage, ...]:
    """Return what `browse` does, in a file with damaged pages."""
    queue = catalog.get_queue(connection, operation.queue)
    position = _get_oldest_position(queue, now)
    found = messages.browse_oldest_alone(connection, unverified, queue.lot, operation.count, position)
    return _show(queue, found)


def _get_oldest_position(queue: catalog.QueueRow, now: float) -> tuple[float, int]:
    """Return the position behind which messages are not past retention."""
    return now - queue.definition.retention_s, messages.LAST_PLACE


def _show(queue: catalog.QueueRow, found: messages.FoundMessages) -> tuple[IncomingMessage, ...]:
    """Return the messages without receipts. Raise `DataDamaged` if there are only damaged ones."""
    if found.damaged and not found.rows:
        raise messages.report_damaged(found.damaged, queue.name)
    return tuple(messages.to_incoming(row, "", row.receives) for row in found.rows)


def _require_dead_letter_queue(connection: Connection, definition: QueueDefinition) -> None:
    """Raise `NotFound` if the definition names a dead-letter queue that does not exist."""
    if definition.dead_letters is not None:
        catalog.get_queue(connection, definition.dead_letters)
