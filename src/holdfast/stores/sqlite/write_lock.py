"""A fair lock between processes that write the same SQLite file, acquired before BEGIN IMMEDIATE.

SQLite gives its own lock to the process that asks at the right moment, and a busy process asks more often: it
can starve another. Here two file locks form a turnstile: a process holds the queue lock while it waits for
the write lock, so that a process which has just released the write lock cannot overtake the next one.

    queue lock (file-next) ──▶ write lock (file-turn) ──▶ release queue lock ──▶ write ──▶ release write lock

The kernel releases both when a process dies. If the lock files are removed, only fairness suffers. The holder
writes its process id into the lock file, so that an error can name a process that hangs.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from types import TracebackType

import apsw

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.disk import lock, try_lock, unlock
from holdfast.core.errors import SettingsError, StoreBusy
from holdfast.stores.sqlite import forks

_HOLDER = struct.Struct("<qd")
LOCK_SUFFIX = "-turn"
QUEUE_SUFFIX = "-next"


class WriteLock:
    """The write lock, as a context manager. Used by one thread at a time, the committer's."""

    def __init__(self, path: str, *, wait_s_max: float) -> None:
        self._path, self._wait_s_max = path, wait_s_max
        self._queue_file = _open_lock_file(path + QUEUE_SUFFIX)
        self._lock_file = _open_lock_file(path + LOCK_SUFFIX)
        self._holder = _map_holder(self._lock_file)
        self._state_lock = threading.Lock()
        self._acquired = threading.Event()
        self._is_queueing = self._is_wanted = self._is_closed = False
        forks.register(self)

    def __enter__(self) -> None:
        """Acquire the lock. Raise `StoreBusy` after `wait_s_max`."""
        if not (self._try_acquire() or self._wait_to_acquire()):
            raise StoreBusy(
                f"No write lock of {self._path} within {self._wait_s_max:g} s: "
                f"{describe_holder(self._path)}. Retry; if this persists, continue or end that process."
            )
        _HOLDER.pack_into(self._holder, 0, os.getpid(), SYSTEM_CLOCK.now())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unlock(self._lock_file)

    def close(self) -> None:
        """Close the lock files; if a helper thread still waits for the lock, it closes them."""
        forks.unregister(self)
        with self._state_lock:
            if not self._is_closed and not self._is_queueing:
                self._close_files()
            self._is_closed = True

    def connections(self) -> list[apsw.Connection]:
        """Return none: the lock holds files, not connections."""
        return []

    def after_fork_in_child(self) -> None:
        """Close the lock files in a forked child."""
        # The child shares these locks and would still hold them if its parent died.
        self._state_lock, self._is_closed = threading.Lock(), True
        self._close_files()

    def _try_acquire(self) -> bool:
        """Acquire both locks if they are free, without waiting. Return whether that succeeded."""
        if self._is_queueing or not try_lock(self._queue_file):
            return False
        if not try_lock(self._lock_file):
            return False
        unlock(self._queue_file)
        return True

    def _wait_to_acquire(self) -> bool:
        """Wait for the lock and return whether it was acquired.

        The kernel's wait has no timeout, so a helper thread waits there, and this thread waits for the
        helper.
        """
        with self._state_lock:
            self._is_wanted = True
            if not self._is_queueing:
                self._is_queueing = True
                self._acquired.clear()
                threading.Thread(
                    target=self._acquire_in_thread, name=f"write lock of {self._path}", daemon=True
                ).start()
        if self._acquired.wait(self._wait_s_max):
            return True
        with self._state_lock:
            self._is_wanted = False
            return self._acquired.is_set()

    def _acquire_in_thread(self) -> None:
        """Wait for the lock in the helper thread. Release it again if the waiting thread has given up."""
        lock(self._queue_file)
        lock(self._lock_file)
        unlock(self._queue_file)
        with self._state_lock:
            self._is_queueing = False
            if self._is_wanted and not self._is_closed:
                self._acquired.set()
            elif self._is_closed:
                self._close_files()
            else:
                unlock(self._lock_file)

    def _close_files(self) -> None:
        os.close(self._queue_file)
        os.close(self._lock_file)


def describe_holder(path: str) -> str:
    """Return which process took the write lock of this file last, and how long ago."""
    try:
        with open(path + LOCK_SUFFIX, "rb") as file:
            process, since = _HOLDER.unpack(file.read(_HOLDER.size))
    except (OSError, struct.error):
        return "another process holds it"
    age_s = max(0.0, SYSTEM_CLOCK.now() - since)
    state = ", which is stopped," if _is_stopped(process) else ""
    return f"process {process}{state} has held it for {age_s:.0f} s"


def _map_holder(lock_file: int) -> mmap.mmap:
    """Map the note of the holder, its process id and since when, which is written without a system call."""
    if os.fstat(lock_file).st_size < _HOLDER.size:
        os.ftruncate(lock_file, _HOLDER.size)
    return mmap.mmap(lock_file, _HOLDER.size)


def _is_stopped(process: int) -> bool:
    """Return whether the process is stopped by a signal or a debugger; False where that cannot be seen."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def _open_lock_file(path: str) -> int:
    """Open the file, created if it is missing. Raise `SettingsError` if that fails."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"Cannot create or open the lock file {path} ({error.strerror}).") from error
