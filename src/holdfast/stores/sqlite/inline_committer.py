"""The committer of a database in memory: it commits each unit of work at once, in the submitting thread.

There is no disk to wait for. The guarantees are those of `committer.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, TypeVar

import apsw

from holdfast.core.errors import InternalError, StoreClosed
from holdfast.stores.sqlite.batch import Batch, Work
from holdfast.stores.sqlite.committer import NESTED, NOT_IN_A_UNIT
from holdfast.stores.sqlite.forks import FORKED
from holdfast.stores.sqlite.receipts import Receipt, announce

T = TypeVar("T")


class InlineCommitter:
    def __init__(self, connection: apsw.Connection, lock: AbstractContextManager[Any], *, path: str) -> None:
        self._connection, self._lock, self._path = connection, lock, path
        self._refusal = ""
        self._batch: Batch | None = None
        self._commits = 0

    @property
    def commits(self) -> int:
        return self._commits

    def submit(self, work: Work[T], *, savepoint: bool = True) -> Receipt[T]:
        receipt: Receipt[T] = Receipt()
        with self._lock:
            if self._batch is not None:
                raise InternalError(NESTED)
            if self._refusal:
                raise StoreClosed(self._refusal)
            self._commit(work, receipt)
        return receipt

    def batch(self) -> Batch:
        with self._lock:
            if self._batch is None:
                raise InternalError(NOT_IN_A_UNIT)
            return self._batch

    def close(self) -> None:
        with self._lock:
            self._refusal = self._refusal or f"{self._path} was closed."

    def after_fork_in_child(self) -> None:
        self._refusal = FORKED.format(path=self._path)

    def _commit(self, work: Work[T], receipt: Receipt[T]) -> None:
        batch = self._batch = Batch(self._connection, self._path)
        try:
            batch.begin()
            batch.run(work, receipt, savepoint=True)
            batch.commit()
            self._commits += 1
        except BaseException as error:
            batch.receipts[:] = [receipt]
            batch.roll_back(error)
        else:
            batch.run_callbacks()
        finally:
            self._batch = None
        announce(batch.receipts)
