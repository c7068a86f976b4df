"""The committer of a database in memory: commits each unit of work at once, in the submitting thread.

It does not wait for a disk. Its guarantees are those of `committer.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import apsw

from holdfast.core.errors import InternalError, StoreClosed
from holdfast.stores.sqlite.batch import Batch, Work
from holdfast.stores.sqlite.commit_futures import CommitFuture, complete_all
from holdfast.stores.sqlite.committer import NESTED_UNIT, OUTSIDE_UNIT
from holdfast.stores.sqlite.forks import FORKED

T = TypeVar("T")


class InlineCommitter:
    """The committer of a database in memory. Readers and submitters share its lock."""

    def __init__(self, connection: apsw.Connection, lock: AbstractContextManager[Any], *, path: str) -> None:
        self._connection, self._lock, self._path = connection, lock, path
        self._refusal = ""
        self._batch: Batch | None = None
        self._commits = 0

    @property
    def commits(self) -> int:
        return self._commits

    def submit(self, work: Work[T], *, savepoint: bool = True) -> CommitFuture[T]:
        """Run and commit a unit of work before returning. `savepoint` is ignored."""
        future: CommitFuture[T] = CommitFuture()
        with self._lock:
            if self._batch is not None:
                raise InternalError(NESTED_UNIT)
            if self._refusal:
                raise StoreClosed(self._refusal)
            self._commit(work, future)
        return future

    def batch(self) -> Batch:
        """Return the running transaction. Raise `InternalError` outside a unit of work."""
        with self._lock:
            if self._batch is None:
                raise InternalError(OUTSIDE_UNIT)
            return self._batch

    def close(self) -> None:
        """Refuse new work."""
        with self._lock:
            self._refusal = self._refusal or f"{self._path} was closed."

    def after_fork_in_child(self) -> None:
        self._refusal = FORKED.format(path=self._path)

    def _commit(self, work: Work[T], future: CommitFuture[T]) -> None:
        """Run the unit in a transaction of its own and publish its outcome."""
        batch = self._batch = Batch(self._connection, self._path)
        try:
            batch.begin()
            batch.run(work, future, savepoint=True)
            batch.commit()
            self._commits += 1
        except BaseException as error:
            batch.futures[:] = [future]
            batch.roll_back(error)
        else:
            batch.run_callbacks()
        finally:
            self._batch = None
        complete_all(batch.futures)
