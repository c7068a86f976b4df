"""Named pipes that wake the waiting receives of other processes after a commit to the file they share.

    queues.db   queues.db-waiting/4711-1f…   queues.db-waiting/4712-90…

A process with a waiting receive has a named pipe in the folder next to the file, and one thread that reads
it. A process that made a message visible writes one byte into each pipe after its commit. A pipe without a
reader cannot be opened for writing, and is removed. Where the system has no named pipes, waiting receives
still look once a second.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Final

from holdfast.core.disk import PRIVATE_FILE_MODE, make_private_folder
from holdfast.core.rng import make_hex_token

FOLDER_SUFFIX: Final = "-waiting"
# A name that other processes ignore: between its creation and its opening, a pipe looks abandoned.
HIDDEN_PREFIX: Final = "."
READ_BYTES: Final = 65536

log = logging.getLogger(__name__)


class WakeupPipe:
    """A named pipe that other processes write to.

    Its thread calls `on_wakeup` for every wake-up from another process.
    """

    def __init__(self, path: str, on_wakeup: Callable[[], None]) -> None:
        self._folder, self._on_wakeup = path + FOLDER_SUFFIX, on_wakeup
        self._process = os.getpid()
        self._name = f"{self._process}-{make_hex_token(8)}"
        self._lock = threading.Lock()
        self._pipe: int | None = None
        self._thread: threading.Thread | None = None
        self._is_disabled = False

    def listen(self) -> None:
        """Listen until `close`. A second call does nothing."""
        with self._lock:
            if self._thread is None and not self._is_disabled:
                self._start()

    def wake_others(self) -> None:
        """Write to the pipe of every other process that listens."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            # No process has ever waited here.
            return
        for name in names:
            if name != self._name and not name.startswith(HIDDEN_PREFIX):
                _write_byte(os.path.join(self._folder, name))

    def close(self) -> None:
        """Stop the thread and remove the pipe. A forked child leaves both to its parent."""
        with self._lock:
            thread, pipe, self._is_disabled = self._thread, self._pipe, True
            self._thread = self._pipe = None
        # A forked child does not have the thread, and does not own the pipe.
        if thread is None or pipe is None or os.getpid() != self._process:
            return
        os.write(pipe, b"\0")
        thread.join()
        os.close(pipe)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, self._name))

    def _start(self) -> None:
        """Create the pipe and start its thread.

        If the pipe cannot be created, log a warning and stay disabled.
        """
        try:
            self._pipe = self._make_pipe()
        except OSError as error:
            self._is_disabled = True
            log.warning(
                "Cannot create a named pipe in %s (%s): waiting receives look once a second.",
                self._folder,
                error,
            )
            return
        self._thread = threading.Thread(
            target=self._read, args=(self._pipe,), name=f"wake-ups of {self._folder}", daemon=True
        )
        self._thread.start()

    def _make_pipe(self) -> int:
        """Create the pipe, open it under a hidden name, then give it the name that other processes look
        for.
        """
        make_private_folder(self._folder)
        hidden = os.path.join(self._folder, HIDDEN_PREFIX + self._name)
        os.mkfifo(hidden, PRIVATE_FILE_MODE)
        os.chmod(hidden, PRIVATE_FILE_MODE)
        # Open for writing too: a read then waits for the next byte instead of ending with the last writer.
        pipe = os.open(hidden, os.O_RDWR | os.O_CLOEXEC)
        os.rename(hidden, os.path.join(self._folder, self._name))
        return pipe

    def _read(self, pipe: int) -> None:
        """Call `on_wakeup` for each read of the pipe until `close`. Runs in the thread."""
        while os.read(pipe, READ_BYTES) and not self._is_disabled:
            self._on_wakeup()


def _write_byte(path: str) -> None:
    """Write one byte without waiting; remove a pipe that no process reads any more."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        # The pipe has no reader: its process ended without removing it.
        with contextlib.suppress(OSError):
            os.unlink(path)
        return
    try:
        os.write(pipe, b"\0")
    except OSError:
        # The pipe is full of unread bytes (one is enough), or its reader has just closed it.
        return
    finally:
        os.close(pipe)
