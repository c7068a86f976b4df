"""The reading connections of a SQLite database, separate from the committer's writing connection.

A file has one connection per reading thread, closed when the thread ends. A database in memory has a single
connection for everything, protected by a lock. Both offer the same ways to read:

    reader()            one statement whose rows are fetched at once: the cheapest
    read_connection()   any statements; the driver's errors are mapped to Holdfast's
    read_unverified()   the same without the checksums of pages: the caller checks each row itself
    snapshot()          any statements, and all see one state of the database
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

import apsw

from holdfast.core.errors import HoldfastError, RowsDropped, StoreClosed
from holdfast.stores.sqlite.connections import Tuning, open_reader
from holdfast.stores.sqlite.errors import map_error
from holdfast.stores.sqlite.forks import FORKED


class Rows(Protocol):
    """The rows of one statement.

    Do not keep them: open rows of a file stop the write-ahead log from restarting.
    """

    @property
    def get(self) -> Any:
        """Return None, one row or a list of rows; a row of one column is its value."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None after the last."""
        ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Reader(Protocol):
    """A connection that runs one statement at a time."""

    def execute(self, statements: str, bindings: Any = None) -> Rows:
        """Run the statements and return the rows of the last one."""
        ...


class Readers(Protocol):
    """The readers of a database: the ways to read are described at the top of this module."""

    def reader(self) -> Reader:
        """Return the connection for single statements whose rows are fetched at once."""
        ...

    def read_connection(self) -> AbstractContextManager[apsw.Connection]:
        """Return a context for any statements that maps the driver's errors."""
        ...

    def read_unverified(self) -> AbstractContextManager[apsw.Connection]:
        """Return such a context whose connection does not compare the checksums of pages."""
        ...

    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Return a context in which all statements see one state of the database."""
        ...

    def close(self) -> None:
        """Close the connections; later reads raise `StoreClosed`."""
        ...

    def connections(self) -> list[apsw.Connection]:
        """Return all open connections, for `forks.py`."""
        ...

    def after_fork_in_child(self) -> None:
        """Refuse all further reads: this is a forked child."""
        ...


class ThreadReaders:
    """The readers of a file, one per thread."""

    def __init__(self, path: str, tuning: Tuning) -> None:
        self._path, self._tuning = path, tuning
        # Each raises an error: if the file at the path is not the open one, and if it ends within a page. Set
        # once that was opened.
        self.require_current: Callable[[], None] = lambda: None
        self.require_whole_pages: Callable[[], None] = lambda: None
        self._thread_local = threading.local()
        self._lock = threading.Lock()
        self._open_connections: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._refusal: HoldfastError | None = None

    def reader(self) -> apsw.Connection:
        """Return this thread's connection, opened at its first read."""
        try:
            return self._thread_local.connection  # type: ignore[no-any-return]
        except AttributeError:
            return self._connect()

    def read_connection(self) -> AbstractContextManager[apsw.Connection]:
        """Return this thread's context for any statements, with its connection opened at the first read."""
        try:
            return self._thread_local.read_context  # type: ignore[no-any-return]
        except AttributeError:
            self._connect()
            return self._thread_local.read_context  # type: ignore[no-any-return]

    def read_unverified(self) -> AbstractContextManager[apsw.Connection]:
        """Return this thread's context without checksums, with its connection opened at the first read."""
        try:
            return self._thread_local.unverified_context  # type: ignore[no-any-return]
        except AttributeError:
            context = ReadContext(self._open(verify=False), self._path, self._check_files)
            self._thread_local.unverified_context = context
            return context

    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Return a context in which all statements see the state of the first one."""
        self.require_whole_pages()
        return Snapshot(self.reader(), self._path, self._check_files)

    def close(self) -> None:
        """Close all connections. One that a thread is reading from closes when the read ends."""
        self.refuse(StoreClosed(f"{self._path} was closed."))

    def refuse(self, error: HoldfastError) -> None:
        """Close all connections and make every further read raise this error."""
        with self._lock:
            self._refusal = error
            self._thread_local = threading.local()
            connections = list(self._open_connections)
        for connection in connections:
            try:
                connection.close()
            except apsw.ThreadingViolationError:
                # A thread is reading now. It holds the last reference, and the connection closes with it.
                continue

    def connections(self) -> list[apsw.Connection]:
        with self._lock:
            return list(self._open_connections)

    def after_fork_in_child(self) -> None:
        self._lock, self._thread_local = threading.Lock(), threading.local()
        self._refusal = StoreClosed(FORKED.format(path=self._path))

    def _connect(self) -> apsw.Connection:
        """Open a connection and remember it for this thread."""
        connection = self._open(verify=True)
        self._thread_local.connection = connection
        self._thread_local.read_context = ReadContext(connection, self._path, self._check_files)
        return connection

    def _check_files(self) -> None:
        """Raise an error if the file at the path is not the open one."""
        self.require_current()

    def _open(self, *, verify: bool) -> apsw.Connection:
        """Open a connection for this thread. Raise `StoreClosed` after `close`, or the error of `refuse`."""
        self.require_current()
        with self._lock:
            if self._refusal is not None:
                raise type(self._refusal)(self._refusal.message)
            try:
                connection = open_reader(self._path, self._tuning, verify=verify)
            except apsw.Error as error:
                raise map_error(error, self._path) from error
            self._open_connections.add(connection)
        self.require_current()
        return connection


class ReadContext:
    """A context for any statements that maps the driver's errors.

    A thread reuses one object, so that entering it costs almost nothing. `check_files` is called before a
    missing table is reported: a file that was cut to nothing has no tables either.
    """

    __slots__ = ("_check_files", "_connection", "_path")

    def __init__(
        self, connection: apsw.Connection, path: str, check_files: Callable[[], None] = lambda: None
    ) -> None:
        self._connection, self._path, self._check_files = connection, path, check_files

    def __enter__(self) -> apsw.Connection:
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, apsw.Error):
            ours = map_error(error, self._path)
            if isinstance(ours, RowsDropped):
                self._check_files()
            raise ours from error


class Snapshot(ReadContext):
    """A read transaction. Inside an open transaction it shows that transaction's view."""

    __slots__ = ("_has_begun",)

    def __enter__(self) -> apsw.Connection:
        try:
            self._has_begun = not self._connection.in_transaction
            if self._has_begun:
                self._connection.execute("BEGIN")
        except apsw.Error as error:
            raise map_error(error, self._path) from error
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # SQLite ends the transaction itself after some errors.
            if self._has_begun and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error as failure:
            # Most likely the connection was closed meanwhile. An earlier error is more useful.
            if error is None:
                raise map_error(failure, self._path) from failure
        super().__exit__(kind, error, trace)
