"""The PostgreSQL engine of the SQL store: runs statements on connections of a pool, from any event loop.

psycopg's blocking calls run in the engine's own threads, so that stores may be used from several loops one
after the other and be closed from anywhere. A single statement, or several in one transaction, take one call
to a thread; a transaction that waits for its caller between statements takes one for each.

After a lost connection the engine retries, on another one and for at most `MAX_RETRY_S`, work that was surely
not done, reads, and repeatable writes. Work that may have been done raises `OutcomeUnknown`. Inside a
caller's transaction nothing is retried: the caller's decisions depend on what it read there.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

from holdfast.core.errors import (
    HoldfastError,
    InvalidRequest,
    OutcomeUnknown,
    SettingsError,
    StoreBusy,
    StoreClosed,
    StoreUnreachable,
)
from holdfast.operations.sql import Statement, StatementResult
from holdfast.operations.sql.descriptions import ResultColumn, SchemaState
from holdfast.stores.sql.extra import require_packages
from holdfast.stores.sql.port import SqlNotifications, SqlTransaction
from holdfast.stores.sql.postgres import execution, values
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.descriptions import describe
from holdfast.stores.sql.postgres.endpoints import open_connection
from holdfast.stores.sql.postgres.errors import ConnectionLost
from holdfast.stores.sql.postgres.merging import merge
from holdfast.stores.sql.postgres.notifications import Listener
from holdfast.stores.sql.postgres.pools import Pool
from holdfast.stores.sql.postgres.transactions import Transaction

T = TypeVar("T")
# Work for a thread; its argument is how many seconds it may wait for a connection.
Work = Callable[[float], T]

# The longest wait for a connection, with the retries after lost ones.
MAX_RETRY_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 1.0
# A reader that does not respond is skipped for a while: the writer has all of its data.
READER_WAIT_S: Final = 1.0
READER_SKIP_S: Final = 5.0
# How long running statements may continue when the engine is closed.
MAX_CLOSE_S: Final = 30.0
CLOSED: Final = "The SQL store was closed."
BUSY: Final = "The SQL store is overloaded: no connection or thread was free in time. Retry."


class PostgresSql:
    """The PostgreSQL engine. `reader`, if set, answers the statements that accept slightly old data."""

    def __init__(self, writer: Pool, reader: Pool | None = None, *, max_retry_s: float = MAX_RETRY_S) -> None:
        self._writer, self._reader, self._max_retry_s = writer, reader, max_retry_s
        self._close_s_max = MAX_CLOSE_S
        self._skip_reader_until = 0.0
        self._closing = threading.Event()
        self._process = os.getpid()
        threads = writer.sizes.max + (reader.sizes.max if reader else 0)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-sql")
        # Separate from the threads that wait for a connection: a caller that has one must always be able to
        # finish.
        self._transaction_threads = ThreadPoolExecutor(
            2 * writer.sizes.max, thread_name_prefix="holdfast-sql-held"
        )
        self._listener = Listener(self._connect_listener)
        self._transactions: set[Transaction] = set()
        self._unpooled_connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    async def run(self, operation: Statement) -> StatementResult:
        """Run one statement. Every error it raises is a `HoldfastError`."""
        values.check(operation)
        return await self._run_in_thread(lambda left_s: self._run(operation, left_s), [operation])

    async def run_all(self, statements: Sequence[Statement]) -> list[StatementResult]:
        """Run the statements in this order, in one transaction; independent ones as one statement."""
        if not statements:
            raise InvalidRequest("Invalid transaction: expected at least one statement.")
        for statement in statements:
            values.check(statement)
        if (merged := merge(statements)) is not None:
            await self._run_in_thread(lambda left_s: self._run(merged, left_s), statements)
            # Of merged statements, only those with an expected number of rows have a known count.
            return [StatementResult(count=each.expected or 0) for each in statements]
        return await self._run_in_thread(lambda left_s: self._run_all(statements, left_s), statements)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlTransaction]:
        """Begin a transaction.

        Commit it when the context exits, or roll it back if it exits with an error.
        """
        transaction = await self._begin_transaction()
        try:
            yield transaction
        except BaseException:
            await transaction.roll_back()
            raise
        else:
            await transaction.commit()
        finally:
            self._transactions.discard(transaction)

    def listen(self, channel: str) -> AbstractAsyncContextManager[SqlNotifications]:
        """Subscribe to a channel for the time of the context."""
        self._check_process()
        return self._listener.subscribe(channel)

    async def migrate(
        self,
        schema: str,
        migrations: str,
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[str]:
        """Migrate a schema to its newest revision; see the port `Sql.migrate`."""
        require_packages("alembic")
        from holdfast.stores.sql.postgres.migrator import migrate

        return await self._run_in_thread(
            lambda _left_s: migrate(self.connect, schema, migrations, dry_run=dry_run, progress=progress), ()
        )

    async def get_schema_state(self, schema: str, migrations: str) -> SchemaState:
        """Return how far a schema is migrated; change nothing."""
        require_packages("alembic")
        from holdfast.stores.sql.postgres.migrator import get_schema_state

        return await self._run_in_thread(
            lambda _left_s: get_schema_state(self.connect, schema, migrations), ()
        )

    async def describe(self, statement: Statement) -> tuple[ResultColumn, ...]:
        """Return the columns that a statement would return, without running it."""
        return await self._run_in_thread(lambda _left_s: describe(self.connect, statement), ())

    def connect(self) -> Connection:
        """Open a connection outside the pool, for long use. Blocks; the caller closes it."""
        connection = open_connection(self._writer.endpoint)
        self._unpooled_connections.add(connection)
        return connection

    def close(self) -> None:
        """End waiting work, let running statements finish for a while, and close the connections.

        A second call does nothing.
        """
        if self._closing.is_set() or os.getpid() != self._process:
            return
        self._closing.set()
        abort_timer = threading.Timer(self._close_s_max, self._abort_connections)
        abort_timer.daemon = True
        abort_timer.start()
        self._listener.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for transaction in list(self._transactions):
            transaction.abandon()
        self._transaction_threads.shutdown(wait=True)
        abort_timer.cancel()
        for pool in self._pools:
            pool.close()

    @property
    def _pools(self) -> list[Pool]:
        """Return the reader's pool, if there is one, and the writer's."""
        return [pool for pool in (self._reader, self._writer) if pool is not None]

    def _abort_connections(self) -> None:
        """Break every connection, so that callers that wait for a response get an error."""
        for pool in self._pools:
            pool.abort_all()
        for connection in list(self._unpooled_connections):
            connection.abort()

    def _connect_listener(self) -> Connection:
        """Open the connection for notifications, with the statement timeout of the writer."""
        connection = self.connect()
        connection.statement_s_max = self._writer.endpoint.statement_s_max
        return connection

    def _check_process(self) -> None:
        """Raise `SettingsError` in a forked child."""
        if os.getpid() != self._process:
            raise SettingsError(
                "This SQL store was opened before the process was forked, and is unusable here: open it "
                "after the fork."
            )

    async def _run_in_thread(self, work: Work[T], statements: Sequence[Statement]) -> T:
        """Run the work in a thread, with retries.

        `statements` are what it runs: they decide what may be retried.
        """
        return await self._wait_for(self._submit(work, statements))

    async def _wait_for(self, future: Future[T]) -> T:
        """Wait for the work of a thread. Raise `StoreBusy` if it has not started within the time for retries.

        That limit includes the time before the work starts. If the closing engine cancelled the work, raise
        `StoreClosed` instead of cancelling the caller's task.
        """
        # Cancels only work that has not started.
        timer = asyncio.get_running_loop().call_later(self._max_retry_s, future.cancel)
        try:
            # If the caller is cancelled, work that has not started never starts; started work finishes on its
            # own.
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if future.cancelled() and task is not None and not task.cancelling():
                raise (StoreClosed(CLOSED) if self._closing.is_set() else StoreBusy(BUSY)) from None
            raise
        finally:
            timer.cancel()

    def _submit(self, work: Work[T], statements: Sequence[Statement]) -> Future[T]:
        """Queue the work for a thread. Raise `StoreClosed` after `close`."""
        self._check_process()
        ends_at = time.monotonic() + self._max_retry_s
        try:
            return self._threads.submit(self._run_with_retries, work, ends_at, statements)
        except RuntimeError as error:
            raise StoreClosed(CLOSED) from error

    def _run_with_retries(self, work: Work[T], ends_at: float, statements: Sequence[Statement]) -> T:
        """Run the work; after a lost connection, repeat it with growing pauses until `ends_at` if that is
        safe.

        Raise `OutcomeUnknown` if a write may have been done and is not repeatable.
        """
        is_repeatable = all(each.repeatable or not each.writes for each in statements)
        may_be_done, pause_s = False, FIRST_PAUSE_S
        while True:
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                raise StoreBusy(BUSY)
            try:
                return work(left_s)
            except ConnectionLost as lost:
                may_be_done = may_be_done or (lost.may_be_done and any(each.writes for each in statements))
                if may_be_done and not is_repeatable:
                    raise build_outcome_unknown(lost, is_repeatable=False) from None
                if time.monotonic() + pause_s > ends_at:
                    error = (
                        build_outcome_unknown(lost, is_repeatable=True)
                        if may_be_done
                        else _build_unreachable(lost)
                    )
                    raise error from None
            if self._closing.wait(pause_s):
                raise StoreClosed(CLOSED)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _run(self, statement: Statement, left_s: float) -> StatementResult:
        """Run a statement on the reader if it accepts old data and the reader responds, otherwise on the
        writer.
        """
        if self._reader is not None and statement.on_reader and time.monotonic() > self._skip_reader_until:
            try:
                return _run_alone(self._reader, statement, min(left_s, READER_WAIT_S))
            # Not after a statement timeout: the writer would take as long.
            except (ConnectionLost, StoreBusy, StoreUnreachable):
                self._skip_reader_until = time.monotonic() + READER_SKIP_S
        return _run_alone(self._writer, statement, left_s)

    def _run_all(self, statements: Sequence[Statement], left_s: float) -> list[StatementResult]:
        """Run the statements in one transaction on a connection of the writer."""
        with self._writer.lend(left_s) as connection:
            return execution.run_transaction(connection, statements)

    async def _begin_transaction(self) -> Transaction:
        """Begin a transaction on a connection of the writer.

        If the caller is cancelled, return the connection.
        """
        begin = self._submit(self._begin_on_connection, ())
        try:
            connection = await self._wait_for(begin)
        except asyncio.CancelledError:
            # The thread may have taken a connection that no caller will use.
            begin.add_done_callback(self._release_result)
            raise
        transaction = Transaction(connection, self._transaction_threads, self._writer.release)
        self._transactions.add(transaction)
        return transaction

    def _begin_on_connection(self, left_s: float) -> Connection:
        """Take a connection of the writer and begin a transaction on it."""
        connection = self._writer.acquire(left_s)
        try:
            execution.begin(connection)
        except BaseException:
            self._writer.release(connection)
            raise
        return connection

    def _release_result(self, begin: Future[Connection]) -> None:
        """Return the connection of a begin that no caller waits for any more."""
        if not begin.cancelled() and begin.exception() is None:
            self._writer.release(begin.result())


def _run_alone(pool: Pool, statement: Statement, wait_s: float) -> StatementResult:
    """Run one statement on a connection of the pool, in a transaction if it expects a count of rows."""
    with pool.lend(wait_s) as connection:
        if statement.expected is not None:
            return execution.run_transaction(connection, [statement])[0]
        return execution.run_statement(connection, statement)


def build_outcome_unknown(lost: ConnectionLost, *, is_repeatable: bool) -> HoldfastError:
    """Return the error for a write whose confirmation was lost; `is_repeatable` says whether to repeat it is
    safe.
    """
    return OutcomeUnknown(
        f"The connection to PostgreSQL was lost before it confirmed the write ({lost.reason}): read the "
        "rows, and repeat the write if it was not done.",
        safe_to_repeat=is_repeatable,
    )


def _build_unreachable(lost: ConnectionLost) -> HoldfastError:
    """Return `StoreUnreachable` for a server that could not be reached within the time for retries."""
    return StoreUnreachable(
        f"PostgreSQL is unreachable: {lost.reason}. Check that it runs and that the setting `sql` is right, "
        "then retry."
    )
