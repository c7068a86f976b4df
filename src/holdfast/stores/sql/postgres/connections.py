"""A connection that does not wait for ever: it gives up on a server that hangs without responding.

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
MARGIN_S: Final = 5.0
_LOOK_S: Final = 0.1


class Connection(psycopg.Connection[Any]):
    """A connection with a limit on waiting. `statement_s_max` is the server's statement timeout; None waits
    for any time.
    """

    statement_s_max: float | None = None
    _under_way: int = 1

    @contextmanager
    def expecting(self, statements: int) -> Iterator[None]:
        """Allow time for this many statements, sent before the first response; 0 if the server needs none."""
        self._under_way = statements
        try:
            yield
        finally:
            self._under_way = 1

    def break_off(self) -> None:
        """Break the connection, from any thread: a caller that waits for a response finds it lost."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def wait(self, gen: PQGen[T], interval: float = _LOOK_S, timeout: float | None = None) -> T:
        if timeout is not None or self.statement_s_max is None:
            return super().wait(gen, interval, timeout)
        longest_s = self._under_way * self.statement_s_max + MARGIN_S
        try:
            return super().wait(gen, interval, longest_s)
        except psycopg.errors._WaitTimeout:
            self.close()
        raise psycopg.OperationalError(f"no answer in {longest_s:g} s")
