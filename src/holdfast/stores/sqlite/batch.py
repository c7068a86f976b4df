"""One transaction of the committer: its units of work, each in its own savepoint, and its commit callbacks.

A unit that raises is rolled back alone, and its `after_commit` callbacks are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.core.errors import DataDamaged
from holdfast.stores.sqlite.checksums import is_checksum_error
from holdfast.stores.sqlite.commit_futures import CommitFuture
from holdfast.stores.sqlite.errors import find_failure, map_error, map_error_for_submitter

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
Unit: TypeAlias = tuple[Work[Any], CommitFuture[Any], bool]
"""A unit of work, the future of its result, and whether it needs a savepoint."""

log = logging.getLogger(__name__)


class Batch:
    """One transaction.

    `shared` belongs to the store: it holds state that the units of the transaction share.
    """

    __slots__ = (
        "_after_commit_callbacks",
        "_connection",
        "_before_commit_callbacks",
        "_path",
        "futures",
        "is_damaged",
        "is_retry",
        "shared",
        "units",
    )

    def __init__(self, connection: apsw.Connection, path: str, *, is_retry: bool = False) -> None:
        """`is_retry` says that its only unit was in a transaction that met a damaged page."""
        self._connection, self._path, self.is_retry = connection, path, is_retry
        self._after_commit_callbacks: list[Callable[[], None]] = []
        self._before_commit_callbacks: list[Callable[[], None]] = []
        self.futures: list[CommitFuture[Any]] = []
        self.units: list[Unit] = []
        self.is_damaged = False
        self.shared: Any = None

    def begin(self) -> None:
        """Begin the transaction with SQLite's write lock."""
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Run the `before_commit` callbacks and commit; `run_callbacks` runs those of `after_commit`."""
        for callback in self._before_commit_callbacks:
            callback()
        self._connection.execute("COMMIT")

    def run(self, work: Work[T], future: CommitFuture[T], *, savepoint: bool) -> None:
        """Run one unit of work and set its future's outcome.

        Raise only if the whole transaction must be rolled back.
        """
        self.futures.append(future)
        if savepoint:
            self._run_in_savepoint(work, future)
        else:
            self._run_without_savepoint(work, future)

    def _run_in_savepoint(self, work: Work[T], future: CommitFuture[T]) -> None:
        """Run a unit; if it raises, roll back to its savepoint and drop its callbacks."""
        after_count, before_count = len(self._after_commit_callbacks), len(self._before_commit_callbacks)
        self._connection.execute("SAVEPOINT unit")
        try:
            future.set_outcome(work(self._connection), None)
        except BaseException as error:
            if not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO unit")
            del self._after_commit_callbacks[after_count:]
            if len(self._before_commit_callbacks) > before_count:
                del self._before_commit_callbacks[before_count:]
                self.shared = None
            future.set_outcome(None, map_error(_strip_first_frame(error), self._path))
        self._connection.execute("RELEASE unit")

    def _run_without_savepoint(self, work: Work[T], future: CommitFuture[T]) -> None:
        """Run a unit that raises only before its first write: it has nothing to undo and needs no
        savepoint.
        """
        changes_before = self._connection.total_changes()
        try:
            future.set_outcome(work(self._connection), None)
        except BaseException as error:
            if self._connection.total_changes() != changes_before or not self._connection.in_transaction:
                raise
            future.set_outcome(None, map_error(_strip_first_frame(error), self._path))

    def before_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` inside the transaction, after its last unit.

        If it raises, the transaction is rolled back.
        """
        self._before_commit_callbacks.append(callback)

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the transaction is committed."""
        self._after_commit_callbacks.append(callback)

    def roll_back(self, error: BaseException) -> None:
        """Roll back and fail every unit, also refused ones: a refusal was based on rows that no longer
        exist.
        """
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:
            log.exception("Rollback of %s failed.", self._path)
        self.is_damaged = _is_damage(error)
        for future in self.futures:
            future.set_outcome(None, map_error_for_submitter(error, self._path))

    def run_callbacks(self) -> None:
        """Run the `after_commit` callbacks; log and ignore their errors."""
        for callback in self._after_commit_callbacks:
            try:
                callback()
            except Exception:
                # The commit succeeded, so the submitter must not get this error.
                log.exception("A callback after a commit of %s failed.", self._path)


def _is_damage(error: BaseException) -> bool:
    """Return whether the transaction met a damaged page or row."""
    failure = find_failure(error) if isinstance(error, apsw.Error) else error
    return isinstance(error, DataDamaged) or is_checksum_error(failure)


def _strip_first_frame(error: BaseException) -> BaseException:
    """Return the error without its first frame, which would create a cycle between the error and its
    future.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
    return error
