"""A transaction that waits for its caller between statements. It has its own connection, and always returns
it.

The caller's task may be cancelled while a statement runs in a thread: the statement is then interrupted, and
the transaction rolled back when the thread has finished. A task that is cancelled during its commit waits
until the commit is decided: what was committed is there when the task ends, and never appears later.
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
from holdfast.operations.sql import Answer, Statement
from holdfast.stores.sql.postgres import executing, values
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.failures import ConnectionLost

T = TypeVar("T")

INTERRUPT_S_MAX: Final = 5.0


class Transaction:
    def __init__(
        self, connection: Connection, threads: Executor, give_back: Callable[[Connection], None]
    ) -> None:
        self._connection: Connection | None = connection
        self._threads, self._give_back = threads, give_back
        # One request at a time on the connection, whichever task sends it.
        self._turn = threading.Lock()
        # No task occupies a thread to wait for its turn.
        self._queue = asyncio.Lock()
        self._is_failed = False

    async def run(self, statement: Statement) -> Answer:
        values.check(statement)
        async with self._queue:
            return await self._in_thread(lambda: self._run(statement))

    async def commit(self) -> None:
        committing = self._in_thread(self._commit)
        try:
            await asyncio.shield(committing)
        except asyncio.CancelledError:
            await _settled(committing)
            raise

    async def undo(self) -> None:
        """Roll back, also within a cancelled task. If that is cancelled again, the thread still finishes."""
        # A closed engine has rolled it back.
        with suppress(StoreClosed):
            await asyncio.shield(self._in_thread(self._undo))

    def abandon(self) -> None:
        """Drop the transaction of a closing engine. PostgreSQL rolls back when the connection is lost."""
        connection = self._connection
        if self._turn.locked():
            self._interrupt()
        if connection is not None:
            connection.break_off()
        with self._turn:
            self._done()

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        try:
            return asyncio.wrap_future(self._threads.submit(work))
        except RuntimeError as error:
            raise StoreClosed("The SQL store was closed.") from error

    def _run(self, statement: Statement) -> Answer:
        with self._turn:
            connection = self._open()
            if self._is_failed:
                raise InvalidRequest(
                    "A statement of this transaction failed, and it does nothing more: leave it, and begin "
                    "another."
                )
            try:
                return executing.within(connection, statement)
            except ConnectionLost as lost:
                self._is_failed = True
                raise _undone(lost) from None
            except BaseException:
                self._is_failed = True
                raise

    def _commit(self) -> None:
        with self._turn:
            connection = self._open()
            try:
                if self._is_failed:
                    raise InvalidRequest(
                        "A statement of this transaction failed, and so nothing of it is kept: let its error "
                        "end the "
                        "transaction."
                    )
                executing.commit(connection)
            except ConnectionLost as lost:
                raise (_unknown(lost) if lost.may_be_done else _undone(lost)) from None
            finally:
                self._done()

    def _undo(self) -> None:
        if not self._turn.acquire(blocking=False):
            self._interrupt()
            self._turn.acquire()
        try:
            if self._connection is not None:
                executing.roll_back(self._connection)
        finally:
            self._done()
            self._turn.release()

    def _interrupt(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=INTERRUPT_S_MAX)

    def _open(self) -> Connection:
        if self._connection is None:
            raise InvalidRequest("This transaction is over: begin another.")
        return self._connection

    def _done(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._give_back(connection)


async def _settled(future: asyncio.Future[None]) -> None:
    """Wait until the future is done, however often the task is cancelled. Its result is discarded."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future])
    if not future.cancelled():
        future.exception()


def _undone(lost: ConnectionLost) -> HoldfastError:
    return StoreUnreachable(
        f"The connection to PostgreSQL was lost inside a transaction ({lost.reason}): nothing of it is kept. "
        "Do all of it "
        "again."
    )


def _unknown(lost: ConnectionLost) -> HoldfastError:
    return OutcomeUnknown(
        "The connection to PostgreSQL was lost before it said whether the transaction was done "
        f"({lost.reason}): read what "
        "it would have left.",
        safe_to_repeat=False,
    )
