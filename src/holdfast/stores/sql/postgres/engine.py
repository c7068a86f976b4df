"""PostgreSQL as a SQL store: statements on connections of a pool, from any event loop.

psycopg's blocking calls run in the engine's own threads, so that stores may be used from several loops one
after the other and be closed from anywhere. A single statement, or several in one transaction, take one call
to a thread; a transaction that waits for its caller between statements takes one for each.

After a lost connection, the engine retries on another one, until `PATIENCE_S` are over, work that was surely
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
from holdfast.operations.sql import Answer, Statement
from holdfast.operations.sql.descriptions import ResultColumn, SchemaState
from holdfast.stores.sql.extra import require
from holdfast.stores.sql.port import SqlNotices, SqlTransaction
from holdfast.stores.sql.postgres import executing, values
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.describing import describe
from holdfast.stores.sql.postgres.endpoints import connected
from holdfast.stores.sql.postgres.failures import ConnectionLost
from holdfast.stores.sql.postgres.listening import Listener
from holdfast.stores.sql.postgres.pools import Pool
from holdfast.stores.sql.postgres.transactions import Transaction

T = TypeVar("T")
# Work for a thread; its argument is how many seconds it may wait for a connection.
Work = Callable[[float], T]

# How long to wait for a connection and to replace lost ones.
PATIENCE_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0
# A reader that does not respond is skipped for a while: the writer has all of its data.
READER_WAIT_S: Final = 1.0
READER_REST_S: Final = 5.0
# How long running statements may continue when the engine is closed.
CLOSE_S_MAX: Final = 30.0
CLOSED: Final = "The SQL store was closed."
BUSY: Final = "The SQL store has more to do than it has time for: try again."


class PostgresSql:
    """The PostgreSQL engine. `reader`, if set, answers the statements that accept slightly old data."""

    def __init__(self, writer: Pool, reader: Pool | None = None, *, patience_s: float = PATIENCE_S) -> None:
        self._writer, self._reader, self._patience_s = writer, reader, patience_s
        self._close_s_max = CLOSE_S_MAX
        self._reader_rests_until = 0.0
        self._closing = threading.Event()
        self._process = os.getpid()
        threads = writer.sizes.max + (reader.sizes.max if reader else 0)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-sql")
        # Separate from the threads that wait for a connection: a caller that has one must always be able to
        # finish.
        self._held = ThreadPoolExecutor(2 * writer.sizes.max, thread_name_prefix="holdfast-sql-held")
        self._listener = Listener(self._connect_to_listen)
        self._transactions: set[Transaction] = set()
        self._beside: weakref.WeakSet[Connection] = weakref.WeakSet()

    async def run(self, operation: Statement) -> Answer:
        """Run one statement. Every error it raises is a `HoldfastError`."""
        values.check(operation)
        return await self._in_thread(lambda left_s: self._run(operation, left_s), [operation])

    async def run_all(self, statements: Sequence[Statement]) -> list[Answer]:
        """Run the statements in this order, in one transaction."""
        if not statements:
            raise InvalidRequest("A transaction without a statement does nothing: give it at least one.")
        for statement in statements:
            values.check(statement)
        return await self._in_thread(lambda left_s: self._run_all(statements, left_s), statements)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlTransaction]:
        transaction = await self._begun()
        try:
            yield transaction
        except BaseException:
            await transaction.undo()
            raise
        else:
            await transaction.commit()
        finally:
            self._transactions.discard(transaction)

    def notices(self, channel: str) -> AbstractAsyncContextManager[SqlNotices]:
        self._check_process()
        return self._listener.notices(channel)

    async def migrate(
        self,
        schema: str,
        migrations: str,
        *,
        dry_run: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> list[str]:
        require("alembic")
        from holdfast.stores.sql.postgres.migrating import migrate

        return await self._in_thread(
            lambda _left_s: migrate(self.connect, schema, migrations, dry_run=dry_run, progress=progress), ()
        )

    async def state(self, schema: str, migrations: str) -> SchemaState:
        require("alembic")
        from holdfast.stores.sql.postgres.migrating import state

        return await self._in_thread(lambda _left_s: state(self.connect, schema, migrations), ())

    async def describe(self, statement: Statement) -> tuple[ResultColumn, ...]:
        return await self._in_thread(lambda _left_s: describe(self.connect, statement), ())

    def connect(self) -> Connection:
        """Open a connection outside the pool, for long use. Blocks; the caller closes it."""
        connection = connected(self._writer.endpoint)
        self._beside.add(connection)
        return connection

    def close(self) -> None:
        """End waiting work, let running statements finish for a while, and close the connections. A second
        call does nothing.
        """
        if self._closing.is_set() or os.getpid() != self._process:
            return
        self._closing.set()
        breaking_off = threading.Timer(self._close_s_max, self._break_off)
        breaking_off.daemon = True
        breaking_off.start()
        self._listener.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for transaction in list(self._transactions):
            transaction.abandon()
        self._held.shutdown(wait=True)
        breaking_off.cancel()
        for pool in self._pools:
            pool.close()

    @property
    def _pools(self) -> list[Pool]:
        return [pool for pool in (self._reader, self._writer) if pool is not None]

    def _break_off(self) -> None:
        for pool in self._pools:
            pool.break_off()
        for connection in list(self._beside):
            connection.break_off()

    def _connect_to_listen(self) -> Connection:
        connection = self.connect()
        connection.statement_s_max = self._writer.endpoint.statement_s_max
        return connection

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise SettingsError(
                "This SQL store was opened before the process was forked, and cannot be used here: open it "
                "after the fork."
            )

    async def _in_thread(self, work: Work[T], statements: Sequence[Statement]) -> T:
        return await self._awaited(self._submitted(work, statements))

    async def _awaited(self, future: Future[T]) -> T:
        """Wait for the work of a thread.

        The limit on waiting includes the time before the work starts. Work that a closing engine cancelled
        raises `StoreClosed` instead of cancelling the caller's task.
        """
        # Cancels only work that has not started.
        giving_up = asyncio.get_running_loop().call_later(self._patience_s, future.cancel)
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
            giving_up.cancel()

    def _submitted(self, work: Work[T], statements: Sequence[Statement]) -> Future[T]:
        self._check_process()
        ends_at = time.monotonic() + self._patience_s
        try:
            return self._threads.submit(self._until_done, work, ends_at, statements)
        except RuntimeError as error:
            raise StoreClosed(CLOSED) from error

    def _until_done(self, work: Work[T], ends_at: float, statements: Sequence[Statement]) -> T:
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
                    raise unknown(lost, is_repeatable=False) from None
                if time.monotonic() + pause_s > ends_at:
                    failure = unknown(lost, is_repeatable=True) if may_be_done else _unreachable(lost)
                    raise failure from None
            if self._closing.wait(pause_s):
                raise StoreClosed(CLOSED)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _run(self, statement: Statement, left_s: float) -> Answer:
        if self._reader is not None and statement.on_reader and time.monotonic() > self._reader_rests_until:
            try:
                return _alone(self._reader, statement, min(left_s, READER_WAIT_S))
            # Not after a statement timeout: the writer would take as long.
            except (ConnectionLost, StoreBusy, StoreUnreachable):
                self._reader_rests_until = time.monotonic() + READER_REST_S
        return _alone(self._writer, statement, left_s)

    def _run_all(self, statements: Sequence[Statement], left_s: float) -> list[Answer]:
        with self._writer.lent(left_s) as connection:
            return executing.all_or_nothing(connection, statements)

    async def _begun(self) -> Transaction:
        begin = self._submitted(self._begin, ())
        try:
            connection = await self._awaited(begin)
        except asyncio.CancelledError:
            # The thread may have taken a connection that no caller will use.
            begin.add_done_callback(self._give_back)
            raise
        transaction = Transaction(connection, self._held, self._writer.give_back)
        self._transactions.add(transaction)
        return transaction

    def _begin(self, left_s: float) -> Connection:
        connection = self._writer.take(left_s)
        try:
            executing.begin(connection)
        except BaseException:
            self._writer.give_back(connection)
            raise
        return connection

    def _give_back(self, begin: Future[Connection]) -> None:
        if not begin.cancelled() and begin.exception() is None:
            self._writer.give_back(begin.result())


def _alone(pool: Pool, statement: Statement, wait_s: float) -> Answer:
    with pool.lent(wait_s) as connection:
        if statement.expected is not None:
            return executing.all_or_nothing(connection, [statement])[0]
        return executing.one(connection, statement)


def unknown(lost: ConnectionLost, *, is_repeatable: bool) -> HoldfastError:
    return OutcomeUnknown(
        f"The connection to PostgreSQL was lost before it said whether this was done ({lost.reason}): read "
        "what it would "
        "have left, and repeat it if that is not there.",
        safe_to_repeat=is_repeatable,
    )


def _unreachable(lost: ConnectionLost) -> HoldfastError:
    return StoreUnreachable(
        f"PostgreSQL is not reached: {lost.reason}. Check that it runs and that the setting `sql` is right, "
        "then repeat."
    )
