"""A queues store under test: an engine, with what the tests of the port need around it."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any, TypeVar

from holdfast.operations.queues import (
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DescribeQueue,
    Incoming,
    Operation,
    Outgoing,
    QueueDefinition,
    QueueDescription,
    ReceiveMessages,
    SendMessages,
    Sent,
)
from holdfast.stores.queues.port import Queues

R = TypeVar("R")
_NUMBERS = itertools.count()
_IDS = itertools.count()
# Longer than any wait of these tests; a test that is right never waits so long.
LONG_S = 15


class Store:
    def __init__(self, engine: str, queues: Queues) -> None:
        self.engine, self.queues = engine, queues

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self.queues.run(operation))

    def name(self, *, fifo: bool = False) -> str:
        return f"q{os.getpid()}-{next(_NUMBERS)}{'.fifo' if fifo else ''}"

    def create(self, *, fifo: bool = False, **parts: Any) -> str:
        """A queue of its own for a test; its name."""
        definition = QueueDefinition(name=self.name(fifo=fifo), fifo=fifo, **parts)
        self.run(CreateQueue(definition))
        return definition.name

    def create_with_dead(self, *, fifo: bool = False, receives_max: int = 1, **parts: Any) -> tuple[str, str]:
        dead = self.create(fifo=fifo)
        return self.create(fifo=fifo, dead_letters=dead, receives_max=receives_max, **parts), dead

    def send(self, queue: str, *messages: Outgoing) -> tuple[Sent, ...]:
        return self.run(SendMessages(queue, messages))

    def receive(self, queue: str, count: int = 10, **parts: Any) -> tuple[Incoming, ...]:
        return self.run(ReceiveMessages(queue, count, **parts))

    def awaited(self, queue: str, count: int = 10, **parts: Any) -> tuple[Incoming, ...]:
        """What comes, as soon as something does."""
        return self.receive(queue, count, wait_s=LONG_S, **parts)

    def delete(self, queue: str, *messages: Incoming) -> None:
        self.run(DeleteMessages(queue, tuple(each.receipt for each in messages)))

    def release(self, queue: str, *messages: Incoming) -> None:
        self.hold(queue, 0, *messages)

    def hold(self, queue: str, seconds: float, *messages: Incoming) -> None:
        self.run(ChangeVisibility(queue, tuple(each.receipt for each in messages), seconds))

    def describe(self, queue: str) -> QueueDescription:
        return self.run(DescribeQueue(queue))

    def drained(self, queue: str) -> list[str]:
        """The bodies of all messages, in the order they come; each is deleted."""
        bodies: list[str] = []
        while received := self.receive(queue, 10):
            bodies += [each.body for each in received]
            self.delete(queue, *received)
        return bodies


def plain(body: str, **parts: Any) -> Outgoing:
    return Outgoing(body=body, **parts)


def grouped(body: str, group: str = "g", **parts: Any) -> Outgoing:
    """For a FIFO queue; no other message has its deduplication id, unless one is given."""
    return Outgoing(body=body, group=group, **{"deduplication": f"d{next(_IDS)}", **parts})


def bodies(received: tuple[Incoming, ...]) -> list[str]:
    return [each.body for each in received]
