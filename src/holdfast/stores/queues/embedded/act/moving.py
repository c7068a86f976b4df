"""Moves of a message to the end of another queue, with body, group, deduplication id and attributes; Redrive,
which moves dead letters.

A move is one transaction: the message is never in both queues and never in neither.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import QUEUE_STEP_MESSAGES
from holdfast.operations.queues import Redrive
from holdfast.stores.queues.embedded.act.writing import Writing
from holdfast.stores.queues.embedded.storage import catalog, messages, sweeping
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.queues.embedded.storage.messages import MessageRow


class Step(NamedTuple):
    """One step of a redrive. `after` is where the next step begins, None after the last one."""

    moved: int
    after: tuple[float, int] | None


def move(
    row: MessageRow, source: QueueRow, target: QueueRow, work: Writing, *, died_in: str | None = None
) -> None:
    """Move a message to the end of the target queue.

    Dead letters keep their send time and receive count. A redriven message gets new ones; otherwise retention
    might delete it at once.
    """
    moved = messages.NewMessage(
        id=row.id,
        group=row.group,
        deduplication=row.deduplication,
        sent_at=row.sent_at if died_in else work.now,
        available_at=work.now,
        died_in=died_in,
        attributes=row.attributes,
        body=row.body,
        receives=row.receives if died_in else 0,
    )
    messages.remove(work.connection, row)
    messages.insert(work.connection, target.lot, moved)
    work.known.newest.pop(target.lot, None)
    work.wakes |= {source.name, target.name}


def redrive_step(operation: Redrive, after: tuple[float, int], left: int | None, work: Writing) -> Step:
    """Redrive up to one step's worth of messages, oldest first.

    Skip messages that a receiver holds and messages behind them in their group. Delete messages that are past
    retention instead of moving them.
    """
    source = catalog.needed(work.connection, operation.source)
    target = catalog.needed(work.connection, operation.target)
    if source.definition.fifo != target.definition.fifo:
        raise InvalidRequest(f"{source.name} and {target.name} are not of one kind: FIFO or standard.")
    rows = messages.oldest(work.connection, source.lot, QUEUE_STEP_MESSAGES, after)
    moved = 0
    for row in rows:
        if left is not None and moved == left:
            return Step(moved, None)
        after = (row.sent_at, row.place)
        now = messages.at(work.connection, source.lot, row.place)
        if now is None:
            continue
        if sweeping.is_over(now, source, work.now):
            messages.remove(work.connection, now)
            work.wakes.add(source.name)
        elif not _is_held(now, work):
            move(now, source, target, work)
            moved += 1
    return Step(moved, after if len(rows) == QUEUE_STEP_MESSAGES else None)


def _is_held(row: MessageRow, work: Writing) -> bool:
    if row.group is not None:
        return messages.is_group_held(work.connection, row.lot, row.group, work.now)
    return row.due is not None and row.due > work.now
