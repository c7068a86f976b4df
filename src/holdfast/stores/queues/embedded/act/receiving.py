"""ReceiveMessages, and what a receiver may do with a message it holds: delete it, hold it longer, give it
back.

A message that was received as often as its queue allows moves to the dead-letter queue at the next receive,
in the same transaction.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Final, NamedTuple

from holdfast.core.limits import QUEUE_BATCH_MAX, QUEUE_STEP_MESSAGES
from holdfast.operations.queues import ChangeVisibility, DeleteMessages, Incoming, ReceiveMessages
from holdfast.stores.queues.embedded.act.moving import move
from holdfast.stores.queues.embedded.act.writing import Writing
from holdfast.stores.queues.embedded.storage import catalog, messages, sweeping
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.queues.embedded.storage.messages import MessageRow
from holdfast.stores.sqlite import Connection

TOKEN_BYTES: Final = 8
# In batches of up to ten messages: the most that a step may move or remove before it lets others write.
ROUNDS_MAX: Final = QUEUE_STEP_MESSAGES // QUEUE_BATCH_MAX


class Received(NamedTuple):
    """The result of one step. `more` says that the step ended early: more messages may follow those it moved
    or removed.
    """

    messages: tuple[Incoming, ...]
    more: bool


def next_due(operation: ReceiveMessages, connection: Connection, now: float) -> float | None:
    """Return when a message will be due. Writes nothing; waiting receives call it."""
    return messages.next_due(connection, catalog.needed(connection, operation.queue).lot)


def receive_messages(operation: ReceiveMessages, work: Writing) -> Received:
    queue = work.queue(operation.queue)
    dead = _dead_letters(queue, work)
    visibility_s = operation.visibility_s
    until = work.now + (queue.definition.visibility_s if visibility_s is None else visibility_s)
    taken: dict[int, Incoming] = {}
    for _ in range(ROUNDS_MAX):
        fresh = _fresh(queue, taken, operation.count, work)
        for row in fresh:
            if sweeping.is_over(row, queue, work.now):
                messages.remove(work.connection, row)
            elif dead is not None and row.receives >= queue.definition.receives_max:
                move(row, queue, dead, work, died_in=queue.name)
            else:
                taken[row.place] = _held(row, until, work)
        if not fresh or len(taken) == operation.count:
            if work.sweeps:
                sweeping.sweep(work.connection, work.now)
            return Received(tuple(taken.values()), more=False)
    return Received(tuple(taken.values()), more=True)


def take_back(operation: ReceiveMessages, outcome: list[Received], work: Writing) -> None:
    """Undo a receive whose caller was cancelled, as if it had not happened."""
    queue = work.queue(operation.queue)
    for each in [message for received in outcome for message in received.messages]:
        row = _named(each.receipt, queue, work)
        if row is not None:
            messages.unhold(work.connection, row, work.now)
    work.wakes.add(queue.name)


def delete_messages(operation: DeleteMessages, work: Writing) -> int:
    """Delete the messages of all valid receipts and return how many receipts were lost."""
    queue = work.queue(operation.queue)
    lost = 0
    for receipt in dict.fromkeys(operation.receipts):
        row = _named(receipt, queue, work)
        if row is None:
            lost += 1
        else:
            messages.remove(work.connection, row)
    if queue.definition.fifo:
        # The next message of each group may be received now.
        work.wakes.add(queue.name)
    return lost


def change_visibility(operation: ChangeVisibility, work: Writing) -> int:
    """Change the visibility of all valid receipts and return how many receipts were lost."""
    queue = work.queue(operation.queue)
    lost = 0
    for receipt in dict.fromkeys(operation.receipts):
        row = _named(receipt, queue, work)
        if row is None or row.due is None or row.due <= work.now:
            lost += 1
        else:
            messages.hold_until(work.connection, row, work.now + operation.seconds)
    work.wakes.add(queue.name)
    return lost


def _dead_letters(queue: QueueRow, work: Writing) -> QueueRow | None:
    """Return the dead-letter queue, or None without one.

    Also None if that queue was deleted: the message then stays where it is and can still be received.
    """
    name = queue.definition.dead_letters
    return None if name is None else work.found(name)


def _fresh(queue: QueueRow, taken: dict[int, Incoming], count: int, work: Writing) -> list[MessageRow]:
    """Return as many due messages as the receive still needs, without those in `taken`.

    With a visibility timeout of zero, a message that was just taken is due again at once.
    """
    rows = messages.due(work.connection, queue.lot, work.now, len(taken) + count)
    return [row for row in rows if row.place not in taken][: count - len(taken)]


def _held(row: MessageRow, until: float, work: Writing) -> Incoming:
    token = token_hex(TOKEN_BYTES)
    messages.hold(work.connection, row, until, token)
    return messages.incoming(row, f"{row.place}-{token}", row.receives + 1)


def _named(receipt: str, queue: QueueRow, work: Writing) -> MessageRow | None:
    """Return the message whose latest receipt is this one, or None."""
    place, _, token = receipt.partition("-")
    if not (place.isascii() and place.isdigit() and len(place) < len(str(messages.LAST_PLACE))):
        return None
    row = messages.at(work.connection, queue.lot, int(place))
    return row if row is not None and row.token == token else None
