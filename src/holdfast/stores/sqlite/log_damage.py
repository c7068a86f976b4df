"""Detection of a damaged write-ahead log when a file is opened, before any write builds on it.

After a crash SQLite reads the log up to the first frame with a wrong checksum and discards the rest. That is
right for a transaction that was being written when the power failed: it was never acknowledged. If a frame in
the middle is damaged, however, acknowledged transactions follow it. Every commit is synced before the next
one is written, so a crash tears at most one transaction. Two transactions after the end that SQLite found,
the second written on top of the first, mean damage.

Not detected here, because it looks like a crash: a log that was removed or truncated, and damage in its last
transaction. The record of the last commit detects those (`commit_record.py`).

This module opens the log in addition to SQLite. That is safe: SQLite's locks are on the database and the
`-shm` file.
"""

from __future__ import annotations

import os
import struct
from itertools import islice
from typing import NamedTuple

import apsw

from holdfast.core.disk import sync
from holdfast.core.errors import StoreFileError

WAL_SUFFIX = "-wal"

# SQLite's file format: magic, version, page size, checkpoint count, salts and the checksum of these; then for
# each frame page number, pages of the database, salts and checksum, and the page. All big-endian, but the
# words that checksums add up are in the order that the magic says.
_HEADER = struct.Struct(">IIII8sII")
_FRAME = struct.Struct(">II8sII")
_HEADER_SUMMED_BYTES, _FRAME_SUMMED_BYTES = 24, 8
_PAGE_BYTES_AT = 8
_MAGIC_BIG_ENDIAN = 0x377F0683
_MAX_WORD = 0xFFFFFFFF
_MAX_TORN_TRANSACTIONS = 1


def refuse_lost_database(path: str) -> None:
    """Raise `StoreFileError` if the database is empty or missing but has a log.

    SQLite would treat it as new and delete the log, which may hold all the data. The log is checked first: a
    file that another process is creating has its first page before it has a log.
    """
    log = path + WAL_SUFFIX
    if get_size(log) and not get_size(path):
        raise StoreFileError(
            f"{path} is empty or missing, but its write-ahead log {log} exists: the file was moved, "
            "truncated "
            f"or deleted. Nothing was changed: restore the file or a backup, or move {log} away to start "
            "empty."
        )


def refuse_damaged_log(connection: apsw.Connection, path: str) -> None:
    """Raise `StoreFileError` if the log is damaged; also sync the log.

    Call this after a first read, in WAL mode. Other processes may have the file open, and may even be
    writing.
    """
    log = path + WAL_SUFFIX
    if get_size(log) <= _HEADER.size:
        return
    valid, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    page_bytes: int = connection.pragma("page_size")
    with open(log, "rb", buffering=0) as file:
        # A killed process may have left a transaction that is not on disk yet. Ours would be written on top
        # of it, and a power failure could then tear two.
        sync(file.fileno())
        if not _WriteAheadLog(file.fileno(), page_bytes).is_damaged_after(valid):
            return
    raise StoreFileError(
        f"The write-ahead log {log} is damaged after frame {valid}, and acknowledged transactions follow the "
        "damage. Nothing was changed: restore a backup, or open copies of the file and its log with the "
        "sqlite3 shell to recover the transactions before it."
    )


def find_pages(log: str, page_bytes: int, frames: int) -> set[int]:
    """Return the numbers of the pages that the first `frames` frames of a log hold, as far as it has them."""
    with open(log, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size < _HEADER.size:
            return set()
        found = _WriteAheadLog(file.fileno(), page_bytes)
        last = min(frames, found.frame_count)
        return {found.read_frame(number).page_number for number in range(1, last + 1)}


def read_log_header(log: int) -> tuple[bytes, int] | None:
    """Return the salts and the page size of an open log; None if it is empty, or its header is damaged."""
    if os.fstat(log).st_size < _HEADER.size:
        return None
    page_bytes = int.from_bytes(os.pread(log, 4, _PAGE_BYTES_AT), "big")
    found = _WriteAheadLog(log, page_bytes)
    return (found.salts, page_bytes) if found.is_header_valid else None


class _Frame(NamedTuple):
    """A frame without its page. `database_pages` is 0 in all frames but the last of a transaction."""

    page_number: int
    database_pages: int
    salts: bytes
    checksum: tuple[int, int]


class _WriteAheadLog:
    """The frames of a write-ahead log, counted from 1 as SQLite counts them."""

    def __init__(self, descriptor: int, page_bytes: int) -> None:
        self._descriptor, self._page_bytes = descriptor, page_bytes
        self.frame_count = (os.fstat(descriptor).st_size - _HEADER.size) // (_FRAME.size + page_bytes)
        header = os.pread(descriptor, _HEADER.size, 0)
        magic, _, _, _, self.salts, *checksum = _HEADER.unpack(header)
        self._word_pair = struct.Struct(">II" if magic == _MAGIC_BIG_ENDIAN else "<II")
        self._header_checksum = (checksum[0], checksum[1])
        self.is_header_valid = self._checksum(header[:_HEADER_SUMMED_BYTES], (0, 0)) == self._header_checksum
        if self.frame_count and not self.is_header_valid:
            # SQLite then ignores the whole log. The first frame's salts identify the frames that belong
            # together.
            self.salts = self.read_frame(1).salts

    def is_damaged_after(self, valid: int) -> bool:
        """Return whether acknowledged transactions follow frame number `valid`, the last one that SQLite
        accepted.
        """
        # The frame headers nearly always show that nothing is wrong, and are quick to read.
        commits = (number for number in range(valid + 1, self.frame_count + 1) if self._is_commit(number))
        if len(list(islice(commits, _MAX_TORN_TRANSACTIONS + 1))) <= _MAX_TORN_TRANSACTIONS:
            return False
        # Frames that SQLite could have read and did not are not damage: the log is about to restart, all of
        # it being in the file, or another process has just written.
        return not self._continues_after(valid) and self._has_chain_after(valid)

    def _is_commit(self, number: int) -> bool:
        """Return whether the frame with this number ends a transaction of the current log."""
        frame = self.read_frame(number)
        return frame.salts == self.salts and frame.database_pages > 0

    def _continues_after(self, valid: int) -> bool:
        """Return whether a whole transaction that SQLite would accept follows the valid frames."""
        if not (valid or self.is_header_valid):
            return False
        before = self.read_frame(valid).checksum if valid else self._header_checksum
        for number in range(valid + 1, self.frame_count + 1):
            if not self._follows(number, before):
                return False
            if self._is_commit(number):
                return True
            before = self.read_frame(number).checksum
        return False

    def _has_chain_after(self, valid: int) -> bool:
        """Return whether more transactions than a crash can tear were written one on top of the other.

        Several writers that were killed, or whose disk failed, may each have left the end of a transaction
        here, written over the one before. None of those was written on top of another; in a chain, each
        checksum builds on the one before it.
        """
        commits, before = 0, None
        for number in range(valid + 1, self.frame_count + 1):
            if before is None or not self._follows(number, before):
                commits = 0
            commits += self._is_commit(number)
            if commits > _MAX_TORN_TRANSACTIONS:
                return True
            before = self.read_frame(number).checksum
        return False

    def _follows(self, number: int, before: tuple[int, int]) -> bool:
        """Return whether the frame's checksum builds on `before`, the checksum of the frame before it."""
        frame = self.read_frame(number)
        if frame.salts != self.salts:
            return False
        content = os.pread(self._descriptor, _FRAME.size + self._page_bytes, self._offset(number))
        head, page = content[:_FRAME_SUMMED_BYTES], content[_FRAME.size :]
        return self._checksum(page, self._checksum(head, before)) == frame.checksum

    def read_frame(self, number: int) -> _Frame:
        """Return the header of the frame with this number."""
        content = os.pread(self._descriptor, _FRAME.size, self._offset(number))
        page_number, database_pages, salts, *checksum = _FRAME.unpack(content)
        return _Frame(page_number, database_pages, salts, (checksum[0], checksum[1]))

    def _offset(self, number: int) -> int:
        """Return where the frame with this number begins in the file."""
        return _HEADER.size + (number - 1) * (_FRAME.size + self._page_bytes)

    def _checksum(self, content: bytes, before: tuple[int, int]) -> tuple[int, int]:
        """Return SQLite's running checksum of `content`, continued from `before`."""
        first, second = before
        for one, other in self._word_pair.iter_unpack(content):
            first = (first + one + second) & _MAX_WORD
            second = (second + other + first) & _MAX_WORD
        return first, second


def get_size(path: str) -> int:
    """Return the size of the file in bytes, 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
