"""The reader of a database in memory: its only connection, used by one thread at a time.

The committer uses the same lock, so no reader sees a unit of work that is not yet committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import apsw

from holdfast.core.errors import StoreClosed
from holdfast.stores.sqlite.forks import FORKED
from holdfast.stores.sqlite.readers import ReadContext, Reader, Snapshot


class SharedReader:
    """The only reader of a database in memory."""

    def __init__(self, connection: apsw.Connection, lock: AbstractContextManager[Any], path: str) -> None:
        self._connection, self._lock, self._path = connection, lock, path
        self._refusal = ""

    def reader(self) -> Reader:
        """Return itself: `execute` runs a statement under the lock."""
        self._require_open()
        return self

    def read_connection(self) -> AbstractContextManager[apsw.Connection]:
        """Return a context for any statements that holds the lock."""
        self._require_open()
        return _LockedContext(ReadContext(self._connection, self._path), self._lock)

    def read_unverified(self) -> AbstractContextManager[apsw.Connection]:
        """Return the same context: memory has no checksums."""
        return self.read_connection()

    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Return a read transaction that holds the lock."""
        self._require_open()
        return _LockedContext(Snapshot(self._connection, self._path), self._lock)

    def execute(self, statements: str, bindings: Any = None) -> FetchedRows:
        """Run one statement under the lock and return all of its rows."""
        with self._lock:
            return FetchedRows(self._connection.execute(statements, bindings).fetchall())

    def close(self) -> None:
        self._refusal = f"{self._path} was closed."

    def connections(self) -> list[apsw.Connection]:
        return [self._connection]

    def after_fork_in_child(self) -> None:
        self._refusal = FORKED.format(path=self._path)

    def _require_open(self) -> None:
        """Raise `StoreClosed` after `close` or in a forked child."""
        if self._refusal:
            raise StoreClosed(self._refusal)


class FetchedRows:
    """Rows that were read while the lock was held, with the driver's methods to fetch them."""

    def __init__(self, rows: list[Any]) -> None:
        self._remaining = iter(rows)

    @property
    def get(self) -> Any:
        """Return None, one row or a list of rows, as the driver does; a row of one column is its value."""
        rows = [row[0] if len(row) == 1 else row for row in self._remaining]
        return None if not rows else rows[0] if len(rows) == 1 else rows

    def fetchone(self) -> Any:
        return next(self._remaining, None)

    def fetchall(self) -> list[Any]:
        return list(self._remaining)

    def __iter__(self) -> Iterator[Any]:
        return self._remaining


class _LockedContext:
    """A read context that holds the lock from entry to exit."""

    def __init__(self, context: ReadContext, lock: AbstractContextManager[Any]) -> None:
        self._context, self._lock = context, lock

    def __enter__(self) -> apsw.Connection:
        self._lock.__enter__()
        try:
            return self._context.__enter__()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._context.__exit__(kind, error, trace)
        finally:
            self._lock.__exit__(None, None, None)
