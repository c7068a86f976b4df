"""The record of the last acknowledged commit: how far the write-ahead log must reach when the file is opened.

After a crash SQLite takes a log that was removed or cut for a log that was never written. The record is kept
in the store's marker, outside of the database and its log, and is written after each commit has been synced.
It therefore never names more than what is on disk: a log that is shorter than the record has lost
acknowledged transactions. It is not synced itself, so after a power failure it may name less.

Before the log is truncated the record is cleared and synced: a power failure in between must not leave a
record of a log that is rightly gone.
"""

from __future__ import annotations

import mmap
import os
import zlib
from typing import Final, NamedTuple

from holdfast.core.disk import sync
from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import IDENTITY_BYTES, get_marker_path

_LINE_BYTES: Final = 64
_END: Final = IDENTITY_BYTES + _LINE_BYTES
# SQLite adds one to the first salt each time it starts the log again.
_MAX_RESTARTS: Final = 1000
_WORD: Final = 2**32


class LogEnd(NamedTuple):
    """The end of a write-ahead log: the salts of its header in hexadecimal, and its number of frames."""

    salts: str
    frames: int


NO_LOG: Final = LogEnd("0" * 16, 0)


class CommitRecord:
    """The record of one file. Only the holder of the write lock uses it. The marker must exist.

    It is mapped into memory, because it is read and written with every commit.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(get_marker_path(path), os.O_RDWR | os.O_CLOEXEC)
        if os.fstat(self._descriptor).st_size < _END:
            os.pwrite(self._descriptor, _format(NO_LOG), IDENTITY_BYTES)
        self._mapping = mmap.mmap(self._descriptor, _END)

    def read(self) -> LogEnd:
        """Return the recorded end of the log; `NO_LOG` if there is none, or if the record is torn."""
        return _parse(self._mapping[IDENTITY_BYTES:_END])

    def write(self, end: LogEnd) -> None:
        """Record the end of the log after a synced commit."""
        self._mapping[IDENTITY_BYTES:_END] = _format(end)

    def clear(self) -> None:
        """Record that the log may be truncated, and return when that is on disk."""
        if self.read().frames:
            self.write(NO_LOG)
            self._mapping.flush()
            sync(self._descriptor)

    def close(self) -> None:
        self._mapping.close()
        os.close(self._descriptor)


def read_log_end(log: str) -> LogEnd | None:
    """Return the salts of a write-ahead log and how many frames of its page size fit in it; None if it is
    missing or has no header.
    """
    try:
        with open(log, "rb", buffering=0) as file:
            header = file.read(32)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    page_bytes = int.from_bytes(header[8:12], "big")
    if len(header) < 32 or not page_bytes:
        return None
    return LogEnd(header[16:24].hex(), (size - 32) // (24 + page_bytes))


def refuse_lost_log(path: str, recorded: LogEnd, found: LogEnd | None) -> None:
    """Raise `StoreFileError` if the log that was found is missing commits of the recorded one."""
    if not recorded.frames:
        return
    if found is not None and _is_restarted(recorded, found):
        return
    if found is not None and found.salts == recorded.salts and found.frames >= recorded.frames:
        return
    state = "is missing or empty" if found is None else "was cut or replaced"
    raise StoreFileError(
        f"The write-ahead log {path}-wal {state}: acknowledged transactions are lost, unless another SQLite "
        "program has moved them into the file. Nothing was changed: put the log back, or restore a backup. "
        f"To accept the file as it is, remove {get_marker_path(path)}."
    )


def _is_restarted(recorded: LogEnd, found: LogEnd) -> bool:
    """Return whether SQLite has started the log again since the record: then all of it is in the database."""
    steps = (int(found.salts[:8], 16) - int(recorded.salts[:8], 16)) % _WORD
    return 0 < steps <= _MAX_RESTARTS


def _format(end: LogEnd) -> bytes:
    """Return the record as a line of fixed length that ends with its checksum."""
    text = b"log %b frames %010d " % (end.salts.encode(), end.frames)
    return (text + b"sum %08x" % zlib.crc32(text)).ljust(_LINE_BYTES - 1) + b"\n"


def _parse(line: bytes) -> LogEnd:
    """Return the record of a line; `NO_LOG` if the line is missing or torn."""
    words = line.split()
    if len(words) != 6:
        return NO_LOG
    end = LogEnd(words[1].decode("ascii", "replace"), int(words[3]) if words[3].isdigit() else 0)
    return end if end.frames and _format(end) == line else NO_LOG
