"""A fair lock between processes that write the same SQLite file, acquired before BEGIN IMMEDIATE.

SQLite gives its own lock to the process that asks at the right moment, and a busy process asks more often: it
can starve another. Here two file locks form a turnstile: a process holds the queue lock while it waits for
the write lock, so that a process which has just released the write lock cannot overtake the next one.

    queue lock (file-next) ──▶ write lock (file-turn) ──▶ release queue lock ──▶ write ──▶ release write lock

The kernel releases both when a process dies. A lock file that was removed or replaced excludes nobody; the
next process to open the store notices it (`store_files.py`). The holder writes its process id into the
store's marker, so that an error and `holdfast doctor` can name a process that hangs.
"""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType
from typing import Final, NamedTuple

import apsw

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.disk import lock, open_private, try_lock, unlock
from holdfast.core.errors import SettingsError, StoreBusy
from holdfast.stores.sqlite import forks
from holdfast.stores.sqlite.commit_record import read_holder

LOCK_SUFFIX: Final = "-turn"
QUEUE_SUFFIX: Final = "-next"
# The pauses between attempts before a thread waits; another process holds the lock for one commit.
BRIEF_PAUSES_S: Final = (0.0005, 0.001, 0.002, 0.004)


class WriteLock:
    """The write lock, as a context manager. Used by one thread at a time, the committer's."""

    def __init__(self, path: str, *, wait_s_max: float) -> None:
        self._path, self._wait_s_max = path, wait_s_max
        self._queue_file = _open_lock_file(path + QUEUE_SUFFIX)
        self._lock_file = _open_lock_file(path + LOCK_SUFFIX)
        self._state_lock = threading.Lock()
        self._acquired = threading.Event()
        self._is_queueing = self._is_wanted = self._is_closed = False
        forks.register(self)

    def __enter__(self) -> None:
        """Acquire the lock. Raise `StoreBusy` after `wait_s_max`."""
        if not (self._try_acquire() or self._retry_briefly() or self._wait_to_acquire()):
            raise StoreBusy(
                f"No write lock of {self._path} within {self._wait_s_max:g} s: "
                f"{describe_holder(self._path)}. Retry; if this persists, continue or end that process."
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unlock(self._lock_file)

    @property
    def inode(self) -> int:
        """Return the inode of the lock file, which all users of a store share."""
        return os.fstat(self._lock_file).st_ino

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

    def _retry_briefly(self) -> bool:
        """Try again for about as long as a commit takes: a thread that waits costs more than a few attempts.

        The queue lock is kept between the attempts, once this process has it.
        """
        for pause_s in BRIEF_PAUSES_S:
            time.sleep(pause_s)
            if self._try_acquire():
                return True
        return False

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


class Holder(NamedTuple):
    """A process that holds the write lock, and for how many seconds, if that is known."""

    process: int
    age_s: float | None

    def __str__(self) -> str:
        state = ", which is stopped," if self.is_stopped else ""
        age = "" if self.age_s is None else f" for {self.age_s:.0f} s"
        return f"process {self.process}{state} has held it{age}"

    @property
    def is_stopped(self) -> bool:
        """Return whether a signal or a debugger has stopped it; False where that cannot be seen."""
        try:
            with open(f"/proc/{self.process}/stat", encoding="ascii", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] in "Tt"
        except (OSError, IndexError):
            return False


def find_holder(path: str) -> Holder | None:
    """Return the process that holds the write lock of this file, or keeps others from it; None if the lock is
    free, or if that process cannot be named.
    """
    for suffix in (LOCK_SUFFIX, QUEUE_SUFFIX):
        try:
            descriptor = os.open(path + suffix, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if not try_lock(descriptor):
                return _identify_holder(path, os.fstat(descriptor).st_ino)
        finally:
            os.close(descriptor)
    return None


def describe_holder(path: str) -> str:
    """Return which process holds the write lock of this file, and for how long."""
    return str(find_holder(path) or "another process holds it")


def _identify_holder(path: str, inode: int) -> Holder | None:
    """Return the holder of a lock file: the kernel knows the process, the note in the marker since when."""
    noted, since = read_holder(path)
    process = _find_locking_process(inode) or noted
    if process <= 0:
        return None
    return Holder(process, max(0.0, SYSTEM_CLOCK.now() - since) if process == noted else None)


def _find_locking_process(inode: int) -> int:
    """Return the process that holds a lock on the file with this inode; 0 where the kernel does not say."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
                    return max(0, int(words[4]))
    except (OSError, ValueError, IndexError):
        return 0
    return 0


def _open_lock_file(path: str) -> int:
    """Open the file, created if it is missing. Raise `SettingsError` if that fails."""
    try:
        return open_private(path, os.O_RDWR)
    except OSError as error:
        raise SettingsError(f"Cannot create or open the lock file {path} ({error.strerror}).") from error
