"""A pool of connections to one PostgreSQL endpoint: psycopg's pool, opened at its first use.

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
from holdfast.stores.sql.postgres.endpoints import Endpoint, open_connection
from holdfast.stores.sql.postgres.errors import ConnectionLost, format_reason
from holdfast.stores.sql.postgres.values import register_types

# The pool's own attempts to reconnect end after this time; the next caller that needs a connection starts
# another.
MAX_RECONNECT_S: Final = 5.0

log = logging.getLogger(__name__)
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


class PoolSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest and the largest number of connections of a pool."""

    min: int = 2
    max: int = 10


class Pool:
    """The connections to one endpoint, lent to one caller at a time."""

    def __init__(self, endpoint: Endpoint, sizes: PoolSizes) -> None:
        self.endpoint, self.sizes = endpoint, sizes
        self._pool: ConnectionPool[Connection] | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_unreachable = False
        self._in_use: set[Connection] = set()

    @contextmanager
    def lend(self, timeout_s: float) -> Iterator[Connection]:
        """Lend a connection for the time of the context.

        Raise `ConnectionLost` if the server is unavailable, `StoreBusy` if none is free.
        """
        connection = self.acquire(timeout_s)
        try:
            yield connection
        except ConnectionLost as lost:
            self._log_lost(lost.reason)
            raise
        finally:
            self.release(connection)

    def acquire(self, timeout_s: float) -> Connection:
        """Return a connection, for the caller to pass to `release`. Wait for a free one at most `timeout_s`.

        Raise `ConnectionLost` if the server is unavailable, `StoreBusy` if all connections are in use.
        """
        pool = self._ensure_open(timeout_s)
        try:
            connection = pool.getconn(timeout=timeout_s)
            self._in_use.add(connection)
            self._log_recovered()
            return connection
        except PoolClosed as error:
            raise StoreClosed("The SQL store was closed.") from error
        except TooManyRequests as error:
            raise StoreBusy("Too many callers wait for a connection to PostgreSQL: retry.") from error
        except PoolTimeout:
            # Find out whether all connections are lent or the server is down.
            self._probe()
        raise StoreBusy(
            f"All {self.sizes.max} connections to PostgreSQL are in use: retry, or raise sql_pool_max."
        )

    def release(self, connection: Connection) -> None:
        """Return a connection. One inside a transaction is closed, which rolls back; the pool replaces it."""
        pool = self._pool
        self._in_use.discard(connection)
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            # A rollback could wait for a server that has ended; losing one connection costs less.
            connection.close()
        if pool is None or self._is_closed:
            connection.close()
        else:
            pool.putconn(connection)

    def abort_all(self) -> None:
        """Break every lent connection: callers that wait for a response get an error that it was lost."""
        for connection in list(self._in_use):
            connection.abort()

    def close(self) -> None:
        """Close the connections and end the use of the endpoint."""
        with self._lock:
            self._is_closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self.endpoint.release()

    def _ensure_open(self, timeout_s: float) -> ConnectionPool[Connection]:
        """Return psycopg's pool, opened at the first call after one connection succeeded."""
        if self._pool is not None:
            return self._pool
        # Another thread may be opening it, and waiting for a server that does not respond.
        if not self._lock.acquire(timeout=timeout_s):
            raise ConnectionLost("it has not responded yet", may_be_done=False)
        try:
            if self._is_closed:
                raise StoreClosed("The SQL store was closed.")
            if self._pool is None:
                # Connect without the pool first: the pool would retry without ever reporting the reason.
                self._probe()
                self._pool = ConnectionPool(
                    self.endpoint.conninfo,
                    connection_class=Connection,
                    kwargs={"autocommit": True, "row_factory": dict_row},
                    min_size=self.sizes.min,
                    max_size=self.sizes.max,
                    configure=self._configure,
                    check=self._check_alive,
                    reconnect_timeout=MAX_RECONNECT_S,
                    open=True,
                )
            return self._pool
        finally:
            self._lock.release()

    def _configure(self, connection: Connection) -> None:
        """Register Holdfast's types on a new connection and set its statement timeout."""
        register_types(connection)
        connection.statement_s_max = self.endpoint.statement_s_max

    def _probe(self) -> None:
        """Connect once to find out what is wrong.

        Raise a permanent error, or `ConnectionLost` for a transient one.
        """
        try:
            open_connection(self.endpoint).close()
        except (StoreUnreachable, StoreBusy) as error:
            # Keep libpq's text only: the caller that gives up adds its own sentence.
            reason = format_reason(error if error.__cause__ is None else error.__cause__)
            self._log_lost(reason)
            raise ConnectionLost(reason, may_be_done=False) from error

    def _check_alive(self, connection: Connection) -> None:
        """Raise if the server has closed an idle connection.

        No request is needed: its socket is then readable.
        """
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLIN)
        if poller.poll(0):
            connection.pgconn.consume_input()
            if connection.pgconn.status != psycopg.pq.ConnStatus.OK:
                connection.close()
                self._log_lost("it closed an idle connection")
                raise psycopg.OperationalError("the server closed the connection")

    def _log_lost(self, reason: str) -> None:
        """Log that the server does not respond, once until it recovers."""
        if not self._is_unreachable:
            self._is_unreachable = True
            log.warning("PostgreSQL does not respond; retrying: %s", reason)

    def _log_recovered(self) -> None:
        """Log that the server responds again, if its loss was logged."""
        if self._is_unreachable:
            self._is_unreachable = False
            log.info("PostgreSQL responds again.")
