"""The group committer of a file: all waiting units of work share one transaction and its one fsync.

    submit → queue → [gather → write lock → BEGIN → units → COMMIT] → callbacks → futures → checkpoint

`GroupCommitter` owns the writing connection of a file and one thread. `inline_committer.py` gives the same
guarantees for a database in memory.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from time import perf_counter
from typing import Any, Protocol, TypeVar

import apsw

from holdfast.core.errors import InternalError, StoreBusy, StoreClosed
from holdfast.stores.sqlite.batch import Batch, Unit, Work
from holdfast.stores.sqlite.checkpoints import Checkpoints
from holdfast.stores.sqlite.commit_futures import CommitFuture, complete_all
from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.forks import FORKED
from holdfast.stores.sqlite.schema import check_version
from holdfast.stores.sqlite.store_files import StoreFiles
from holdfast.stores.sqlite.write_lock import WriteLock

# After a commit its submitters usually submit their next write. The committer waits while more writes keep
# arriving; it never waits for a single writer.
GATHER_IDLE_S = 0.0004
MAX_GATHER_S = 0.005
# An idle committer looks this often whether its files are still there.
WATCH_S = 1.0
NEVER = sys.maxsize
NESTED_UNIT = "A unit of work must not submit another one: it would wait for itself."
OUTSIDE_UNIT = "There is no transaction here: only a running unit of work is part of one."

log = logging.getLogger(__name__)

T = TypeVar("T")


class Committer(Protocol):
    """A committer: runs units of work in transactions."""

    @property
    def commits(self) -> int:
        """Return the number of committed transactions. Units per commit shows what group commit saves."""
        ...

    def submit(self, work: Work[T], *, savepoint: bool = True) -> CommitFuture[T]:
        """Queue a unit of work. Its future completes once its transaction is on disk."""
        ...

    def batch(self) -> Batch:
        """Return the transaction of the unit of work that is running."""
        ...

    def close(self) -> None:
        """Finish the accepted work and refuse new work."""
        ...

    def after_fork_in_child(self) -> None:
        """Refuse all further work: this is a forked child."""
        ...


class GroupCommitter:
    """The committer of a file: one thread, one writing connection, many units of work per transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        write_lock: WriteLock,
        files: StoreFiles,
        *,
        path: str,
        version: int,
        tuning: Tuning,
    ) -> None:
        self._connection, self._write_lock, self._files, self._path = connection, write_lock, files, path
        self._version, self._units_max, self._lock_hold_s_max = (
            version,
            tuning.units_max,
            tuning.lock_hold_ms_max / 1000,
        )
        self._checkpoints = Checkpoints(connection, write_lock, files, path=path, tuning=tuning)
        self._queue: deque[Unit] = deque()
        self._submit_lock, self._refusal = threading.Lock(), ""
        self._wakeup, self._wake_at_units, self._expected_units = threading.Lock(), NEVER, 1
        self._batch: Batch | None = None
        self._commits = 0
        self._thread = threading.Thread(target=self._run, name=f"committer of {path}", daemon=True)
        self._thread.start()
        self._thread_id = self._thread.ident

    @property
    def commits(self) -> int:
        return self._commits

    def submit(self, work: Work[T], *, savepoint: bool = True) -> CommitFuture[T]:
        """Queue a unit of work. Raise `StoreClosed` after `close`, `InternalError` inside a unit of work."""
        if threading.get_ident() == self._thread_id:
            raise InternalError(NESTED_UNIT)
        future: CommitFuture[T] = CommitFuture()
        with self._submit_lock:
            if self._refusal:
                raise StoreClosed(self._refusal)
            self._queue.append((work, future, savepoint))
        if len(self._queue) >= self._wake_at_units:
            self._wake()
        return future

    def batch(self) -> Batch:
        """Return the running transaction. Raise `InternalError` outside a unit of work."""
        if self._batch is None or threading.get_ident() != self._thread_id:
            raise InternalError(OUTSIDE_UNIT)
        return self._batch

    def close(self) -> None:
        """Refuse new work, finish the queued work and move it from the log into the file."""
        with self._submit_lock:
            self._refusal = self._refusal or f"{self._path} was closed."
        self._wake()
        self._thread.join()
        self._checkpoints.truncate_log()

    def after_fork_in_child(self) -> None:
        """Refuse all further work: the thread is in the parent."""
        self._submit_lock, self._refusal = threading.Lock(), FORKED.format(path=self._path)

    def _run(self) -> None:
        """Gather and commit until closed. Runs in the thread."""
        try:
            while self._gather():
                self._commit_once()
        finally:
            self._refuse_queued_work()

    def _gather(self) -> bool:
        """Wait until there is enough work for a transaction.

        Return False once closed with nothing left to do.
        """
        while not self._queue:
            if self._refusal:
                return False
            quiet_s = self._checkpoints.quiet_s
            self._sleep_until_queued(1, WATCH_S if quiet_s is None else quiet_s)
            if not self._queue and not self._refusal:
                self._checkpoints.truncate_log() if quiet_s is not None else self._watch_files()
        deadline, before = perf_counter() + MAX_GATHER_S, 0
        while before < len(self._queue) < self._expected_units and perf_counter() < deadline:
            before = len(self._queue)
            self._sleep_until_queued(self._expected_units, GATHER_IDLE_S)
        return True

    def _watch_files(self) -> None:
        """Inspect files that have changed since the last commit, so that readers learn of a loss."""
        if self._files.is_lost or self._files.is_unchanged():
            return
        try:
            with self._write_lock:
                self._files.require_same(self._connection)
        except StoreBusy:
            pass  # Another process writes: the next watch, or the next write, inspects the files.
        except Exception:
            log.exception("%s was changed by another program.", self._path)

    def _sleep_until_queued(self, units: int, timeout_s: float) -> None:
        """Sleep until this many units are queued, the timeout is over, or the committer closes."""
        # A submitter appends and then reads `_wake_at_units`; this thread sets `_wake_at_units` and then
        # reads the queue. One of the two always notices, so a submitter wakes only a committer that waits.
        self._wakeup.acquire(blocking=False)
        self._wake_at_units = units
        if len(self._queue) < units and not self._refusal:
            self._wakeup.acquire(timeout=timeout_s)
        self._wake_at_units = NEVER

    def _wake(self) -> None:
        """Wake the committer's thread if it sleeps."""
        if self._wakeup.locked():
            try:
                self._wakeup.release()
            except RuntimeError:
                # Another submitter woke it at the same moment.
                return

    def _commit_once(self) -> None:
        """Run queued units in one transaction, publish their outcomes, and checkpoint if that is due."""
        batch = self._run_batch(self._queue)
        if batch.is_damaged:
            # One unit met a damaged page, for which SQLite rolls everything back: run each unit alone.
            for unit in batch.units:
                self._run_batch(deque([unit]), is_retry=True)
        self._expected_units = min(len(batch.futures) + len(self._queue), self._units_max)
        complete_all(batch.futures)
        self._checkpoints.run_if_due()

    def _run_batch(self, queue: deque[Unit], *, is_retry: bool = False) -> Batch:
        """Run units of the queue in one transaction and set their outcomes."""
        batch = self._batch = Batch(self._connection, self._path, is_retry=is_retry)
        try:
            with self._write_lock:
                self._transact(batch, queue)
            self._commits += 1
        except BaseException as error:
            self._fail_batch(batch, error)
        else:
            batch.run_callbacks()
        self._batch = None
        return batch

    def _transact(self, batch: Batch, queue: deque[Unit]) -> None:
        """Run queued units until the queue is empty or a limit on units or time is reached, then commit.

        First raise `StoreFileError` if the file was migrated meanwhile; at last, before any submitter is
        notified, if the file or its log was deleted, replaced or truncated.
        """
        self._files.begin_commit(self._connection)
        batch.begin()
        check_version(self._connection, self._version, self._path)
        deadline = perf_counter() + self._lock_hold_s_max
        # Work that is submitted while the units run still joins this transaction.
        while queue and len(batch.futures) < self._units_max:
            unit = queue.popleft()
            batch.units.append(unit)
            work, future, savepoint = unit
            batch.run(work, future, savepoint=savepoint)
            if perf_counter() > deadline:
                break
        self._checkpoints.committed_frames = 0
        batch.commit()
        self._files.confirm_commit(self._connection, self._checkpoints.committed_frames)

    def _fail_batch(self, batch: Batch, error: BaseException) -> None:
        """Roll back and fail every unit of the batch, or all queued units if none had started."""
        if not batch.futures:
            # The write lock was not acquired or no transaction began: the queued submitters have waited the
            # maximum time, so fail them.
            batch.futures.extend(self._drain_queue())
        batch.roll_back(error)

    def _drain_queue(self) -> list[CommitFuture[Any]]:
        """Empty the queue and return the futures of its units."""
        return [self._queue.popleft()[1] for _ in range(len(self._queue))]

    def _refuse_queued_work(self) -> None:
        """Refuse queued work. The queue is empty after `close`, but not if a bug ended this thread."""
        with self._submit_lock:
            self._refusal = self._refusal or f"The committer of {self._path} stopped: please report this bug."
            left = self._drain_queue() + (self._batch.futures if self._batch else [])
        for future in left:
            future.set_outcome(None, StoreClosed(self._refusal))
        complete_all(left)
