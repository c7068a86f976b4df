"""Pauses a test's PostgreSQL server: its processes are stopped by a signal, its sockets stay open."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from holdfast.stores.sql.postgres import EmbeddedServer


@contextmanager
def paused(server: EmbeddedServer) -> Iterator[None]:
    """Stop all processes of the server for the time of the context."""
    running = server.find_running()
    assert running is not None
    processes = [running.pid, *(each.pid for each in psutil.Process(running.pid).children())]
    try:
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        yield
    finally:
        for each in reversed(processes):
            os.kill(each, signal.SIGCONT)
