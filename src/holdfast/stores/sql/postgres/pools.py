"""A pool of connections to one endpoint: psycopg's pool, opened at its first use.

Before a connection is lent, its socket is checked for loss; a lost one is closed when it is returned. The
loss of the server is logged once, and its recovery once. psycopg's own pool would log each connection, so its
log level is ERROR.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from holdfast.core.errors import StoreBusy, StoreClosed, StoreUnreachable
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.endpoints import Endpoint, connected
from holdfast.stores.sql.postgres.failures import ConnectionLost, plain
from holdfast.stores.sql.postgres.values import teach

# The pool's own attempts to reconnect end after this time; the next caller that needs a connection starts
# another.
RECONNECT_S_MAX: Final = 5.0

log = logging.getLogger(__name__)
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


class PoolSizes(msgspec.Struct, frozen=True, kw_only=True):
    min: int = 2
    max: int = 10


class Pool:
    def __init__(self, endpoint: Endpoint, sizes: PoolSizes) -> None:
        self.endpoint, self.sizes = endpoint, sizes
        self._pool: ConnectionPool[Connection] | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_lost = False
        self._lent: set[Connection] = set()

    @contextmanager
    def lent(self, timeout_s: float) -> Iterator[Connection]:
        """Lend a connection. Raise `ConnectionLost` if the server is unavailable."""
        connection = self.take(timeout_s)
        try:
            yield connection
        except ConnectionLost as lost:
            self._note_lost(lost.reason)
            raise
        finally:
            self.give_back(connection)

    def take(self, timeout_s: float) -> Connection:
        pool = self._opened(timeout_s)
        try:
            connection = pool.getconn(timeout=timeout_s)
            self._lent.add(connection)
            self._note_found()
            return connection
        except PoolClosed as error:
            raise StoreClosed("The SQL store was closed.") from error
        except TooManyRequests as error:
            raise StoreBusy("Too many wait for a connection to PostgreSQL.") from error
        except PoolTimeout:
            # Find out whether all connections are lent or the server is down.
            self._connect_once()
        raise StoreBusy(
            f"All {self.sizes.max} connections to PostgreSQL are in use: try again, or raise sql_pool_max."
        )

    def give_back(self, connection: Connection) -> None:
        """Return a connection. One inside a transaction is closed, which rolls back; the pool replaces it."""
        pool = self._pool
        self._lent.discard(connection)
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            # A rollback could wait for a server that is gone; losing one connection costs less.
            connection.close()
        if pool is None or self._is_closed:
            connection.close()
        else:
            pool.putconn(connection)

    def break_off(self) -> None:
        """Break every lent connection: callers that wait for a response find it lost."""
        for connection in list(self._lent):
            connection.break_off()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self.endpoint.release()

    def _opened(self, timeout_s: float) -> ConnectionPool[Connection]:
        if self._pool is not None:
            return self._pool
        # Another thread may be opening it, and waiting for a server that does not respond.
        if not self._lock.acquire(timeout=timeout_s):
            raise ConnectionLost("it has not answered yet", may_be_done=False)
        try:
            if self._is_closed:
                raise StoreClosed("The SQL store was closed.")
            if self._pool is None:
                # Connect without the pool first: the pool would retry without ever reporting the reason.
                self._connect_once()
                self._pool = ConnectionPool(
                    self.endpoint.conninfo,
                    connection_class=Connection,
                    kwargs={"autocommit": True, "row_factory": dict_row},
                    min_size=self.sizes.min,
                    max_size=self.sizes.max,
                    configure=self._configure,
                    check=self._check_alive,
                    reconnect_timeout=RECONNECT_S_MAX,
                    open=True,
                )
            return self._pool
        finally:
            self._lock.release()

    def _configure(self, connection: Connection) -> None:
        teach(connection)
        connection.statement_s_max = self.endpoint.statement_s_max

    def _connect_once(self) -> None:
        """Connect once to find out what is wrong. Raise a permanent error, or `ConnectionLost` for a
        transient one.
        """
        try:
            connected(self.endpoint).close()
        except (StoreUnreachable, StoreBusy) as error:
            # Keep libpq's text only: the caller that gives up adds its own sentence.
            reason = plain(error if error.__cause__ is None else error.__cause__)
            self._note_lost(reason)
            raise ConnectionLost(reason, may_be_done=False) from error

    def _check_alive(self, connection: Connection) -> None:
        """Raise if the server has closed an idle connection. No request is needed: its socket is then
        readable.
        """
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN)
        if poller.poll(0):
            connection.pgconn.consume_input()
            if connection.pgconn.status != psycopg.pq.ConnStatus.OK:
                connection.close()
                self._note_lost("it closed an idle connection")
                raise psycopg.OperationalError("the server closed the connection")

    def _note_lost(self, reason: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            log.warning("PostgreSQL does not answer, and is tried again: %s", reason)

    def _note_found(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.info("PostgreSQL answers again.")
