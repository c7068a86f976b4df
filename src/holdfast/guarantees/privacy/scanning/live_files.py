"""Reads files that a database in this process may have open, without releasing its locks.

Closing any descriptor of a file releases all POSIX locks that the process has on it, including SQLite's:
another process could then delete the log while it is in use. So descriptors of databases and their logs are
kept, one per file, for the life of the process. Nothing is memory-mapped: reading a truncated mapping
crashes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

DATABASE_SUFFIXES: Final = (".db", "-wal", "-shm", "-journal")
CHUNK_BYTES: Final = 1 << 20

_descriptors: dict[tuple[int, int], int] = {}
_lock: Final = threading.Lock()


@contextmanager
def open_live(path: Path) -> Iterator[BinaryIO]:
    """Open the file for reading from its start.

    The descriptor of a database file is shared and stays open.
    """
    if not path.name.endswith(DATABASE_SUFFIXES):
        with path.open("rb") as file:
            yield file
        return
    found = os.stat(path)
    with _lock:
        _close_deleted()
        place = (found.st_dev, found.st_ino)
        if place not in _descriptors:
            _descriptors[place] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(_descriptors[place], "rb", closefd=False) as file:
            file.seek(0)
            yield file


def _close_deleted() -> None:
    """Close the descriptors of deleted files, which no other process can open any more."""
    for place, descriptor in list(_descriptors.items()):
        if os.fstat(descriptor).st_nlink == 0:
            os.close(_descriptors.pop(place))


class FileContent:
    """The bytes of a file by offset. Truncated parts read as empty."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self.size = os.fstat(self._descriptor).st_size

    def read_at(self, start: int, count: int) -> bytes:
        """Return up to `count` bytes from offset `start`; fewer at the end of the file."""
        return os.pread(self._descriptor, count, start)

    def contains(self, wanted: bytes) -> bool:
        """Return True if the bytes occur anywhere in the file."""
        start, tail = 0, b""
        while chunk := self.read_at(start, CHUNK_BYTES):
            if wanted in tail + chunk:
                return True
            tail, start = (tail + chunk)[-len(wanted) :], start + len(chunk)
        return False
