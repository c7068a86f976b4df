"""Pauses a test's PostgreSQL server: its processes are stopped by a signal, its sockets stay open."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.stores.sql.postgres import EmbeddedServer


@contextmanager
def paused(server: EmbeddedServer) -> Iterator[None]:
    """Stop all processes of the server for the time of the context."""
    running = server.find_running()
    assert running is not None
    processes = [running.pid, *_child_processes(running.pid)]
    try:
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        yield
    finally:
        for each in reversed(processes):
            os.kill(each, signal.SIGCONT)


def _child_processes(pid: int) -> list[int]:
    """Return the ids of the direct child processes."""
    return [
        int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _parent(each) == pid
    ]


def _parent(process: Path) -> int | None:
    """Return the parent's id of a process, given by its folder in /proc, or None if it has ended."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
