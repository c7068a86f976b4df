"""Verification of a write-ahead log while it is in use, by SQLite's own recovery.

SQLite compares the checksums of the log's frames only when the first process opens a file after a crash. Here
a second connection recovers the same log: with a database of one page in memory in place of the file, and its
index in private memory, so that it takes no lock and changes nothing. That takes about 2 µs for a page.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

import apsw

_VFS_NAME: Final = "holdfast-log"
_HEADER: Final = b"SQLite format 3\0"
_WAL_FORMAT: Final = bytes([2, 2, 0, 64, 32, 32])


def count_valid_frames(log: int, page_bytes: int) -> int:
    """Return how many frames of an open log SQLite would accept after a crash, up to the last whole
    transaction. `log` is its descriptor.
    """
    _register()
    connection = apsw.Connection(f"{page_bytes}:{log}", vfs=_VFS_NAME)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("locking_mode", "exclusive")
        connection.pragma("schema_version")
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        return max(0, frames)
    finally:
        connection.close()


class _LogVfs(apsw.VFS):
    """Opens a log for reading, and a page in memory as its database. The name of the database has both."""

    def __init__(self) -> None:
        super().__init__(_VFS_NAME, "")

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return pathname.endswith("-wal")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        flags[1] = flags[0]
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        page_bytes, _, log = path.partition(":")
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            return _Log(int(log.removesuffix("-wal")))
        return _Page(int(page_bytes))


class _Page(apsw.VFSFile):
    """A database of one page."""

    def __init__(self, page_bytes: int) -> None:
        size = page_bytes % 65536 or 1
        head = _HEADER + size.to_bytes(2, "big") + _WAL_FORMAT + bytes(4) + (1).to_bytes(4, "big")
        self._content = head.ljust(page_bytes, b"\0")

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return self._content[offset : offset + amount]

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._content)

    def xLock(self, level: int) -> None:  # noqa: N802
        """Do nothing: no other connection has this file."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Do nothing, as in `xLock`."""

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return 0

    def xSectorSize(self) -> int:  # noqa: N802
        return 4096

    def xClose(self) -> None:  # noqa: N802
        """Do nothing: there is no file."""


class _Log(_Page):
    """A log that is only read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return os.pread(self._descriptor, amount, offset)

    def xFileSize(self) -> int:  # noqa: N802
        return os.fstat(self._descriptor).st_size


@cache
def _register() -> _LogVfs:
    """Register the VFS with SQLite, once."""
    return _LogVfs()
