"""The embedded queues engine: passes each operation to its handler, and lets a receive wait for messages.

An operation is a generator that suspends at each wait: for a unit of work to commit, or for a message that
may be due. `run` (for asyncio) and `run_blocking` (for threads and scripts) are two ways to wait. The writes
of all callers share fsynced transactions; a commit wakes the waiting receives, in this process and in others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from time import perf_counter
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import apsw

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.deadlines import DeadlineWatch
from holdfast.core.errors import DataDamaged, ReceiptLost, StoreClosed, StoreFileError, UnknownOperation
from holdfast.core.limits import QUEUE_LOOK_AGAIN_S, QUEUE_SWEEP_EVERY
from holdfast.operations import queues as ops
from holdfast.operations.queues import Operation
from holdfast.stores.queues import checks
from holdfast.stores.queues.embedded.handlers import moves, queues, receives, sends
from holdfast.stores.queues.embedded.handlers.write_context import TransactionCache, WriteContext
from holdfast.stores.queues.embedded.storage import messages, schema, sweeper
from holdfast.stores.queues.embedded.storage.messages import HiddenMessage
from holdfast.stores.queues.embedded.storage.schema import SCHEMA
from holdfast.stores.queues.embedded.waiters import Waiter, Waiters
from holdfast.stores.queues.embedded.wakeup_pipe import WakeupPipe
from holdfast.stores.sqlite import Batch, CommitFuture, Connection, Database, Tuning
from holdfast.stores.sqlite.checksums import checksums_ignored
from holdfast.stores.sqlite.errors import PAGE_DAMAGED

R = TypeVar("R")
IN_MEMORY: Final = ":memory:"
# How often a waiting receive looks for expired rows that no other work removes.
IDLE_SWEEP_S: Final = 60.0


class Sleep(NamedTuple):
    """A wait of at most `seconds`, until the waiter is woken."""

    waiter: Waiter
    seconds: float


# An operation in progress. It yields what to wait for, and receives the result of each unit of work.
Suspension: TypeAlias = CommitFuture[Any] | Sleep
OperationRun: TypeAlias = Generator[Suspension, Any, R]

READS: Final[dict[type[Operation[Any]], Callable[[Any, Connection, float], Any]]] = {
    ops.ListQueues: queues.list_queues,
    ops.DescribeQueue: queues.describe_queue,
    ops.Browse: queues.browse,
}
# Operations of one unit of work, whose result is the operation's result.
WRITES: Final[dict[type[Operation[Any]], Callable[[Any, WriteContext], Any]]] = {
    ops.CreateQueue: queues.create_queue,
    ops.UpdateQueue: queues.update_queue,
    ops.DeleteQueue: queues.delete_queue,
    ops.SendMessages: sends.send_messages,
    ops.DiscardMessages: moves.discard_messages,
}
# Operations that check everything before their first row is written, so they need no savepoint.
CHECKED_BEFORE_WRITING: Final = frozenset(
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

    can_peek = True

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self.database = database
        self._clock, self._deadlines = clock, DeadlineWatch(clock)
        self._unit_numbers, self._receive_numbers = itertools.count(), itertools.count()
        self._waiters = Waiters()
        self._nothing_to_sweep_at = float("-inf")
        self._wakeup_pipe = (
            None if database.path == IN_MEMORY else WakeupPipe(database.path, self._waiters.wake_all)
        )

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation, from an event loop.

        If it is cancelled, it may still be done, except a receive.
        """
        with closing(self._start(operation)) as generator:
            result: Any = None
            while True:
                try:
                    suspension = generator.send(result)
                except StopIteration as end:
                    return cast(R, end.value)
                if isinstance(suspension, Sleep):
                    await suspension.waiter.sleep(suspension.seconds)
                else:
                    result = await suspension

    def run_blocking(self, operation: Operation[R]) -> R:
        """Run one operation and wait for it, from a thread or a script."""
        with closing(self._start(operation)) as generator:
            result: Any = None
            while True:
                try:
                    suspension = generator.send(result)
                except StopIteration as end:
                    return cast(R, end.value)
                if isinstance(suspension, Sleep):
                    suspension.waiter.block(suspension.seconds)
                else:
                    result = suspension.result()

    def compact(self, *, rewrite: bool = True) -> bool:
        """Remove all messages that are past retention or purged, then clear deleted content from the disk.

        Return False if readers or writers prevented it: call it again. Blocks while the file is being
        written.
        """
        while self.database.write(lambda connection: sweeper.sweep(connection, self._clock.now())):
            continue
        return self.database.compact(rewrite=rewrite)

    def close(self) -> None:
        """Finish the accepted operations, then refuse new ones; waiting receives raise `StoreClosed`."""
        self.database.close()
        if self._wakeup_pipe is not None:
            self._wakeup_pipe.close()
        self._waiters.wake_all()

    def __enter__(self) -> EmbeddedQueues:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- each operation as a generator ----------------------------------------------------------------------

    def _start(self, operation: Operation[Any]) -> OperationRun[Any]:
        """Check the operation and return the generator that runs it."""
        checks.check(operation)
        match operation:
            case ops.ReceiveMessages():
                return self._receive(operation)
            case ops.DeleteMessages():
                return self._run_with_receipts(operation, receives.delete_messages)
            case ops.ChangeVisibility():
                return self._run_with_receipts(operation, receives.change_visibility)
            case ops.Redrive():
                return self._redrive(operation)
            case ops.PurgeQueue():
                return self._purge(operation)
        return self._run_simple(operation)

    def _run_simple(self, operation: Operation[Any]) -> OperationRun[Any]:
        """Run an operation of one read or one write. Raise `UnknownOperation` for any other.

        After DeleteQueue, also remove the queue's messages.
        """
        kind = type(operation)
        if kind in WRITES:
            result = yield self._submit(operation, WRITES[kind])
            if kind is ops.DeleteQueue:
                yield from self._clear_dropped(operation)
            return result
        if kind not in READS:
            raise UnknownOperation(f"{kind.__name__} is not an operation of a queues store")
        return self._read(operation, READS[kind])

    def _receive(self, operation: ops.ReceiveMessages) -> OperationRun[tuple[ops.IncomingMessage, ...]]:
        """Receive due messages; without any, sleep and look again until `wait_s` is over, then return ().

        Raise `DataDamaged` then, if messages that are due are damaged.
        """
        damaged: set[int] = set()

        def find_next_due(_: object, connection: Connection, now: float) -> float | None:
            return receives.find_next_due(operation, connection, now, frozenset(damaged))

        ends_at = perf_counter() + operation.wait_s
        with self._waiters.register(operation.queue) as waiter:
            while True:
                waiter.clear()
                due, now = self._read(operation, find_next_due), self._clock.now()
                if due is not None and (overdue := self._find_overdue(operation, is_idle=due > now)):
                    yield self._submit(operation, partial(_show_overdue, found=overdue))
                    continue
                if due is not None and due <= now:
                    received = yield from self._receive_once(operation)
                    damaged |= received.damaged
                    if received.messages:
                        return received.messages
                    if received.has_more:
                        continue
                    # Another receiver was faster: look again when the next message may be due.
                    due = self._read(operation, find_next_due)
                left_s = ends_at - perf_counter()
                if left_s <= 0:
                    if due is None:
                        find_headless = partial(receives.find_headless, damaged=frozenset(damaged))
                        damaged.update(self._read(operation, find_headless))
                    if damaged:
                        raise messages.report_damaged(sorted(damaged), operation.queue)
                    return ()
                if self._is_sweep_due(operation):
                    if not (yield self._submit(operation, queues.sweep)):
                        self._nothing_to_sweep_at = self._clock.now()
                    continue
                if self._wakeup_pipe is not None:
                    self._wakeup_pipe.listen()
                yield Sleep(waiter, self._get_sleep_s(due, left_s))

    def _receive_once(self, operation: ops.ReceiveMessages) -> OperationRun[receives.ReceiveResult]:
        """Receive in one unit of work. If the caller is cancelled meanwhile, undo the receive."""
        results: list[receives.ReceiveResult] = []

        def receive(_: object, context: WriteContext) -> receives.ReceiveResult:
            results.append(receives.receive_messages(operation, context))
            return results[-1]

        try:
            received: receives.ReceiveResult = yield self._submit(operation, receive)
        except GeneratorExit:
            # The caller was cancelled. Units run in order, so this one finds the messages that the previous
            # unit received.
            with suppress(StoreClosed):
                self._submit(operation, lambda _, context: receives.undo_receive(operation, results, context))
            raise
        return received

    def _find_overdue(self, operation: ops.ReceiveMessages, *, is_idle: bool) -> list[HiddenMessage]:
        """Return messages that a clock ahead of this one hid for too long.

        Looks if the queue `is_idle`, with nothing due, and otherwise at each eighth receive.
        """
        if not is_idle and (next(self._receive_numbers) + 1) % QUEUE_SWEEP_EVERY:
            return []
        find = partial(receives.find_overdue, deadlines=self._deadlines, is_idle=is_idle)
        try:
            return self._read(operation, find)
        except StoreFileError:
            with self.database.read_unverified() as unverified:
                return self._read(operation, partial(find, unverified=unverified))

    def _is_sweep_due(self, operation: ops.ReceiveMessages) -> bool:
        """Return whether expired rows wait to be removed.

        Looks at most once a minute while there are none.
        """
        now = self._clock.now()
        if abs(now - self._nothing_to_sweep_at) < IDLE_SWEEP_S:
            return False
        if self._read(operation, queues.is_sweep_due):
            return True
        self._nothing_to_sweep_at = now
        return False

    def _get_sleep_s(self, due: float | None, left_s: float) -> float:
        """Return how long to sleep: until the next message is due, the wait ends or the next regular look."""
        longest = min(left_s, QUEUE_LOOK_AGAIN_S)
        return longest if due is None else min(longest, max(0.0, due - self._clock.now()))

    def _run_with_receipts(
        self,
        operation: ops.DeleteMessages | ops.ChangeVisibility,
        handler: Callable[[Any, WriteContext], receives.ReceiptResult],
    ) -> OperationRun[None]:
        """Run a handler of receipts. Raise `ReceiptLost` if some were lost, `DataDamaged` if a message could
        not be deleted.
        """
        # Raise after the commit: the valid receipts were processed.
        result: receives.ReceiptResult = yield self._submit(operation, handler)
        if result.damaged:
            raise messages.report_undeletable(result.damaged, operation.queue)
        if result.lost:
            raise ReceiptLost(
                f"{result.lost} of {len(operation.receipts)} receipts on {operation.queue} are no longer "
                "valid: the visibility timeout expired and another receiver got the message, or it was "
                "deleted. The others were processed."
            )

    def _redrive(self, operation: ops.Redrive) -> OperationRun[int]:
        """Move messages batch by batch, each in its own unit of work, and return how many were moved."""
        moved, position = 0, (0.0, 0)
        while True:
            left = None if operation.count is None else operation.count - moved
            unit = partial(_redrive_batch, resume_after=position, count_left=left)
            progress: moves.RedriveProgress = yield self._submit(operation, unit)
            moved += progress.moved
            if progress.resume_after is None or moved == operation.count:
                return moved
            position = progress.resume_after

    def _purge(self, operation: ops.PurgeQueue) -> OperationRun[None]:
        """Give the queue an empty lot, then remove the old messages before the operation returns."""
        yield self._submit(operation, queues.purge_queue)
        yield from self._clear_dropped(operation)

    def _clear_dropped(self, operation: Operation[Any]) -> OperationRun[None]:
        """Remove the content of a purged or deleted queue from the file before the operation returns."""
        while (yield self._submit(operation, queues.clear_dropped)):
            continue

    # --- reads and units of work ----------------------------------------------------------------------------

    def _read(self, operation: Operation[Any], handler: Callable[[Any, Connection, float], R]) -> R:
        """Call a reading handler with a snapshot of the file and the current time."""
        try:
            with self.database.snapshot() as connection:
                return handler(operation, connection, self._clock.now())
        except StoreFileError:
            if not isinstance(operation, ops.Browse):
                raise
            return cast(R, self._browse_alone(operation))

    def _browse_alone(self, operation: ops.Browse) -> tuple[ops.IncomingMessage, ...]:
        """Browse a queue with messages on a damaged page."""
        with self.database.snapshot() as connection, self.database.read_unverified() as unverified:
            return queues.browse_alone(operation, connection, unverified, self._clock.now())

    def _submit(
        self, operation: Operation[Any], handler: Callable[[Any, WriteContext], R]
    ) -> CommitFuture[R]:
        """Submit a writing handler as one unit of work.

        After its commit, the waiters of its queues are woken.
        """
        changes_catalog = type(operation) not in CHECKED_BEFORE_WRITING

        def unit(connection: Connection) -> R:
            batch = self.database.batch()
            batch.shared = cache = batch.shared or TransactionCache()
            should_sweep = next(self._unit_numbers) % QUEUE_SWEEP_EVERY == 0 and not batch.is_retry
            context = WriteContext(connection, self._clock.now(), self._deadlines, should_sweep, cache=cache)
            try:
                with self._salvage(operation, context) if batch.is_retry else nullcontext():
                    result = handler(operation, context)
            except apsw.CorruptError as error:
                if batch.is_retry:
                    raise
                # SQLite refuses every later write of this transaction: end it, as SQLite does after a damaged
                # page, and the committer runs each unit alone.
                connection.execute("ROLLBACK")
                raise DataDamaged(PAGE_DAMAGED.format(path=self.database.path)) from error
            finally:
                if changes_catalog:
                    cache.clear()
            if context.queues_to_wake:
                self._wake_after_commit(batch, cache.woken, context.queues_to_wake)
            return result

        return self.database.submit(unit, savepoint=changes_catalog)

    @contextmanager
    def _salvage(self, operation: Operation[Any], context: WriteContext) -> Iterator[None]:
        """Let a unit that has met a damaged page work on messages: their own checksums show which are sound.

        Raise `DataDamaged` if a page of anything else is damaged.
        """
        with self.database.snapshot() as reader:
            schema.read_all_but_messages(reader, deduplications=isinstance(operation, ops.SendMessages))
        context.is_salvaging, context.is_readable = True, self._is_readable
        with checksums_ignored(context.connection):
            yield

    def _is_readable(self, place: int) -> bool:
        """Return whether SQLite can read the message at this place to its end."""
        with self.database.read_unverified() as connection:
            return messages.is_readable(connection, place)

    def _wake_after_commit(self, batch: Batch, woken: set[str], names: set[str]) -> None:
        """Wake the waiters of the queues `names` after the commit, once per queue and transaction."""

        def wake() -> None:
            to_wake = names - woken
            if not to_wake:
                return
            for name in to_wake:
                self._waiters.wake(name)
            if self._wakeup_pipe is not None and not woken:
                self._wakeup_pipe.wake_others()
            woken.update(to_wake)

        batch.after_commit(wake)


def _show_overdue(
    operation: ops.ReceiveMessages, context: WriteContext, *, found: list[HiddenMessage]
) -> None:
    """Call `receives.show_overdue` with the arguments in a handler's order."""
    receives.show_overdue(operation, found, context)


def _redrive_batch(
    operation: ops.Redrive, context: WriteContext, *, resume_after: tuple[float, int], count_left: int | None
) -> moves.RedriveProgress:
    """Call `moves.redrive_batch` with the arguments in a handler's order."""
    return moves.redrive_batch(operation, resume_after, count_left, context)
