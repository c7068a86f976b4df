"""Handlers of the embedded engine for ReceiveMessages, DeleteMessages and ChangeVisibility.

A message that was received as often as its queue allows moves to the dead-letter queue at the next receive,
in the same transaction.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from holdfast.core.deadlines import DeadlineWatch
from holdfast.core.limits import MAX_QUEUE_BATCH, QUEUE_LOOK_AGAIN_S, QUEUE_STEP_MESSAGES
from holdfast.core.rng import make_hex_token
from holdfast.operations.queues import ChangeVisibility, DeleteMessages, IncomingMessage, ReceiveMessages
from holdfast.stores.queues.embedded.handlers.moves import move
from holdfast.stores.queues.embedded.handlers.write_context import WriteContext
from holdfast.stores.queues.embedded.storage import catalog, messages, sweeper
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.queues.embedded.storage.messages import HiddenMessage, MessageRow
from holdfast.stores.sqlite import Connection

RECEIPT_TOKEN_BYTES: Final = 8
# In batches of up to ten messages: the most that one unit of work may move or remove before others can write.
MAX_ROUNDS: Final = QUEUE_STEP_MESSAGES // MAX_QUEUE_BATCH
# How many of the messages with the latest `due` a look for wrong clocks reads.
MAX_LATEST: Final = 100
NO_PLACE: Final = 0


class ReceiveResult(NamedTuple):
    """The result of one unit of work.

    `has_more` says that it ended early: more messages may follow those it moved or removed. `damaged` are the
    places of due messages that do not match their checksums.
    """

    messages: tuple[IncomingMessage, ...]
    has_more: bool
    damaged: frozenset[int] = frozenset()


class ReceiptResult(NamedTuple):
    """How many receipts were no longer valid, and the places of messages too damaged for the operation."""

    lost: int
    damaged: tuple[int, ...] = ()


def find_next_due(
    operation: ReceiveMessages, connection: Connection, now: float, damaged: frozenset[int] = frozenset()
) -> float | None:
    """Return when the next message is due, possibly in the past, or None without one. Writes nothing.

    `damaged` are the places of messages that do not count.
    """
    return messages.find_next_due(connection, catalog.get_queue(connection, operation.queue).lot, damaged)


def find_headless(
    operation: ReceiveMessages, connection: Connection, now: float, damaged: frozenset[int]
) -> list[int]:
    """Return the places of damaged messages that stop their groups without being due, if only those at the
    places `damaged` are due.
    """
    queue = catalog.get_queue(connection, operation.queue)
    return messages.find_headless(connection, queue.lot, damaged) if queue.definition.fifo else []


def find_overdue(
    operation: ReceiveMessages,
    connection: Connection,
    now: float,
    *,
    deadlines: DeadlineWatch,
    is_idle: bool,
    unverified: Connection | None = None,
) -> list[HiddenMessage]:
    """Return messages that a clock ahead of this one hid, and that were hidden for long enough.

    This process has seen each unchanged for as long as it was hidden for, so its receiver has not extended
    the visibility timeout. Writes nothing. Unless the queue `is_idle`, the message with the latest `due`
    alone decides whether to look at more. In a file with damaged pages, `unverified` reads each message.
    """
    find_latest = messages.find_latest
    if unverified is not None:
        find_latest = partial(messages.find_latest_alone, unverified=unverified)
    lot = catalog.get_queue(connection, operation.queue).lot
    # A message that is due within this time is not worth a write.
    now += QUEUE_LOOK_AGAIN_S
    if not is_idle and not find_latest(connection, lot, now, 1):
        return []
    latest = find_latest(connection, lot, now, MAX_LATEST)
    return [
        each
        for each in latest
        if deadlines.compute_left_s((lot, each.place), (each.due, each.token), each.due, each.max_s) <= 0
    ]


def show_overdue(operation: ReceiveMessages, found: list[HiddenMessage], context: WriteContext) -> None:
    """Make the messages that `find_overdue` returned due now, unless they were changed meanwhile."""
    lot = context.get_queue(operation.queue).lot
    for each in found:
        messages.show(context.connection, lot, each, context.now)


def receive_messages(operation: ReceiveMessages, context: WriteContext) -> ReceiveResult:
    """Hold up to `count` due messages for the caller and return them.

    Remove messages past retention and move those received too often to the dead-letter queue, also in rounds
    that return none.
    """
    queue = context.get_queue(operation.queue)
    dead = _find_dead_letter_queue(queue, context)
    visibility_s = operation.visibility_s
    visibility_s = queue.definition.visibility_s if visibility_s is None else visibility_s
    taken: dict[int, IncomingMessage] = {}
    damaged: set[int] = set()
    for _ in range(MAX_ROUNDS):
        fresh = _find_untaken(queue, taken, operation.count, context, damaged)
        for row in fresh:
            if sweeper.is_expired(row, queue, context.now):
                messages.remove(context.connection, row, context.is_readable)
            elif dead is not None and row.receives >= queue.definition.max_receives:
                move(row, queue, dead, context, died_in=queue.name)
            else:
                taken[row.place] = _hold_message(row, visibility_s, context)
        if not fresh or len(taken) == operation.count:
            if context.should_sweep:
                sweeper.sweep(context.connection, context.now, context.is_readable)
            return ReceiveResult(tuple(taken.values()), False, frozenset(damaged))
    return ReceiveResult(tuple(taken.values()), True, frozenset(damaged))


def undo_receive(operation: ReceiveMessages, results: list[ReceiveResult], context: WriteContext) -> None:
    """Undo a receive whose caller was cancelled, as if it had not happened."""
    queue = context.get_queue(operation.queue)
    for each in [message for received in results for message in received.messages]:
        row = _find_by_receipt(each.receipt, queue, context)
        if row is not None:
            messages.undo_hold(context.connection, row, context.now)
    context.queues_to_wake.add(queue.name)


def delete_messages(operation: DeleteMessages, context: WriteContext) -> ReceiptResult:
    """Delete the messages of all valid receipts.

    A message that was damaged since it was received is deleted too, unless it is unreadable.
    """
    queue = context.get_queue(operation.queue)
    lost = 0
    damaged: list[int] = []
    for receipt in dict.fromkeys(operation.receipts):
        place, token = _parse_receipt(receipt)
        row = messages.find_header(context.connection, queue.lot, place)
        if row is None or row.token != token:
            lost += 1
        elif context.is_readable(place):
            messages.remove(context.connection, row, context.is_readable)
        else:
            damaged.append(place)
    if queue.definition.fifo:
        # The next message of each group may be received now.
        context.queues_to_wake.add(queue.name)
    return ReceiptResult(lost, tuple(damaged))


def change_visibility(operation: ChangeVisibility, context: WriteContext) -> ReceiptResult:
    """Hide the messages of all valid receipts for `seconds` from now.

    Raise `DataDamaged` if one of them is damaged.
    """
    queue = context.get_queue(operation.queue)
    lost = 0
    for receipt in dict.fromkeys(operation.receipts):
        row = _find_by_receipt(receipt, queue, context)
        if row is None or row.due is None or row.due <= context.now:
            lost += 1
        else:
            messages.hide(context.connection, row, context.now, operation.seconds)
    context.queues_to_wake.add(queue.name)
    return ReceiptResult(lost)


def _find_dead_letter_queue(queue: QueueRow, context: WriteContext) -> QueueRow | None:
    """Return the dead-letter queue, or None without one.

    Also None if that queue was deleted: the message then stays where it is and can still be received.
    """
    name = queue.definition.dead_letters
    return None if name is None else context.find_queue(name)


def _find_untaken(
    queue: QueueRow,
    taken: dict[int, IncomingMessage],
    count: int,
    context: WriteContext,
    damaged: set[int],
) -> list[MessageRow]:
    """Return as many due messages as the receive still needs, without those in `taken`.

    With a visibility timeout of zero, a message that was just taken is due again at once. Add the places of
    damaged messages to `damaged`, and look behind them.
    """
    find_due = messages.find_due
    if context.is_salvaging:
        find_due = partial(messages.find_due_alone, is_readable=context.is_readable)
    while True:
        known = len(damaged)
        found = find_due(context.connection, queue.lot, context.now, len(taken) + known + count)
        damaged.update(found.damaged)
        if len(damaged) == known:
            return [row for row in found.rows if row.place not in taken][: count - len(taken)]


def _hold_message(row: MessageRow, visibility_s: float, context: WriteContext) -> IncomingMessage:
    """Hide the message for `visibility_s` seconds and return it with a new receipt."""
    token = make_hex_token(RECEIPT_TOKEN_BYTES)
    messages.hold(context.connection, row, context.now, visibility_s, token)
    return messages.to_incoming(row, f"{row.place}-{token}", row.receives + 1)


def _find_by_receipt(receipt: str, queue: QueueRow, context: WriteContext) -> MessageRow | None:
    """Return the message whose latest receipt is this one, or None. Raise `DataDamaged` if it is damaged."""
    place, token = _parse_receipt(receipt)
    if not context.is_readable(place):
        raise messages.report_damaged([place], queue.name)
    row = messages.find(context.connection, queue.lot, place)
    return row if row is not None and row.token == token else None


def _parse_receipt(receipt: str) -> tuple[int, str]:
    """Return the place and the token of a receipt; a place of no message for anything else."""
    place, _, token = receipt.partition("-")
    if not (place.isascii() and place.isdigit() and len(place) < len(str(messages.LAST_PLACE))):
        return NO_PLACE, token
    return int(place), token
