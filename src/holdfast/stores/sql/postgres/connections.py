"""Connections to PostgreSQL that give up on a server that hangs without responding.

PostgreSQL ends a slow statement itself (`statement_timeout`), as long as the server works. If no response has
come some seconds after that, the connection is closed, and the caller gets an error that it was lost.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen

T = TypeVar("T")

# Extra time after the server's own statement timeout.
RESPONSE_MARGIN_S: Final = 5.0
_POLL_S: Final = 0.1


class Connection(psycopg.Connection[Any]):
    """A connection with a limit on waiting.

    `statement_s_max` is the server's statement timeout; None waits without a limit.
    """

    statement_s_max: float | None = None
    _expected_statements: int = 1

    @contextmanager
    def expect_statements(self, statements: int) -> Iterator[None]:
        """Allow time for this many statements, sent before the first response; 0 if the server needs none."""
        self._expected_statements = statements
        try:
            yield
        finally:
            self._expected_statements = 1

    def abort(self) -> None:
        """Break the connection, from any thread: a caller that waits for a response gets an error that it was
        lost.
        """
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)

    def wait(self, gen: PQGen[T], interval: float = _POLL_S, timeout: float | None = None) -> T:
        """Wait for the server's response, at most as long as the expected statements may take; then close the
        connection and raise `OperationalError`.
        """
        if timeout is not None or self.statement_s_max is None:
            return super().wait(gen, interval, timeout)
        max_wait_s = self._expected_statements * self.statement_s_max + RESPONSE_MARGIN_S
        try:
            return super().wait(gen, interval, max_wait_s)
        except psycopg.errors._WaitTimeout:
            self.close()
        raise psycopg.OperationalError(f"no response in {max_wait_s:g} s")
