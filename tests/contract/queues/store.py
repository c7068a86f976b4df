"""The queues store under test: its engine, and shortcuts for the operations of the tests."""

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
    IncomingMessage,
    Operation,
    OutgoingMessage,
    QueueDefinition,
    QueueDescription,
    ReceiveMessages,
    SendMessages,
    SentMessage,
)
from holdfast.stores.queues.port import Queues

R = TypeVar("R")
_NUMBERS = itertools.count()
_IDS = itertools.count()
# Longer than any wait of these tests; a passing test never waits so long.
LONG_S = 15


class Store:
    """A queues store under test."""

    def __init__(self, engine: str, queues: Queues) -> None:
        self.engine, self.queues = engine, queues

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self.queues.run(operation))

    def name(self, *, fifo: bool = False) -> str:
        """Return a new unique name for a queue, without creating it."""
        return f"q{os.getpid()}-{next(_NUMBERS)}{'.fifo' if fifo else ''}"

    def create(self, *, fifo: bool = False, **parts: Any) -> str:
        """Create a queue for a test and return its name."""
        definition = QueueDefinition(name=self.name(fifo=fifo), fifo=fifo, **parts)
        self.run(CreateQueue(definition))
        return definition.name

    def create_with_dead(self, *, fifo: bool = False, max_receives: int = 1, **parts: Any) -> tuple[str, str]:
        """Create a queue with a dead-letter queue, and return both names."""
        dead = self.create(fifo=fifo)
        return self.create(fifo=fifo, dead_letters=dead, max_receives=max_receives, **parts), dead

    def send(self, queue: str, *messages: OutgoingMessage) -> tuple[SentMessage, ...]:
        return self.run(SendMessages(queue, messages))

    def receive(self, queue: str, count: int = 10, **parts: Any) -> tuple[IncomingMessage, ...]:
        return self.run(ReceiveMessages(queue, count, **parts))

    def receive_waiting(self, queue: str, count: int = 10, **parts: Any) -> tuple[IncomingMessage, ...]:
        """Receive messages as soon as some arrive."""
        return self.receive(queue, count, wait_s=LONG_S, **parts)

    def delete(self, queue: str, *messages: IncomingMessage) -> None:
        self.run(DeleteMessages(queue, tuple(each.receipt for each in messages)))

    def release(self, queue: str, *messages: IncomingMessage) -> None:
        """Make received messages visible again at once."""
        self.hold(queue, 0, *messages)

    def hold(self, queue: str, seconds: float, *messages: IncomingMessage) -> None:
        """Change the visibility timeout of received messages to this many seconds from now."""
        self.run(ChangeVisibility(queue, tuple(each.receipt for each in messages), seconds))

    def describe(self, queue: str) -> QueueDescription:
        return self.run(DescribeQueue(queue))

    def drain(self, queue: str) -> list[str]:
        """Receive and delete all messages, and return their bodies in order of arrival."""
        bodies: list[str] = []
        while received := self.receive(queue, 10):
            bodies += [each.body for each in received]
            self.delete(queue, *received)
        return bodies


def plain_message(body: str, **parts: Any) -> OutgoingMessage:
    return OutgoingMessage(body=body, **parts)


def fifo_message(body: str, group: str = "g", **parts: Any) -> OutgoingMessage:
    """Return a message for a FIFO queue, with a unique deduplication id unless one is given."""
    return OutgoingMessage(body=body, group=group, **{"deduplication": f"d{next(_IDS)}", **parts})


def bodies(received: tuple[IncomingMessage, ...]) -> list[str]:
    return [each.body for each in received]
