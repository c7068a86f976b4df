"""Connections to one endpoint, kept and lent: psycopg's pool, opened when it is first wanted.

A connection that is lent was not lost by then, as far as its socket tells; one that was lost is closed when
it comes back. That the server was lost is logged once, and once that it answers again. psycopg's own pool
would tell of each connection, and is heard from ERROR on.
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

# After so long without success an attempt of the pool's own is over; the next who wants a connection begins
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
        """A connection; `ConnectionLost` where none is to be had because the server is not."""
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
            # Because all are lent, or because there is no server?
            self._connect_once()
        raise StoreBusy(
            f"All {self.sizes.max} connections to PostgreSQL are in use: try again, or raise sql_pool_max."
        )

    def give_back(self, connection: Connection) -> None:
        """Whatever it is in the middle of is undone; one that was lost is replaced."""
        pool = self._pool
        self._lent.discard(connection)
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            # A roll-back could wait for a server that is gone; a connection less is the smaller harm.
            connection.close()
        if pool is None or self._is_closed:
            connection.close()
        else:
            pool.putconn(connection)

    def break_off(self) -> None:
        """Whoever waits for an answer on one of these connections finds it lost."""
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
        # Another may be opening it, and wait for a server that does not answer.
        if not self._lock.acquire(timeout=timeout_s):
            raise ConnectionLost("it has not answered yet", may_be_done=False)
        try:
            if self._is_closed:
                raise StoreClosed("The SQL store was closed.")
            if self._pool is None:
                # By hand first: the pool would try again and again, and never say why.
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
        """Raises what is wrong: for good, or for now as `ConnectionLost`."""
        try:
            connected(self.endpoint).close()
        except (StoreUnreachable, StoreBusy) as error:
            # What libpq says, and not our sentence around it, which whoever gives up makes.
            reason = plain(error if error.__cause__ is None else error.__cause__)
            self._note_lost(reason)
            raise ConnectionLost(reason, may_be_done=False) from error

    def _check_alive(self, connection: Connection) -> None:
        """Whether the server has closed an idle connection, without asking it: then its socket has something
        to read.
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
