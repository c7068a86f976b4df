"""A transaction that waits for its caller between statements, on a connection of its own.

It always returns the connection. The caller's task may be cancelled while a statement runs in a thread: the
statement is then interrupted, and the transaction rolled back when the thread has finished. A task that is
cancelled during its commit waits until the commit is decided: what was committed is visible when the task
ends, and never appears later.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, TypeVar

import psycopg

from holdfast.core.errors import HoldfastError, InvalidRequest, OutcomeUnknown, StoreClosed, StoreUnreachable
from holdfast.operations.sql import Statement, StatementResult
from holdfast.stores.sql.postgres import execution, values
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.errors import ConnectionLost

T = TypeVar("T")

MAX_INTERRUPT_S: Final = 5.0


class Transaction:
    """One open transaction, which any task of its caller may use, one at a time.

    `release` takes the connection back.
    """

    def __init__(
        self, connection: Connection, threads: Executor, release: Callable[[Connection], None]
    ) -> None:
        self._connection: Connection | None = connection
        self._threads, self._release = threads, release
        # One request at a time on the connection, whichever task sends it.
        self._lock = threading.Lock()
        # No task occupies a thread while it waits for another task's statement.
        self._task_lock = asyncio.Lock()
        self._is_failed = False

    async def run(self, statement: Statement) -> StatementResult:
        """Run one statement in a thread. After an error, the transaction runs no more statements."""
        values.check(statement)
        async with self._task_lock:
            return await self._run_in_thread(lambda: self._run(statement))

    async def commit(self) -> None:
        """Commit and return the connection.

        If the task is cancelled meanwhile, wait until the commit is decided.
        """
        future = self._run_in_thread(self._commit)
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            await _wait_until_done(future)
            raise

    async def roll_back(self) -> None:
        """Roll back, also within a cancelled task. If it is cancelled again, the thread still finishes."""
        # A closed engine has rolled it back.
        with suppress(StoreClosed):
            await asyncio.shield(self._run_in_thread(self._roll_back))

    def abandon(self) -> None:
        """Drop the transaction of a closing engine. PostgreSQL rolls back when the connection is lost."""
        connection = self._connection
        if self._lock.locked():
            self._interrupt()
        if connection is not None:
            connection.abort()
        with self._lock:
            self._release_connection()

    def _run_in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run the work in a thread of the engine. Raise `StoreClosed` if the engine was closed."""
        try:
            return asyncio.wrap_future(self._threads.submit(work))
        except RuntimeError as error:
            raise StoreClosed("The SQL store was closed.") from error

    def _run(self, statement: Statement) -> StatementResult:
        """Run the statement in this thread; raise `InvalidRequest` if an earlier one failed."""
        with self._lock:
            connection = self._get_connection()
            if self._is_failed:
                raise InvalidRequest(
                    "A statement of this transaction failed, so it runs no more: leave it, and begin another."
                )
            try:
                return execution.run_in_transaction(connection, statement)
            except ConnectionLost as lost:
                self._is_failed = True
                raise _build_rolled_back(lost) from None
            except BaseException:
                self._is_failed = True
                raise

    def _commit(self) -> None:
        """Commit in this thread and return the connection.

        Raise `OutcomeUnknown` if the confirmation was lost.
        """
        with self._lock:
            connection = self._get_connection()
            try:
                if self._is_failed:
                    raise InvalidRequest(
                        "A statement of this transaction failed, so it was rolled back: let the statement's "
                        "error end the transaction."
                    )
                execution.commit(connection)
            except ConnectionLost as lost:
                raise (
                    _build_outcome_unknown(lost) if lost.may_be_done else _build_rolled_back(lost)
                ) from None
            finally:
                self._release_connection()

    def _roll_back(self) -> None:
        """Interrupt a running statement, roll back in this thread and return the connection."""
        if not self._lock.acquire(blocking=False):
            self._interrupt()
            self._lock.acquire()
        try:
            if self._connection is not None:
                execution.roll_back(self._connection)
        finally:
            self._release_connection()
            self._lock.release()

    def _interrupt(self) -> None:
        """Ask the server to cancel the statement that is running."""
        connection = self._connection
        if connection is not None and not connection.closed:
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=MAX_INTERRUPT_S)

    def _get_connection(self) -> Connection:
        """Return the connection. Raise `InvalidRequest` if the transaction has ended."""
        if self._connection is None:
            raise InvalidRequest("This transaction has ended: begin another.")
        return self._connection

    def _release_connection(self) -> None:
        """Return the connection to its pool, once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._release(connection)


async def _wait_until_done(future: asyncio.Future[None]) -> None:
    """Wait until the future is done, however often the task is cancelled. Its result is discarded."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()


def _build_rolled_back(lost: ConnectionLost) -> HoldfastError:
    """Return `StoreUnreachable`: the transaction was rolled back and may be repeated as a whole."""
    return StoreUnreachable(
        f"The connection to PostgreSQL was lost inside a transaction ({lost.reason}), which was rolled back. "
        "Repeat all of it."
    )


def _build_outcome_unknown(lost: ConnectionLost) -> HoldfastError:
    """Return `OutcomeUnknown`: the transaction may have been committed, and is not safe to repeat."""
    return OutcomeUnknown(
        f"The connection to PostgreSQL was lost before it confirmed the commit ({lost.reason}): read the "
        "rows to find out whether the transaction was committed.",
        safe_to_repeat=False,
    )
