"""Create, change, delete, purge, list and describe queues."""

from __future__ import annotations

from holdfast.core.errors import AlreadyExists, InvalidRequest
from holdfast.core.limits import QUEUE_STEP_MESSAGES
from holdfast.operations.queues import (
    Browse,
    CreateQueue,
    DeleteQueue,
    DescribeQueue,
    Incoming,
    ListQueues,
    PurgeQueue,
    QueueDefinition,
    QueueDescription,
    UpdateQueue,
)
from holdfast.stores.queues.checks import canonical
from holdfast.stores.queues.embedded.act.writing import Writing
from holdfast.stores.queues.embedded.storage import catalog, messages, sweeping
from holdfast.stores.sqlite import Connection


def create_queue(operation: CreateQueue, work: Writing) -> None:
    wanted = canonical(operation.definition)
    there = catalog.found(work.connection, wanted.name)
    if there is None:
        _require_dead_letters(work.connection, wanted)
        catalog.create(work.connection, wanted)
    elif there.definition != wanted:
        raise AlreadyExists(
            f"The queue {wanted.name} is there with another definition: change it with UpdateQueue, or "
            "choose another name."
        )


def update_queue(operation: UpdateQueue, work: Writing) -> None:
    wanted = canonical(operation.definition)
    there = catalog.needed(work.connection, wanted.name)
    if there.definition.fifo != wanted.fifo:
        raise InvalidRequest(f"Whether {wanted.name} is FIFO cannot be changed: make another queue.")
    _require_dead_letters(work.connection, wanted)
    catalog.redefine(work.connection, there, wanted)
    work.wakes.add(wanted.name)


def delete_queue(operation: DeleteQueue, work: Writing) -> None:
    catalog.delete(work.connection, catalog.needed(work.connection, operation.queue))
    # Wake the waiting receives: the queue they wait for no longer exists.
    work.wakes.add(operation.queue)


def purge_queue(operation: PurgeQueue, work: Writing) -> None:
    catalog.empty(work.connection, catalog.needed(work.connection, operation.queue))


def clear_dropped(operation: object, work: Writing) -> bool:
    return sweeping.clear_dropped(work.connection, QUEUE_STEP_MESSAGES)


def sweep(operation: object, work: Writing) -> bool:
    return sweeping.sweep(work.connection, work.now)


def is_sweep_due(operation: object, connection: Connection, now: float) -> bool:
    return sweeping.is_due(connection, now)


def list_queues(operation: ListQueues, connection: Connection, now: float) -> tuple[str, ...]:
    return catalog.names(connection, operation.prefix)


def describe_queue(operation: DescribeQueue, connection: Connection, now: float) -> QueueDescription:
    queue = catalog.needed(connection, operation.queue)
    found = messages.counts(connection, queue.lot, now, now - queue.definition.retention_s)
    first = found.oldest_sent_at
    return QueueDescription(
        definition=queue.definition,
        visible=found.visible,
        in_flight=found.held,
        delayed=found.delayed,
        oldest_age_s=None if first is None else max(0.0, now - first),
    )


def browse(operation: Browse, connection: Connection, now: float) -> tuple[Incoming, ...]:
    queue = catalog.needed(connection, operation.queue)
    rows = messages.oldest(
        connection, queue.lot, operation.count, (now - queue.definition.retention_s, messages.LAST_PLACE)
    )
    return tuple(messages.incoming(row, "", row.receives) for row in rows)


def _require_dead_letters(connection: Connection, definition: QueueDefinition) -> None:
    if definition.dead_letters is not None:
        catalog.needed(connection, definition.dead_letters)
