"""A fair turn between processes that write the same file, taken before BEGIN IMMEDIATE.

SQLite gives the write lock to the process that asks at the right moment, and a busy process asks more often:
it can starve another. Here two file locks form a turnstile: a process holds the place while it waits for the
turn, so that a process which has just released the turn cannot overtake the next one.

    place (file-next) ──▶ turn (file-turn) ──▶ release the place ──▶ write ──▶ release the turn

The kernel releases both when a process dies. If the lock files are removed, only fairness suffers.
"""

from __future__ import annotations

import fcntl
import os
import threading
from types import TracebackType

import apsw

from holdfast.core.errors import SettingsError, StoreBusy
from holdfast.stores.sqlite import forks

TURN_SUFFIX = "-turn"
PLACE_SUFFIX = "-next"


class Turn:
    """The turn, as a context manager. Used by one thread at a time, the committer's."""

    def __init__(self, path: str, *, wait_s_max: float) -> None:
        self._path, self._wait_s_max = path, wait_s_max
        self._place = _open_lock(path + PLACE_SUFFIX)
        self._turn = _open_lock(path + TURN_SUFFIX)
        self._state = threading.Lock()
        self._arrived = threading.Event()
        self._queueing = self._wanted = self._closed = False
        forks.register(self)

    def __enter__(self) -> None:
        if not (self._taken_at_once() or self._waited_for()):
            raise StoreBusy(
                f"Another process has held {self._path} for more than {self._wait_s_max:g} s. "
                "Try again; if it stays so, look for a process that hangs."
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        forks.unregister(self)
        with self._state:
            if not self._closed and not self._queueing:
                self._close_files()
            self._closed = True

    def connections(self) -> list[apsw.Connection]:
        return []

    def after_fork_in_child(self) -> None:
        # The child shares these locks and would still hold them if its parent died.
        self._state, self._closed = threading.Lock(), True
        self._close_files()

    def _taken_at_once(self) -> bool:
        if self._queueing or not _try(self._place):
            return False
        if not _try(self._turn):
            return False
        fcntl.flock(self._place, fcntl.LOCK_UN)
        return True

    def _waited_for(self) -> bool:
        """Wait for the turn and return whether it came. The kernel's wait has no timeout, so a helper thread
        waits there, and this thread waits for the helper.
        """
        with self._state:
            self._wanted = True
            if not self._queueing:
                self._queueing = True
                self._arrived.clear()
                threading.Thread(target=self._queue_up, name=f"turn of {self._path}", daemon=True).start()
        if self._arrived.wait(self._wait_s_max):
            return True
        with self._state:
            self._wanted = False
            return self._arrived.is_set()

    def _queue_up(self) -> None:
        fcntl.flock(self._place, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        fcntl.flock(self._place, fcntl.LOCK_UN)
        with self._state:
            self._queueing = False
            if self._wanted and not self._closed:
                self._arrived.set()
            elif self._closed:
                self._close_files()
            else:
                fcntl.flock(self._turn, fcntl.LOCK_UN)

    def _close_files(self) -> None:
        os.close(self._place)
        os.close(self._turn)


def _open_lock(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SettingsError(f"Cannot make or open the lock file {path} ({error.strerror}).") from error


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
