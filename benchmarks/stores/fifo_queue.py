"""Benchmark: messages sent, received and deleted per second in a FIFO queue file, compared with raw SQLite.

32 tasks send and delete one by one and receive by ten. The floor writes the rows that our queues write,
without checksums, into the same tables and indexes, in fsynced transactions of what the 32 tasks request at
the same time: the row with its group and deduplication id; the oldest due rows, taken; the rows deleted, and
the next row of each group made due. It checks no definition, stores no receipt, wakes no receiver and sweeps
nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import apsw
import uvloop

from benchmarks.harness.measurement import ROUNDS, Figure, build_figure
from holdfast.operations.queues import (
    CreateQueue,
    DeleteMessages,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.queues.embedded.storage.schema import INITIAL

QUEUE: Final = "bench.fifo"
TASKS = 32
MESSAGES = 1_600
RECEIVE_BATCH = 10  # the batch of our workers
BODY: Final = "the quick brown fox jumps over the lazy dog " * 10
OPERATIONS: Final = ("send", "receive", "delete")

Rates = dict[str, float]


def run(folder: Path) -> list[Figure]:
    """Return a figure each for sending, receiving and deleting."""
    numbers = itertools.count()
    floor = QueueFloor(folder / "floor.db")
    with open_queues(folder / "queues.db") as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name=QUEUE, fifo=True)))
        # The first round is a warm-up: statements are prepared and files grow.
        rounds = [
            (uvloop.run(_measure_ours(queues, numbers)), _measure_floor(floor, numbers))
            for _ in range(ROUNDS + 1)
        ][1:]
    floor.close()
    return [
        build_figure(f"queue: {what}, 32 tasks", [(ours[what], floor[what]) for ours, floor in rounds], None)
        for what in OPERATIONS
    ]


async def _measure_ours(queues: EmbeddedQueues, numbers: itertools.count[int]) -> Rates:
    """Send, receive and delete a round of messages; return the messages per second of each."""
    receipts: list[str] = []

    async def send() -> None:
        await queues.run(SendMessages(QUEUE, (_build_message(next(numbers)),)))

    async def receive() -> None:
        receipts.extend(each.receipt for each in await queues.run(ReceiveMessages(QUEUE, RECEIVE_BATCH)))

    async def delete() -> None:
        await queues.run(DeleteMessages(QUEUE, (receipts.pop(),)))

    works = ((send, 1), (receive, RECEIVE_BATCH), (delete, 1))
    return {what: await _measure_rate(*work) for what, work in zip(OPERATIONS, works, strict=True)}


async def _measure_rate(work: Callable[[], Awaitable[None]], messages_each: int) -> float:
    """Return messages per second if 32 tasks repeat the work; each call handles `messages_each` messages."""

    async def task() -> None:
        for _ in range(MESSAGES // TASKS // messages_each):
            await work()

    started = time.perf_counter()
    await asyncio.gather(*(task() for _ in range(TASKS)))
    return MESSAGES / (time.perf_counter() - started)


def _build_message(number: int) -> OutgoingMessage:
    """Build a message. A round has as many groups as messages, so no message waits for another."""
    return OutgoingMessage(
        body=BODY, group=f"group-{number % MESSAGES}", deduplication=f"message-{number:09d}"
    )


def _measure_floor(floor: QueueFloor, numbers: itertools.count[int]) -> Rates:
    """Do the same by hand; return the messages per second of each operation."""
    rates: Rates = {}
    works = ((floor.send, TASKS), (floor.receive, TASKS * RECEIVE_BATCH), (floor.delete, TASKS))
    for what, (work, messages_each) in zip(OPERATIONS, works, strict=True):
        started = time.perf_counter()
        for _ in range(MESSAGES // messages_each):
            work(numbers)
        rates[what] = MESSAGES / (time.perf_counter() - started)
    return rates


class QueueFloor:
    """The rows of a queue, written by hand in one fsynced transaction per call."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        for name, value in (("journal_mode", "wal"), ("synchronous", "full"), ("secure_delete", "on")):
            self.connection.pragma(name, value)
        self.connection.execute(INITIAL)
        self._taken: list[tuple[Any, Any]] = []

    def send(self, numbers: itertools.count[int]) -> None:
        with self.connection:
            for number in itertools.islice(numbers, TASKS):
                message = _build_message(number)
                self.connection.execute(
                    'INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, '
                    "attributes, body) VALUES (1, ?1, ?2, ?1, ?3, ?3, CASE WHEN EXISTS (SELECT 1 FROM "
                    "messages WHERE lot = 1 AND \"group\" = ?2) THEN NULL ELSE ?3 END, '{}', ?4)",
                    (message.deduplication, message.group, float(number), message.body),
                )
                self.connection.execute(
                    "INSERT OR IGNORE INTO deduplications (queue, deduplication, at, id, place) "
                    "VALUES (1, ?1, ?2, ?1, 1)",
                    (message.deduplication, float(number)),
                )

    def receive(self, _: object) -> None:
        """Take the oldest due rows of 32 receives at once."""
        with self.connection:
            rows = self.connection.execute(
                'SELECT place, "group", body FROM messages WHERE lot = 1 AND due <= 1e12 '
                "ORDER BY due, place LIMIT ?",
                (TASKS * RECEIVE_BATCH,),
            ).fetchall()
            for place, group, _ in rows:
                self.connection.execute(
                    "UPDATE messages SET due = 1e13, token = 'taken', receives = receives + 1 "
                    "WHERE place = ?",
                    (place,),
                )
                self._taken.append((place, group))

    def delete(self, _: object) -> None:
        """Delete 32 taken rows and make the next row of each group due."""
        with self.connection:
            for place, group in (self._taken.pop() for _ in range(TASKS)):
                self.connection.execute("DELETE FROM messages WHERE place = ?", (place,))
                self.connection.execute(
                    "UPDATE messages SET due = available_at WHERE place = "
                    '(SELECT place FROM messages WHERE lot = 1 AND "group" = ? ORDER BY place LIMIT 1)',
                    (group,),
                )

    def close(self) -> None:
        self.connection.close()
