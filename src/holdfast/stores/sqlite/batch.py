"""One transaction of the committer: units of work, each in its own savepoint, and the callbacks of the
commit.

A unit that raises is rolled back alone, and its `after_commit` callbacks are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from holdfast.stores.sqlite.failures import mapped, mapped_for_all
from holdfast.stores.sqlite.receipts import Receipt

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]

log = logging.getLogger(__name__)


class Batch:
    """One transaction. `shared` belongs to the store: it holds state that the units of the transaction
    share.
    """

    __slots__ = ("_callbacks", "_connection", "_last_words", "_path", "receipts", "shared")

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self._callbacks: list[Callable[[], None]] = []
        self._last_words: list[Callable[[], None]] = []
        self.receipts: list[Receipt[Any]] = []
        self.shared: Any = None

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        for callback in self._last_words:
            callback()
        self._connection.execute("COMMIT")

    def run(self, work: Work[T], receipt: Receipt[T], *, savepoint: bool) -> None:
        """Run one unit of work. Raise only if the whole transaction, with its other units, must be rolled
        back.
        """
        self.receipts.append(receipt)
        if savepoint:
            self._run_in_savepoint(work, receipt)
        else:
            self._run_bare(work, receipt)

    def _run_in_savepoint(self, work: Work[T], receipt: Receipt[T]) -> None:
        callbacks_before, last_words_before = len(self._callbacks), len(self._last_words)
        self._connection.execute("SAVEPOINT unit")
        try:
            receipt.keep(work(self._connection), None)
        except BaseException as error:
            if not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO unit")
            del self._callbacks[callbacks_before:]
            if len(self._last_words) > last_words_before:
                del self._last_words[last_words_before:]
                self.shared = None
            receipt.keep(None, mapped(_without_this_frame(error), self._path))
        self._connection.execute("RELEASE unit")

    def _run_bare(self, work: Work[T], receipt: Receipt[T]) -> None:
        """Run a unit that raises only before its first write. Nothing has to be undone, so it needs no
        savepoint.
        """
        changes_before = self._connection.total_changes()
        try:
            receipt.keep(work(self._connection), None)
        except BaseException as error:
            if self._connection.total_changes() != changes_before or not self._connection.in_transaction:
                raise
            receipt.keep(None, mapped(_without_this_frame(error), self._path))

    def before_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` inside the transaction, after its last unit. If it raises, the transaction is
        rolled back.
        """
        self._last_words.append(callback)

    def after_commit(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def roll_back(self, error: BaseException) -> None:
        """Roll back and fail every unit, refused ones too: a refusal was based on rows that no longer
        exist.
        """
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:
            log.exception("rolling back %s failed", self._path)
        for receipt in self.receipts:
            receipt.keep(None, mapped_for_all(error, self._path))

    def run_callbacks(self) -> None:
        for callback in self._callbacks:
            try:
                callback()
            except Exception:
                # The commit succeeded, and that is what the submitter must see.
                log.exception("what was to follow a commit of %s failed", self._path)


def _without_this_frame(error: BaseException) -> BaseException:
    """Return the error without this frame, which would create a cycle between the error and its receipt."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next
    return error
