"""Group commit: all waiting units of work share one transaction and its one fsync.

    submit → queue → [gather → turn → BEGIN → units → COMMIT] → callbacks → receipts → checkpoint

`GroupCommitter` owns the writing connection of a file and one thread. `inline_committer.py` gives the same
guarantees for a database in memory.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from time import perf_counter
from typing import Any, Protocol, TypeVar

import apsw

from holdfast.core.errors import InternalError, StoreClosed, StoreFileError
from holdfast.stores.sqlite.batch import Batch, Work
from holdfast.stores.sqlite.checkpoints import Checkpoints
from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.forks import FORKED
from holdfast.stores.sqlite.receipts import Receipt, announce
from holdfast.stores.sqlite.schema import check_version
from holdfast.stores.sqlite.turn import Turn

# After a commit its submitters usually submit their next write. The committer waits while more writes keep
# arriving; it never waits for a single writer.
GATHER_QUIET_S = 0.0004
GATHER_S_MAX = 0.005
NEVER = sys.maxsize
NESTED = "a unit of work must not submit another: it would wait for itself"
NOT_IN_A_UNIT = "only a unit of work, while it runs, is part of a transaction"

T = TypeVar("T")


class Committer(Protocol):
    @property
    def commits(self) -> int:
        """Return the number of committed transactions. Units per commit shows what group commit saves."""
        ...

    def submit(self, work: Work[T], *, savepoint: bool = True) -> Receipt[T]:
        """Queue a unit of work. Its receipt completes once its transaction is on disk."""
        ...

    def batch(self) -> Batch:
        """Return the transaction of the unit of work that is running."""
        ...

    def close(self) -> None:
        """Finish the accepted work and refuse new work."""
        ...

    def after_fork_in_child(self) -> None: ...


def file_identity(path: str) -> tuple[int, int]:
    """Return the device and inode of a file, which change if the file at this path is replaced."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


class GroupCommitter:
    def __init__(
        self, connection: apsw.Connection, turn: Turn, *, path: str, version: int, tuning: Tuning
    ) -> None:
        self._connection, self._turn, self._path = connection, turn, path
        self._version, self._units_max, self._turn_s_max = (
            version,
            tuning.units_max,
            tuning.turn_ms_max / 1000,
        )
        self._identity = file_identity(path)
        self._checkpoints = Checkpoints(connection, turn, path=path, tuning=tuning)
        self._queue: deque[tuple[Work[Any], Receipt[Any], bool]] = deque()
        self._gate, self._refusal = threading.Lock(), ""
        self._bell, self._wanted, self._expected = threading.Lock(), NEVER, 1
        self._batch: Batch | None = None
        self._commits = 0
        self._thread = threading.Thread(target=self._run, name=f"committer of {path}", daemon=True)
        self._thread.start()
        self._thread_id = self._thread.ident

    @property
    def commits(self) -> int:
        return self._commits

    def submit(self, work: Work[T], *, savepoint: bool = True) -> Receipt[T]:
        if threading.get_ident() == self._thread_id:
            raise InternalError(NESTED)
        receipt: Receipt[T] = Receipt()
        with self._gate:
            if self._refusal:
                raise StoreClosed(self._refusal)
            self._queue.append((work, receipt, savepoint))
        if len(self._queue) >= self._wanted:
            self._ring()
        return receipt

    def batch(self) -> Batch:
        if self._batch is None or threading.get_ident() != self._thread_id:
            raise InternalError(NOT_IN_A_UNIT)
        return self._batch

    def close(self) -> None:
        with self._gate:
            self._refusal = self._refusal or f"{self._path} was closed."
        self._ring()
        self._thread.join()

    def after_fork_in_child(self) -> None:
        self._gate, self._refusal = threading.Lock(), FORKED.format(path=self._path)

    def _run(self) -> None:
        try:
            while self._gather():
                self._commit_once()
        finally:
            self._refuse_the_rest()

    def _gather(self) -> bool:
        """Wait until there is enough work for a transaction. Return False once closed with nothing left to
        do.
        """
        while not self._queue:
            if self._refusal:
                return False
            quiet_s = self._checkpoints.quiet_s
            self._sleep_until_queued(1, -1 if quiet_s is None else quiet_s)
            if quiet_s is not None and not self._queue and not self._refusal:
                self._checkpoints.empty()
        deadline, before = perf_counter() + GATHER_S_MAX, 0
        while before < len(self._queue) < self._expected and perf_counter() < deadline:
            before = len(self._queue)
            self._sleep_until_queued(self._expected, GATHER_QUIET_S)
        return True

    def _sleep_until_queued(self, wanted: int, timeout_s: float) -> None:
        # A submitter appends and then looks at `_wanted`; this side sets `_wanted` and then looks at the
        # queue. One of the two always notices, so a submitter rings only when the committer waits.
        self._bell.acquire(blocking=False)
        self._wanted = wanted
        if len(self._queue) < wanted and not self._refusal:
            self._bell.acquire(timeout=timeout_s)
        self._wanted = NEVER

    def _ring(self) -> None:
        if self._bell.locked():
            try:
                self._bell.release()
            except RuntimeError:
                # Another submitter rang at the same moment.
                return

    def _commit_once(self) -> None:
        batch = self._batch = Batch(self._connection, self._path)
        try:
            with self._turn:
                self._transact(batch)
            self._commits += 1
        except BaseException as error:
            self._give_up(batch, error)
        else:
            batch.run_callbacks()
        self._batch = None
        self._expected = min(len(batch.receipts) + len(self._queue), self._units_max)
        announce(batch.receipts)
        self._checkpoints.run_if_due()

    def _transact(self, batch: Batch) -> None:
        batch.begin()
        check_version(self._connection, self._version, self._path)
        self._check_still_there()
        deadline = perf_counter() + self._turn_s_max
        # Work that is submitted while the units run still joins this transaction.
        while self._queue and len(batch.receipts) < self._units_max:
            work, receipt, savepoint = self._queue.popleft()
            batch.run(work, receipt, savepoint=savepoint)
            if perf_counter() > deadline:
                break
        batch.commit()

    def _check_still_there(self) -> None:
        """Raise if the file was deleted or replaced: it would still accept writes, and they would be lost."""
        try:
            found = file_identity(self._path)
        except OSError:
            found = None
        if found != self._identity:
            raise StoreFileError(
                f"{self._path} was deleted, moved or replaced while it was open, so nothing more can be kept "
                "in it. "
                "Put it back and restart, or restart with another path."
            )

    def _give_up(self, batch: Batch, error: BaseException) -> None:
        if not batch.receipts:
            # No turn or no transaction could be had: the queued submitters have waited the maximum time, so
            # fail them.
            batch.receipts.extend(self._taken_from_queue())
        batch.roll_back(error)

    def _taken_from_queue(self) -> list[Receipt[Any]]:
        return [self._queue.popleft()[1] for _ in range(len(self._queue))]

    def _refuse_the_rest(self) -> None:
        """Refuse queued work. The queue is empty after `close`, but not if a bug ended this thread."""
        with self._gate:
            self._refusal = self._refusal or f"The committer of {self._path} stopped: please report this."
            left = self._taken_from_queue() + (self._batch.receipts if self._batch else [])
        for receipt in left:
            receipt.keep(None, StoreClosed(self._refusal))
        announce(left)
