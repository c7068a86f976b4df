"""The embedded queues engine: passes each operation to its function, and lets a receive wait.

An operation is a generator of steps: a unit of work to commit, or a sleep until a message may be due. `run`
(for asyncio) and `run_blocking` (for threads and scripts) are two ways to wait for each step. The writes of
all callers share fsynced transactions; a commit wakes the waiting receives, in this process and in others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from time import perf_counter
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ReceiptLost, StoreClosed, UnknownOperation
from holdfast.core.limits import QUEUE_LOOK_AGAIN_S, QUEUE_SWEEP_EVERY
from holdfast.operations import queues as ops
from holdfast.operations.queues import Operation
from holdfast.stores.queues import checks
from holdfast.stores.queues.embedded.act import moving, queues, receiving, sending
from holdfast.stores.queues.embedded.act.writing import Known, Writing
from holdfast.stores.queues.embedded.bell import Bell
from holdfast.stores.queues.embedded.storage import sweeping
from holdfast.stores.queues.embedded.storage.schema import SCHEMA
from holdfast.stores.queues.embedded.waiting import Waiter, Waiters
from holdfast.stores.sqlite import Batch, Connection, Database, Receipt, Tuning

R = TypeVar("R")
IN_MEMORY: Final = ":memory:"
# How often a waiting receive looks for expired rows that no other work removes.
IDLE_SWEEP_S: Final = 60.0


class Sleep(NamedTuple):
    waiter: Waiter
    seconds: float


Step: TypeAlias = Receipt[Any] | Sleep
Steps: TypeAlias = Generator[Step, Any, R]

READS: Final[dict[type[Operation[Any]], Callable[[Any, Connection, float], Any]]] = {
    ops.ListQueues: queues.list_queues,
    ops.DescribeQueue: queues.describe_queue,
    ops.Browse: queues.browse,
}
# Operations of one unit of work, whose result is the operation's result.
WRITES: Final[dict[type[Operation[Any]], Callable[[Any, Writing], Any]]] = {
    ops.CreateQueue: queues.create_queue,
    ops.UpdateQueue: queues.update_queue,
    ops.DeleteQueue: queues.delete_queue,
    ops.SendMessages: sending.send_messages,
}
# Operations that check everything before their first row is written, so they need no savepoint.
REFUSE_BEFORE_WRITING: Final = frozenset(
    {ops.SendMessages, ops.ReceiveMessages, ops.DeleteMessages, ops.ChangeVisibility}
)


def open_queues(
    path: str | PathLike[str] | None = None, *, clock: Clock = SYSTEM_CLOCK, tuning: Tuning | None = None
) -> EmbeddedQueues:
    """Open a file of queues and create it if it is missing; without a path, open queues in memory that end
    with `close`.

    Deleted content is overwritten (`secure_delete`) whatever the tuning, because messages are short-lived.
    """
    tuned = replace(tuning or Tuning(), secure_delete=True)
    return EmbeddedQueues(Database.open(IN_MEMORY if path is None else path, SCHEMA, tuned), clock)


class EmbeddedQueues:
    """The embedded queues engine, opened by `open_queues`. Any thread and any event loop may use it."""

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self.database = database
        self._clock = clock
        self._units = itertools.count()
        self._waiters = Waiters()
        self._found_tidy_at = float("-inf")
        self._bell = None if database.path == IN_MEMORY else Bell(database.path, self._waiters.ring_all)

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation, from an event loop. A cancelled one may still be done, except a receive."""
        with closing(self._steps(operation)) as steps:
            answer: Any = None
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return cast(R, end.value)
                if isinstance(step, Sleep):
                    await step.waiter.sleep(step.seconds)
                else:
                    answer = await step

    def run_blocking(self, operation: Operation[R]) -> R:
        """Run one operation and wait for it, from a thread or a script."""
        with closing(self._steps(operation)) as steps:
            answer: Any = None
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration as end:
                    return cast(R, end.value)
                if isinstance(step, Sleep):
                    step.waiter.block(step.seconds)
                else:
                    answer = step.result()

    def compact(self, *, rewrite: bool = True) -> bool:
        """Remove all messages that are past retention or purged, then clear deleted content from the disk.

        Return False if readers or writers prevented it: call it again. Blocks while the file is being
        written.
        """
        while self.database.write(lambda connection: sweeping.sweep(connection, self._clock.now())):
            continue
        return self.database.compact(rewrite=rewrite)

    def close(self) -> None:
        """Finish the accepted operations, then refuse new ones; waiting receives raise `StoreClosed`."""
        self.database.close()
        if self._bell is not None:
            self._bell.close()
        self._waiters.ring_all()

    def __enter__(self) -> EmbeddedQueues:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the steps of each operation ------------------------------------------------------------------------

    def _steps(self, operation: Operation[Any]) -> Steps[Any]:
        checks.check(operation)
        match operation:
            case ops.ReceiveMessages():
                return self._receive(operation)
            case ops.DeleteMessages():
                return self._with_receipts(operation, receiving.delete_messages)
            case ops.ChangeVisibility():
                return self._with_receipts(operation, receiving.change_visibility)
            case ops.Redrive():
                return self._redrive(operation)
            case ops.PurgeQueue():
                return self._purge(operation)
        return self._plain(operation)

    def _plain(self, operation: Operation[Any]) -> Steps[Any]:
        kind = type(operation)
        if kind in WRITES:
            result = yield self._submit(operation, WRITES[kind])
            if kind is ops.DeleteQueue:
                yield from self._clear_dropped(operation)
            return result
        if kind not in READS:
            raise UnknownOperation(f"{kind.__name__} is not an operation of a queues store")
        return self._read(operation, READS[kind])

    def _receive(self, operation: ops.ReceiveMessages) -> Steps[tuple[ops.Incoming, ...]]:
        ends_at = perf_counter() + operation.wait_s
        with self._waiters.waiting(operation.queue) as waiter:
            while True:
                waiter.forget()
                due, now = self._read(operation, receiving.next_due), self._clock.now()
                if due is not None and due <= now:
                    received = yield from self._received(operation)
                    if received.messages:
                        return received.messages
                    if received.more:
                        continue
                    # Another receiver was faster: look again when the next message may be due.
                    due = self._read(operation, receiving.next_due)
                left_s = ends_at - perf_counter()
                if left_s <= 0:
                    return ()
                if self._is_sweep_due(operation):
                    yield self._submit(operation, queues.sweep)
                    continue
                if self._bell is not None:
                    self._bell.listen()
                yield Sleep(waiter, self._nap_s(due, left_s))

    def _received(self, operation: ops.ReceiveMessages) -> Steps[receiving.Received]:
        outcome: list[receiving.Received] = []

        def receive(_: object, work: Writing) -> receiving.Received:
            outcome.append(receiving.receive_messages(operation, work))
            return outcome[-1]

        try:
            received: receiving.Received = yield self._submit(operation, receive)
        except GeneratorExit:
            # The caller was cancelled. Units run in order, so this one finds the messages that the previous
            # unit received.
            with suppress(StoreClosed):
                self._submit(operation, lambda _, work: receiving.take_back(operation, outcome, work))
            raise
        return received

    def _is_sweep_due(self, operation: ops.ReceiveMessages) -> bool:
        now = self._clock.now()
        if abs(now - self._found_tidy_at) < IDLE_SWEEP_S:
            return False
        if self._read(operation, queues.is_sweep_due):
            return True
        self._found_tidy_at = now
        return False

    def _nap_s(self, due: float | None, left_s: float) -> float:
        longest = min(left_s, QUEUE_LOOK_AGAIN_S)
        return longest if due is None else min(longest, max(0.0, due - self._clock.now()))

    def _with_receipts(
        self,
        operation: ops.DeleteMessages | ops.ChangeVisibility,
        act: Callable[[Any, Writing], int],
    ) -> Steps[None]:
        # Raise after the commit: the valid receipts are done.
        lost = yield self._submit(operation, act)
        if lost:
            raise ReceiptLost(
                f"{lost} of {len(operation.receipts)} receipts on {operation.queue} no longer hold: the "
                "visibility "
                "time was over and the message went to another receiver, or it is gone. The others are done."
            )

    def _redrive(self, operation: ops.Redrive) -> Steps[int]:
        moved, after = 0, (0.0, 0)
        while True:
            left = None if operation.count is None else operation.count - moved
            step: moving.Step = yield self._submit(operation, partial(_redriven, after=after, left=left))
            moved += step.moved
            if step.after is None or moved == operation.count:
                return moved
            after = step.after

    def _purge(self, operation: ops.PurgeQueue) -> Steps[None]:
        yield self._submit(operation, queues.purge_queue)
        yield from self._clear_dropped(operation)

    def _clear_dropped(self, operation: Operation[Any]) -> Steps[None]:
        """Take the content of a purged or deleted queue off the disk before the operation returns."""
        while (yield self._submit(operation, queues.clear_dropped)):
            continue

    # --- reading and writing --------------------------------------------------------------------------------

    def _read(self, operation: Operation[Any], act: Callable[[Any, Connection, float], R]) -> R:
        with self.database.snapshot() as connection:
            return act(operation, connection, self._clock.now())

    def _submit(self, operation: Operation[Any], act: Callable[[Any, Writing], R]) -> Receipt[R]:
        changes_catalog = type(operation) not in REFUSE_BEFORE_WRITING

        def unit(connection: Connection) -> R:
            batch = self.database.batch()
            batch.shared = known = batch.shared or Known()
            sweeps = next(self._units) % QUEUE_SWEEP_EVERY == 0
            work = Writing(connection, self._clock.now(), sweeps, known)
            try:
                result = act(operation, work)
            finally:
                if changes_catalog:
                    known.forget()
            if work.wakes:
                self._ring_after(batch, known.rung, work.wakes)
            return result

        return self.database.submit(unit, savepoint=changes_catalog)

    def _ring_after(self, batch: Batch, rung: set[str], names: set[str]) -> None:
        """Ring once for each queue and transaction, however many units touched the queue."""

        def ring() -> None:
            fresh = names - rung
            if not fresh:
                return
            for name in fresh:
                self._waiters.ring(name)
            if self._bell is not None and not rung:
                self._bell.ring()
            rung.update(fresh)

        batch.after_commit(ring)


def _redriven(
    operation: ops.Redrive, work: Writing, *, after: tuple[float, int], left: int | None
) -> moving.Step:
    return moving.redrive_step(operation, after, left, work)
