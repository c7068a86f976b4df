"""A process that sends to, or receives from, a shared FIFO queue file, and reports each step.

    python -m tests.faults.stores.queues_process FILE CLOCK PIPE sender NAME FIRST
    python -m tests.faults.stores.queues_process FILE CLOCK PIPE receiver NAME

All write their lines into one pipe, before and after each step, so that the order of the lines is the order
of the steps:

    sender     begun NAME NUMBER, sent NAME NUMBER
    receiver   asking NAME, got NAME MESSAGE ID, deleting NAME MESSAGE, deleted|lost NAME MESSAGE

A MESSAGE is `sender:number`; its group is the sender and the number's remainder.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from holdfast.core.clock import RunClock
from holdfast.core.errors import ReceiptLost
from holdfast.operations.queues import DeleteMessages, OutgoingMessage, ReceiveMessages, SendMessages
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues

QUEUE = "events.fifo"
GROUPS = 4
BATCH = 3


def main(path: str, clock: str, pipe: str, role: str, name: str, first: str = "0") -> None:
    queues = open_queues(path, clock=RunClock(Path(clock)))
    if role == "sender":
        _send(queues, int(pipe), name, int(first))
    else:
        _receive(queues, int(pipe), name)


def make_message(sender: str, number: int) -> OutgoingMessage:
    """Return the message with this number; its group is one of four of the sender."""
    return OutgoingMessage(
        body=f"{sender}:{number}", group=f"{sender}:{number % GROUPS}", deduplication=f"{sender}:{number}"
    )


def _send(queues: EmbeddedQueues, pipe: int, name: str, first: int) -> None:
    """Send batches of messages from number `first` on, without end."""
    for start in itertools.count(first, BATCH):
        numbers = range(start, start + BATCH)
        for number in numbers:
            _say(pipe, "begun", name, number)
        queues.run_blocking(SendMessages(QUEUE, tuple(make_message(name, number) for number in numbers)))
        for number in numbers:
            _say(pipe, "sent", name, number)


def _receive(queues: EmbeddedQueues, pipe: int, name: str) -> None:
    """Receive and delete messages, without end."""
    while True:
        _say(pipe, "asking", name)
        for each in queues.run_blocking(ReceiveMessages(QUEUE, 5, wait_s=5)):
            _say(pipe, "got", name, each.body, each.id)
            _say(pipe, "deleting", name, each.body)
            try:
                queues.run_blocking(DeleteMessages(QUEUE, (each.receipt,)))
                _say(pipe, "deleted", name, each.body)
            except ReceiptLost:
                _say(pipe, "lost", name, each.body)


def _say(pipe: int, *words: object) -> None:
    os.write(pipe, (" ".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
