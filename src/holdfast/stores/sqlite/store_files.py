"""The files of an open store, checked before a commit is acknowledged, and at the start.

SQLite keeps writing to a file that was deleted, replaced or truncated, and takes what is missing for new.
Three things prevent that: the store's id, kept in the database and in a marker next to it; the record of the
last acknowledged commit (`commit_record.py`); and a look at both files between a commit and its
acknowledgement.
"""

from __future__ import annotations

import os
from typing import Final

import apsw

from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import refuse_lost_store, require_same_store
from holdfast.stores.sqlite.commit_record import CommitRecord, LogEnd, read_log_end, refuse_lost_log
from holdfast.stores.sqlite.log_damage import (
    WAL_SUFFIX,
    find_pages,
    get_size,
    has_frames_after,
    refuse_lost_database,
)
from holdfast.stores.sqlite.schema import read_store_id
from holdfast.stores.sqlite.write_lock import WriteLock

_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_SALTS_AT, _SALTS_BYTES = 16, 8


def refuse_lost_files(path: str, *, wait_s_max: float) -> None:
    """Raise `StoreFileError` if data was at this path, and the database or its log is missing or cut.

    Nothing is changed, and SQLite has not looked at the files yet: it would create what is missing.
    """
    refuse_lost_database(path)
    if not get_size(path):
        refuse_lost_store(path)
        return
    try:
        record = CommitRecord(path)
    except FileNotFoundError:
        return
    try:
        if record.read().frames:
            _refuse_lost_log(path, record, wait_s_max)
    finally:
        record.close()


class StoreFiles:
    """The database file and the log of an open store. Only the holder of the write lock uses it."""

    def __init__(self, connection: apsw.Connection, path: str, *, records_commits: bool) -> None:
        """Check the files under the write lock, after the log was recovered and the schema migrated."""
        self._connection, self._path, self._log_path = connection, path, path + WAL_SUFFIX
        self._page_bytes: int = connection.pragma("page_size")
        self._frame_bytes = _FRAME_HEADER_BYTES + self._page_bytes
        self._records_commits = records_commits
        self._refuse_truncated_database()
        require_same_store(path, read_store_id(connection))
        self._log_descriptor = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)
        self._database, self._log = _identify(os.stat(path)), _identify(os.fstat(self._log_descriptor))
        self._min_bytes = 0
        self.record = CommitRecord(path)
        self._refuse_shortened_log()
        self.record_checkpoint()

    def require_whole_log(self) -> None:
        """Raise `StoreFileError` if the log was removed or replaced, or is shorter than after the last commit
        of any process.

        Call it before a transaction: its commit would write behind the gap and hide it.
        """
        try:
            log = os.stat(self._log_path)
        except OSError as error:
            raise self._report_lost_files() from error
        frames = self.record.read().frames
        if _identify(log) != self._log or (
            frames and log.st_size < _HEADER_BYTES + frames * self._frame_bytes
        ):
            raise self._report_lost_files()

    def confirm_commit(self, frames: int) -> None:
        """Raise `StoreFileError` if the commit that was just synced would be lost; otherwise record it.

        `frames` is the number of frames in the log after the commit, 0 if it wrote nothing.
        """
        self.require_same_files()
        if self._records_commits and frames:
            recorded = self.record.read()
            # The log has more frames, so it was most likely not started again: the salts are the same.
            salts = recorded.salts if 0 < recorded.frames < frames else self._read_salts()
            self.record.write(LogEnd(salts, frames))

    def require_same_files(self) -> None:
        """Raise `StoreFileError` if the database was deleted, replaced or truncated."""
        try:
            database = os.stat(self._path)
        except OSError as error:
            raise self._report_lost_files() from error
        if _identify(database) != self._database:
            raise self._report_lost_files()
        if database.st_size < self._min_bytes:
            # Another process may have rewritten it.
            self._refuse_truncated_database()
            self._min_bytes = database.st_size

    def truncate_log(self, connection: apsw.Connection) -> None:
        """Move the whole log into the database, then truncate it. Raise `apsw.BusyError` if readers block it.

        The record is cleared in between: from then on the log holds nothing that the database does not.
        """
        self.require_same_files()
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        self.record.clear()
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self.record_checkpoint()

    def record_checkpoint(self) -> None:
        """Remember the size of the database after a checkpoint: it only shrinks when it is rewritten."""
        self._min_bytes = os.stat(self._path).st_size

    def close(self) -> None:
        self.record.close()
        os.close(self._log_descriptor)

    def _refuse_shortened_log(self) -> None:
        """Raise `StoreFileError` if SQLite could not read the log to its recorded end."""
        recorded = self.record.read()
        frames, _ = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if frames >= recorded.frames or has_frames_after(self._log_path, self._page_bytes, frames):
            return
        refuse_lost_log(self._path, recorded, LogEnd(self._read_salts(), frames))

    def _read_salts(self) -> str:
        return os.pread(self._log_descriptor, _SALTS_BYTES, _SALTS_AT).hex()

    def _refuse_truncated_database(self) -> None:
        """Raise `StoreFileError` if the file ends before pages that are not in the log either."""
        pages: int = self._connection.pragma("page_count")
        present = os.stat(self._path).st_size // self._page_bytes
        if present >= pages:
            return
        frames, _ = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        logged = find_pages(self._log_path, self._page_bytes, frames)
        if not set(range(present + 1, pages + 1)) <= logged:
            raise StoreFileError(
                f"{self._path} was truncated: it has {present:,} of {pages:,} pages. It takes no more "
                "writes: restore it from a backup."
            )

    def _report_lost_files(self) -> StoreFileError:
        return StoreFileError(
            f"{self._path} or its write-ahead log was deleted, moved, truncated or replaced while it was "
            "open, so it takes no more writes. Restore the files and restart, or restart with another path."
        )


def _refuse_lost_log(path: str, record: CommitRecord, wait_s_max: float) -> None:
    """Compare the log with the record, while no process writes."""
    lock = WriteLock(path, wait_s_max=wait_s_max)
    try:
        with lock:
            refuse_lost_log(path, record.read(), read_log_end(path + WAL_SUFFIX))
    finally:
        lock.close()


def _identify(found: os.stat_result) -> tuple[int, int]:
    """Return device and inode, which change if the file at a path is replaced."""
    return found.st_dev, found.st_ino
