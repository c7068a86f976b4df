"""PostgreSQL as a SQL store: statements on connections of a pool, from any event loop.

psycopg's blocking calls run in threads of the engine's own, so that stores may be used from several loops one after the
other and be closed from anywhere. A statement alone, or several in one transaction, are one trip to a thread; a
transaction that waits for its caller between its statements is a trip for each.

A lost connection: what surely was not done is done again on another one, until `PATIENCE_S` are over; so are reads, and
writes that may be repeated. What may have been done is `OutcomeUnknown`. Inside a transaction of the caller's nothing is
done again: the caller's decisions rest on what was read in it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import psycopg

from holdfast.errors import HoldfastError, OutcomeUnknown, RetryLater, StoreClosed, StoreUnreachable
from holdfast.operations.sql import Answer, Statement
from holdfast.operations.sql.descriptions import ResultColumn, SchemaState
from holdfast.stores.sql.extra import require
from holdfast.stores.sql.port import SqlNotices, SqlTransaction
from holdfast.stores.sql.postgres import executing, values
from holdfast.stores.sql.postgres.describing import describe
from holdfast.stores.sql.postgres.endpoints import connected
from holdfast.stores.sql.postgres.failures import ConnectionLost
from holdfast.stores.sql.postgres.listening import Listener
from holdfast.stores.sql.postgres.pools import Connection, Pool
from holdfast.stores.sql.postgres.transactions import Transaction

T = TypeVar("T")

# How long a connection is waited for, and lost ones are replaced.
PATIENCE_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 1.0


class PostgresSql:
    """`reader`, where there is one, answers the statements that may be a little behind."""

    def __init__(self, writer: Pool, reader: Pool | None = None) -> None:
        self._writer, self._reader = writer, reader
        self._closing = threading.Event()
        threads = writer.sizes.max + (reader.sizes.max if reader else 0)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-sql")
        # Apart from those who wait for a connection: who has one must always be able to finish with it.
        self._held = ThreadPoolExecutor(2 * writer.sizes.max, thread_name_prefix="holdfast-sql-held")
        self._listener = Listener(lambda: connected(writer.endpoint))
        self._transactions: set[Transaction] = set()

    async def run(self, operation: Statement) -> Answer:
        """Do one statement. Whatever it raises is a `HoldfastError`."""
        values.check(operation)
        repeatable = operation.repeatable or not operation.writes
        return await self._in_thread(lambda: self._run(operation), repeatable=repeatable)

    async def run_all(self, statements: Sequence[Statement]) -> list[Answer]:
        """All or nothing, in this order."""
        for statement in statements:
            values.check(statement)
        repeatable = all(each.repeatable or not each.writes for each in statements)
        return await self._in_thread(lambda: self._run_all(statements), repeatable=repeatable)

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
            lambda: migrate(self.connect, schema, migrations, dry_run=dry_run, progress=progress),
            repeatable=False,
        )

    async def state(self, schema: str, migrations: str) -> SchemaState:
        require("alembic")
        from holdfast.stores.sql.postgres.migrating import state

        return await self._in_thread(lambda: state(self.connect, schema, migrations), repeatable=True)

    async def describe(self, statement: Statement) -> tuple[ResultColumn, ...]:
        return await self._in_thread(lambda: describe(self.connect, statement), repeatable=True)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection beside the pool, for what holds one for long. Blocks; close it."""
        return connected(self._writer.endpoint)

    def close(self) -> None:
        """Ends what waits, lets what runs end, and gives the connections back. A second time does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._listener.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for transaction in list(self._transactions):
            transaction.abandon()
        self._held.shutdown(wait=True, cancel_futures=True)
        for pool in filter(None, (self._reader, self._writer)):
            pool.close()

    async def _in_thread(self, work: Callable[[], T], *, repeatable: bool) -> T:
        ends_at = time.monotonic() + PATIENCE_S
        return await asyncio.wrap_future(
            self._submitted(lambda: self._until_done(work, ends_at, repeatable=repeatable))
        )

    def _submitted(self, work: Callable[[], T]) -> Future[T]:
        try:
            return self._threads.submit(work)
        except RuntimeError as error:
            raise StoreClosed("The SQL store was closed.") from error

    def _until_done(self, work: Callable[[], T], ends_at: float, *, repeatable: bool) -> T:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return work()
            except ConnectionLost as lost:
                if lost.may_be_done and not repeatable:
                    raise _unknown(lost) from None
                if time.monotonic() + pause_s > ends_at:
                    raise _unreachable(lost) from None
            if self._closing.wait(pause_s):
                raise StoreClosed("The SQL store was closed.")
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _run(self, statement: Statement) -> Answer:
        if statement.on_reader and self._reader is not None:
            try:
                return self._alone(self._reader, statement)
            except (ConnectionLost, RetryLater):
                # The writer has all that the reader has.
                return self._alone(self._writer, statement)
        return self._alone(self._writer, statement)

    def _alone(self, pool: Pool, statement: Statement) -> Answer:
        with pool.lent(PATIENCE_S) as connection:
            if statement.expected is not None:
                return executing.all_or_nothing(connection, [statement])[0]
            return executing.one(connection, statement)

    def _run_all(self, statements: Sequence[Statement]) -> list[Answer]:
        with self._writer.lent(PATIENCE_S) as connection:
            return executing.all_or_nothing(connection, statements)

    async def _begun(self) -> Transaction:
        ends_at = time.monotonic() + PATIENCE_S
        begin = self._submitted(lambda: self._until_done(self._begin, ends_at, repeatable=True))
        try:
            connection = await asyncio.wrap_future(begin)
        except asyncio.CancelledError:
            # The thread may have a connection for nobody.
            begin.add_done_callback(self._give_back)
            raise
        transaction = Transaction(connection, self._held, self._writer.give_back)
        self._transactions.add(transaction)
        return transaction

    def _begin(self) -> Connection:
        connection = self._writer.take(PATIENCE_S)
        try:
            executing.begin(connection)
        except BaseException:
            self._writer.give_back(connection)
            raise
        return connection

    def _give_back(self, begin: Future[Connection]) -> None:
        if not begin.cancelled() and begin.exception() is None:
            self._writer.give_back(begin.result())


def _unknown(lost: ConnectionLost) -> HoldfastError:
    return OutcomeUnknown(
        f"The connection to PostgreSQL was lost before it said whether this was done ({lost.reason}): read what it would "
        "have left, and repeat it if that is not there.",
        safe_to_repeat=False,
    )


def _unreachable(lost: ConnectionLost) -> HoldfastError:
    return StoreUnreachable(
        f"PostgreSQL is not reached: {lost.reason}. Check that it runs and that the setting `sql` is right, then repeat."
    )
