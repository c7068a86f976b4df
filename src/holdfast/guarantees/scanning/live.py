"""How files are read that a database in this process may have open, and may cut off at any moment.

Closing any descriptor of a file takes away all locks that the process has on it (POSIX), those of SQLite included: another
process could then delete the log under us. So descriptors of databases and their logs are kept, one per file, for the life
of the process. And nothing is mapped into memory: where a mapped file is cut off, a read is a crash.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

OF_DATABASES: Final = (".db", "-wal", "-shm", "-journal")
CHUNK_BYTES: Final = 1 << 20

_kept: dict[tuple[int, int], int] = {}
_lock: Final = threading.Lock()


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """The file, from its beginning."""
    if not path.name.endswith(OF_DATABASES):
        with path.open("rb") as file:
            yield file
        return
    found = os.stat(path)
    with _lock:
        _let_go_of_deleted()
        place = (found.st_dev, found.st_ino)
        if place not in _kept:
            _kept[place] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(_kept[place], "rb", closefd=False) as file:
            file.seek(0)
            yield file


def _let_go_of_deleted() -> None:
    """No other process can come to a file that has no name any more."""
    for place, descriptor in list(_kept.items()):
        if os.fstat(descriptor).st_nlink == 0:
            os.close(_kept.pop(place))


class Content:
    """The bytes of a file, by offset. What was cut off meanwhile is empty."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()
        self.size = os.fstat(self._descriptor).st_size

    def at(self, start: int, count: int) -> bytes:
        return os.pread(self._descriptor, count, start)

    def has(self, wanted: bytes) -> bool:
        start, tail = 0, b""
        while chunk := self.at(start, CHUNK_BYTES):
            if wanted in tail + chunk:
                return True
            tail, start = (tail + chunk)[-len(wanted) :], start + len(chunk)
        return False
