"""Stop a process as a paused machine does, but never while it holds a write lock that all others wait for.

The committer of a process works in a thread of its own. A process that waits at a point of a test may hold
the lock for a moment nevertheless, and a stop would then block every writer for half a minute.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from holdfast.core.disk import try_lock
from holdfast.stores.sqlite.write_lock import LOCK_SUFFIX, QUEUE_SUFFIX

# The letter for a thread, or a process, that was stopped by a signal.
STOPPED = "T"
PAUSE_S = 0.001


def stop_outside_writes(pid: int, folder: Path) -> None:
    """Stop a process at a moment when no process holds the write lock of a store in the folder.

    The process waits for something that comes later: it may be continued and stopped again.
    """
    while True:
        os.kill(pid, signal.SIGSTOP)
        while not _is_stopped(pid):
            time.sleep(PAUSE_S)
        if _are_free(folder):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(PAUSE_S)


def _is_stopped(pid: int) -> bool:
    """Return whether every thread is stopped; a signal reaches them one after the other."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():  # macOS
        shown = subprocess.run(
            ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, check=True, text=True
        )
        return shown.stdout.startswith(STOPPED)
    return all(each.read_text().rpartition(")")[2].split()[0] == STOPPED for each in tasks.glob("*/stat"))


def _are_free(folder: Path) -> bool:
    """Return whether each lock of the stores in the folder can be had."""
    with ExitStack() as stack:
        for path in (*folder.rglob(f"*{LOCK_SUFFIX}"), *folder.rglob(f"*{QUEUE_SUFFIX}")):
            descriptor = os.open(path, os.O_RDWR)
            stack.callback(os.close, descriptor)
            if not try_lock(descriptor):
                return False
    return True
