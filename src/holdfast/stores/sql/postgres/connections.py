"""A connection that does not wait for ever: a server that stands still, and says nothing, is left.

PostgreSQL ends a statement by itself (`statement_timeout`), as long as it runs. Where no word has come some
seconds after that, nobody is there: the connection is closed, and the one who waits is told that it was lost.
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

# Beyond what the server itself gives a statement.
MARGIN_S: Final = 5.0
_LOOK_S: Final = 0.1


class Connection(psycopg.Connection[Any]):
    """`statement_s_max`: what the server gives each statement; None, and any answer is waited for."""

    statement_s_max: float | None = None
    _under_way: int = 1

    @contextmanager
    def expecting(self, statements: int) -> Iterator[None]:
        """So many are sent before the first is answered. None: what takes the server no time."""
        self._under_way = statements
        try:
            yield
        finally:
            self._under_way = 1

    def break_off(self) -> None:
        """From any thread: whoever waits for an answer finds the connection lost."""
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
