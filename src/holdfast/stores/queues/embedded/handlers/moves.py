"""Moves of messages between embedded queues: Redrive, and the move of a message to its dead-letter queue; and
the discarding of messages.

A moved message keeps body, group, deduplication id and attributes. A move is one transaction: the message is
never in both queues and never in neither.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import QUEUE_STEP_MESSAGES
from holdfast.operations.queues import DiscardMessages, Redrive
from holdfast.stores.queues.embedded.handlers.write_context import WriteContext
from holdfast.stores.queues.embedded.storage import catalog, messages, sweeper
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.queues.embedded.storage.messages import FoundMessages, MessageRow


class RedriveProgress(NamedTuple):
    """The result of one batch of a redrive.

    `resume_after` is the position where the next batch begins, None after the last one.
    """

    moved: int
    resume_after: tuple[float, int] | None


def move(
    row: MessageRow, source: QueueRow, target: QueueRow, context: WriteContext, *, died_in: str | None = None
) -> None:
    """Move a message to the end of the target queue.

    Dead letters (`died_in` names the queue they died in) keep their send time and receive count. A redriven
    message gets new ones; otherwise retention might delete it at once.
    """
    moved = messages.NewMessage(
        id=row.id,
        group=row.group,
        deduplication=row.deduplication,
        sent_at=row.sent_at if died_in else context.now,
        available_at=context.now,
        died_in=died_in,
        attributes=row.attributes,
        body=row.body,
        receives=row.receives if died_in else 0,
    )
    messages.remove(context.connection, row, context.is_readable)
    messages.insert(context.connection, target.lot, moved)
    context.cache.newest_sent_at.pop(target.lot, None)
    context.queues_to_wake |= {source.name, target.name}


def redrive_batch(
    operation: Redrive, resume_after: tuple[float, int], count_left: int | None, context: WriteContext
) -> RedriveProgress:
    """Redrive one batch, oldest first, from the position `resume_after` (send time and place).

    Move at most `count_left` messages, or any number if it is None, and only those that the operation
    selects. Skip messages that a receiver holds,
    delayed messages, messages behind them in their group, and damaged ones. Delete messages that are past
    retention instead of moving them.
    """
    source = catalog.get_queue(context.connection, operation.source)
    target = catalog.get_queue(context.connection, operation.target)
    if source.definition.fifo != target.definition.fifo:
        raise InvalidRequest(
            f"Invalid redrive from {source.name} to {target.name}: both queues must be FIFO, or both "
            "standard."
        )
    found = _list_oldest(source, resume_after, context)
    moved = 0
    for row in found.rows:
        if count_left is not None and moved == count_left:
            return RedriveProgress(moved, None)
        resume_after = (row.sent_at, row.place)
        current = messages.find(context.connection, source.lot, row.place)
        if current is None:
            continue
        if sweeper.is_expired(current, source, context.now):
            messages.remove(context.connection, current, context.is_readable)
            context.queues_to_wake.add(source.name)
        elif _is_selected(current, operation) and not _is_held(current, context):
            move(current, source, target, context)
            moved += 1
    is_full = len(found.rows) + len(found.damaged) == QUEUE_STEP_MESSAGES
    return RedriveProgress(moved, resume_after if is_full and found.rows else None)


def discard_messages(operation: DiscardMessages, context: WriteContext) -> int:
    """Remove the messages with these ids that no receiver holds, and return how many.

    Reads the queue in steps: a queue of dead letters is short, and ids have no index.
    """
    queue = catalog.get_queue(context.connection, operation.queue)
    wanted, position, removed = set(operation.ids), (0.0, 0), 0
    while wanted:
        found = _list_oldest(queue, position, context)
        for row in found.rows:
            position = (row.sent_at, row.place)
            current = messages.find(context.connection, queue.lot, row.place) if row.id in wanted else None
            if current is None:
                continue
            wanted.discard(row.id)
            if not _is_held_itself(current, context):
                messages.remove(context.connection, current, context.is_readable)
                removed += 1
        if len(found.rows) + len(found.damaged) < QUEUE_STEP_MESSAGES or not found.rows:
            break
    if removed:
        context.queues_to_wake.add(queue.name)
    return removed


def _list_oldest(queue: QueueRow, after: tuple[float, int], context: WriteContext) -> FoundMessages:
    """Return one step of the queue's messages, oldest first, after a position."""
    if context.is_salvaging:
        return messages.list_oldest_alone(
            context.connection, queue.lot, QUEUE_STEP_MESSAGES, after, context.is_readable
        )
    return messages.list_oldest(context.connection, queue.lot, QUEUE_STEP_MESSAGES, after)


def _is_selected(row: MessageRow, operation: Redrive) -> bool:
    """Return whether the redrive is about this message."""
    return (operation.ids is None or row.id in operation.ids) and operation.group in (None, row.group)


def _is_held_itself(row: MessageRow, context: WriteContext) -> bool:
    """Return whether a receiver holds this very message, or it is delayed."""
    return row.due is not None and row.due > context.now


def _is_held(row: MessageRow, context: WriteContext) -> bool:
    """Return whether the message, or the head of its group, is held by a receiver or still delayed."""
    if row.group is not None:
        return messages.is_group_held(context.connection, row.lot, row.group, context.now)
    return row.due is not None and row.due > context.now
