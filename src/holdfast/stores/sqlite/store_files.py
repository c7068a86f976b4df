"""The files of an open store, checked before a commit is acknowledged, once a second, and at the start.

SQLite keeps writing to a file that was deleted, replaced or truncated, and takes what is missing for new.
Three things prevent that: the store's id, kept in the database and in a marker next to it; the record of the
last acknowledged commit (`commit_record.py`); and a look at both files around each commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from time import perf_counter, sleep
from typing import Any, Final
from urllib.parse import quote

import apsw

from holdfast.core.errors import StoreFileError, StoreIOError
from holdfast.core.store_marker import (
    ID_CHARACTERS,
    get_marker_path,
    refuse_lost_store,
    require_same_store,
)
from holdfast.stores.sqlite.checksums import register_checksum_vfs
from holdfast.stores.sqlite.commit_record import (
    ANY_SALTS,
    UNKNOWN_SALTS,
    CommitRecord,
    LastCommit,
    read_last_commit,
    refuse_lost_log,
    refuse_other_log,
)
from holdfast.stores.sqlite.log_check import count_valid_frames
from holdfast.stores.sqlite.log_damage import (
    WAL_SUFFIX,
    find_pages,
    get_size,
    read_log_header,
    refuse_lost_database,
)
from holdfast.stores.sqlite.log_index import SHM_SUFFIX, LogIndex, describe_damaged_index
from holdfast.stores.sqlite.schema import read_store_id
from holdfast.stores.sqlite.write_lock import LOCK_SUFFIX

_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_SALTS_AT, _SALTS_BYTES = 16, 8
_LOOK_S: Final = 0.1
# Another process may be moving the log into the database that is inspected.
_INSPECTIONS: Final = 20
_INSPECTION_PAUSE_S: Final = 0.05
# Another process may be truncating the log that is looked at.
_CHECKS: Final = 3


def refuse_lost_files(path: str) -> None:
    """Raise `StoreFileError` if data was at this path, and the database or its log is missing, cut or older.

    Call it with the write lock, before SQLite looks at the files: it would create what is missing.
    """
    refuse_missing_database(path)
    try:
        record = CommitRecord(path)
    except FileNotFoundError:
        return
    try:
        if not record.enter():
            _refuse_other_files(path, record)
        _refuse_wrong_files(path, record.read())
    finally:
        record.close()


def expect_migration(path: str) -> None:
    """Let any log follow the files of a store that is about to be migrated: its commits are not recorded."""
    try:
        record = CommitRecord(path)
    except FileNotFoundError:
        return
    last = record.read()
    if not last.frames:
        record.write(last._replace(salts=ANY_SALTS))
        record.sync()
    record.close()


def refuse_missing_database(path: str) -> None:
    """Raise `StoreFileError` if the database is missing or empty, and a log or the marker says that it was
    not.
    """
    refuse_lost_database(path)
    refuse_lost_store(path, lambda: get_size(path) > 0)


def check_files(path: str) -> None:
    """Raise `StoreFileError` for what `refuse_lost_files` does, without the write lock; only read."""
    refuse_missing_database(path)
    for _ in range(_CHECKS):
        last = read_last_commit(path)
        try:
            _refuse_wrong_files(path, last)
            return
        except StoreFileError:
            if read_last_commit(path) == last:
                raise
            # Another process has just truncated the log.


def refuse_truncated_database(connection: apsw.Connection, path: str) -> None:
    """Raise `StoreFileError` if the file ends before pages that are not in the log either.

    SQLite notices such a page only when it needs it: an unused one, when it is used again. Call it outside
    of a transaction. Without the write lock, other processes may move the log into the file meanwhile.
    """
    page_bytes: int = connection.pragma("page_size")
    present = pages = 0
    for _ in range(_CHECKS):
        pages = connection.pragma("page_count")
        present = get_size(path) // page_bytes
        if present >= pages:
            return
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        logged = find_pages(path + WAL_SUFFIX, page_bytes, frames) if frames else set()
        if set(range(present + 1, pages + 1)) <= logged:
            return
    raise StoreFileError(
        f"{path} was truncated: it has {present:,} of {pages:,} pages. It takes no more writes: restore it "
        "from a backup."
    )


class StoreFiles:
    """The database file and the log of an open store. Only the holder of the write lock uses it."""

    def __init__(
        self,
        connection: apsw.Connection,
        path: str,
        *,
        has_default_vfs: bool = True,
        records_commits: bool = True,
        on_loss: Callable[[StoreFileError], None] = lambda loss: None,
    ) -> None:
        """Take note of the files, after the log was recovered and the schema migrated.

        `on_loss` is called once a check finds that they are no longer the files of the store.
        """
        self._path, self._log_path = path, path + WAL_SUFFIX
        self._has_default_vfs, self._records_commits = has_default_vfs, records_commits
        self._on_loss, self._loss = on_loss, ""
        self._page_bytes: int = connection.pragma("page_size")
        self._frame_bytes = _FRAME_HEADER_BYTES + self._page_bytes
        refuse_truncated_database(connection, self._path)
        self._id = read_store_id(connection)
        require_same_store(path, self._id)
        self._log_descriptor = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)
        self._index = LogIndex(path, self._log_descriptor)
        # By SQLite's own VFS: closing the file in another way would drop the locks of this process on it.
        self._file = apsw.VFSFile("unix", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        self._inodes, self._look_at = _read_inodes(path), 0.0
        self._inode, self._generation = self._inodes[0], 0
        self._enter(connection)
        self.note_database()

    def begin_commit(self, connection: apsw.Connection) -> LastCommit:
        """Return the record of the last commit of any process.

        Raise `StoreFileError` if a loss was found before, or if the log is another one or shorter than after
        that commit: the next one would write behind the gap and hide it. Look at the paths of all files ten
        times a second: a log that was removed can still be read by this process, and is missed at the next
        start.
        """
        self.refuse_loss()
        if perf_counter() > self._look_at:
            self._look_at_paths(connection)
        if not self._index.is_intact():
            raise self._report(describe_damaged_index(self._path))
        last = self._record.hold()
        if self._is_log_lost(last):
            if self._restore_marker(connection):
                # The record was in a marker that another process no longer uses.
                last = self._record.hold()
            if self._is_log_lost(last):
                raise self._report(self._describe_loss())
        self._last = self._clear_moved_log(connection, last)
        if not self._last.frames and self._last.salts == UNKNOWN_SALTS:
            self.require_same_database(connection)
            self._last = self._start_log(connection, self._last)
        return self._last

    @property
    def is_lost(self) -> bool:
        """Return whether a check has found that these are no longer the files of the store."""
        return bool(self._loss)

    def refuse_loss(self) -> None:
        """Raise `StoreFileError` if a check has found a loss. It stays: what follows may be lost too."""
        if self._loss:
            raise StoreFileError(self._loss)

    def confirm_commit(self, connection: apsw.Connection, frames: int) -> None:
        """Raise `StoreFileError` if the commit that was just synced would be lost; otherwise record it.

        `frames` is the number of frames in the log after the commit, 0 if it wrote nothing.
        """
        if not self.is_database_unchanged():
            self._inspect_database(connection)
        if not (self._records_commits and frames):
            return
        self._index.note()
        # Each time: SQLite may have started the log again, and no number of frames shows that it has not.
        salts = os.pread(self._log_descriptor, _SALTS_BYTES, _SALTS_AT)
        last = self._last
        try:
            self._record.write(LastCommit(salts, frames, last.generation, last.version))
        except OSError as error:
            raise StoreIOError(
                f"The marker of {self._path} cannot be written ({error.strerror}): the transaction is "
                "stored, but not acknowledged. Free some space on the disk, and read before you retry."
            ) from error

    def is_log_empty(self) -> bool:
        """Return whether the log was truncated. Any thread may ask."""
        try:
            return os.lseek(self._log_descriptor, 0, os.SEEK_END) == 0
        except OSError:
            return False

    def require_same_database(self, connection: apsw.Connection) -> None:
        """Raise `StoreFileError` if the database was deleted, replaced, truncated or overwritten."""
        if not self.is_database_unchanged():
            self._inspect_database(connection)

    def is_database_unchanged(self) -> bool:
        """Return whether the database is as it was when this process last wrote or inspected it."""
        try:
            found = os.stat(self._path)
        except OSError:
            return False
        return _describe_state(found) == self._seen and found.st_ino == self._inode

    def is_unchanged(self) -> bool:
        """Return whether all files are those that were opened, and the database is as it was last seen."""
        return (
            self.is_database_unchanged()
            and _read_inodes(self._path) == self._inodes
            and self._record.is_at_path()
        )

    def require_same(self, connection: apsw.Connection) -> None:
        """Raise `StoreFileError` if one of the files is not the one that was opened."""
        self._look_at_paths(connection)
        self.require_same_database(connection)

    def _look_at_paths(self, connection: apsw.Connection) -> None:
        """Raise `StoreFileError` if one of the files is not at its path any more. Write a marker that was
        removed again.
        """
        self.require_same_paths()
        self._restore_marker(connection)

    def require_same_paths(self) -> None:
        """Raise `StoreFileError` if one of the files is not at its path any more, or the database is empty.

        A connection that is opened after that would find other files than those that are open.
        """
        self._look_at = perf_counter() + _LOOK_S
        if _read_inodes(self._path) != self._inodes or not get_size(self._path):
            raise self._report(self._describe_loss())

    def _is_log_lost(self, last: LastCommit) -> bool:
        """Return whether the log is another one, or ends before the last recorded frame."""
        if not last.frames:
            return False
        size = os.lseek(self._log_descriptor, 0, os.SEEK_END)
        return size < _HEADER_BYTES + last.frames * self._frame_bytes or self._read_salts() != last.salts

    def require_current(self) -> None:
        """Raise `StoreFileError` if a connection that is opened now would read another database.

        Unlike the other checks, it needs no write lock.
        """
        self.require_same_paths()
        if self._has_default_vfs and not self.is_database_unchanged():
            try:
                _refuse_older_database(self._path, self._record.read().generation, must_read=False)
            except StoreFileError as error:
                raise self._report(error) from error.__cause__

    def require_whole_pages(self) -> None:
        """Raise `StoreFileError` if the database ends within a page: SQLite would read zeros for the rest.

        Any reader may call it. Another process may be writing the last page.
        """
        for _ in range(_INSPECTIONS):
            try:
                if not self._file.xFileSize() % self._page_bytes:
                    return
            except apsw.VFSFileClosedError:
                return  # Its connection is closed too.
            sleep(_INSPECTION_PAUSE_S)
        raise self._report(StoreFileError(f"{self._path} was truncated. Restore it from a backup."))

    def verify(self, connection: apsw.Connection) -> None:
        """Raise `StoreFileError` if the database was replaced, or acknowledged frames of the log are damaged.

        Call it before pages of the log are copied: as pages of the database they get valid checksums. Like
        `begin_commit`, it must come before any other write.
        """
        self.require_same_database(connection)
        if not self._index.is_complete():
            raise self._report(describe_damaged_index(self._path))
        last = self._clear_moved_log(connection, self._record.read())
        if not last.frames:
            return
        try:
            refuse_lost_log(self._path, last, _read_log(self._log_descriptor))
        except StoreFileError as error:
            raise self._report(error) from error.__cause__

    def truncate_log(self, connection: apsw.Connection) -> None:
        """Move the whole log into the database, then truncate it. Raise `apsw.BusyError` if readers block it.

        Also after a loss, if the log is still whole: this saves what was acknowledged before. The record is
        cleared in between: from then on the log holds nothing that the database does not.
        """
        self.verify(connection)
        if not os.fstat(self._log_descriptor).st_size:
            return
        generation = self._next_generation(connection)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        self._restore_marker(connection)
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        self._clear_record(self._record.read()._replace(generation=generation), frames)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self.note_database()

    def move_log(self, connection: apsw.Connection) -> None:
        """Move as much of the log into the database as readers allow, without waiting for them.

        The database gets its next generation first: a copy from before is then told from it. On a full disk
        it keeps its own, because the checkpoint can free the log.
        """
        self.verify(connection)
        with suppress(apsw.FullError):
            self._next_generation(connection)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._clear_moved_log(connection, self._record.read())
        self.note_database()

    def note_database(self) -> None:
        """Remember the database as it is after a checkpoint of this process."""
        self._seen = _describe_state(os.stat(self._path))

    def close(self) -> None:
        self._record.close()
        # A reader may still ask: not about a file that is opened after this.
        descriptor, self._log_descriptor = self._log_descriptor, -1
        os.close(descriptor)
        self._file.xClose()

    def _enter(self, connection: apsw.Connection) -> None:
        """Record what is open, for the processes that open the store next, and what was recovered."""
        self._record = CommitRecord(self._path)
        if self._record.enter():
            self._record.write_inodes(self._inodes)
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        last = self._record.read()
        version, generation = connection.pragma("user_version"), max(last.generation, self._generation)
        last = last._replace(version=version, generation=generation, salts=self._read_salts(), moved=0)
        self._record.write(last._replace(frames=max(frames, 0) if self._records_commits else 0))

    def _start_log(self, connection: apsw.Connection, last: LastCommit) -> LastCommit:
        """Write the first transaction into an empty log, and record its salts, which SQLite draws then.

        On disk, the record says at each moment which log may be there: an older one is told from it.
        """
        self._record.write(last)
        self._record.sync()
        self._next_generation(connection)
        frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        started = last._replace(salts=self._read_salts(), frames=frames)
        self._record.write(started)
        self._record.sync()
        return started

    def _clear_record(self, last: LastCommit, frames: int) -> LastCommit:
        """Record on disk that all frames of the log are in the database; return what is recorded then."""
        cleared = last._replace(salts=self._read_salts(), frames=0, moved=max(frames, 0))
        self._record.write(cleared)
        self._record.sync()
        return cleared

    def _read_salts(self) -> bytes:
        """Return the salts of the log; `UNKNOWN_SALTS` of an empty one."""
        if not self._records_commits:
            return ANY_SALTS
        return os.pread(self._log_descriptor, _SALTS_BYTES, _SALTS_AT) or UNKNOWN_SALTS

    def _clear_moved_log(self, connection: apsw.Connection, last: LastCommit) -> LastCommit:
        """Clear the record, on disk, once a checkpoint has moved the whole log; return what is recorded then.

        Raise `StoreFileError` if SQLite sees less of the log than is recorded. SQLite may start the log again
        with the next write. From then on the record must not name the former log: a later one in its place
        would be a log that may have been cut.
        """
        if not last.frames:
            return last
        try:
            frames, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        except apsw.LockedError:
            # A failed unit has left a statement open. Until it is gone, this process moves nothing.
            return last
        if frames < last.frames:
            # The next commit would be written over recorded ones.
            raise self._report(describe_damaged_index(self._path))
        if moved != frames:
            return last
        return self._clear_record(last._replace(generation=_read_generation(connection)), frames)

    def _inspect_database(self, connection: apsw.Connection) -> None:
        """Look closer at a database that has changed: another process may have written a checkpoint."""
        self.require_same_paths()
        found = os.stat(self._path)
        try:
            refuse_truncated_database(connection, self._path)
            if self._has_default_vfs:
                generation = self._record.read().generation
                _refuse_older_database(self._path, generation, must_read=True)
        except StoreFileError as error:
            raise self._report(error) from error.__cause__
        self._seen = _describe_state(found)

    def _next_generation(self, connection: apsw.Connection) -> int:
        """Give the database its next generation, in a transaction, and return it."""
        with connection:
            connection.execute("UPDATE store_identity SET generation = generation + 1")
        return _read_generation(connection)

    def _restore_marker(self, connection: apsw.Connection) -> bool:
        """Write the marker again if it was removed, or use the one that another process has written; return
        whether it was not the one in use.
        """
        if self._record.is_at_path():
            return False
        with suppress(StoreFileError):
            self._generation = max(self._generation, self._record.read().generation)
        try:
            require_same_store(self._path, self._id)
        except StoreFileError as error:
            raise self._report(error) from error.__cause__
        self._record.close()
        self._enter(connection)
        return True

    def _report(self, loss: StoreFileError) -> StoreFileError:
        """Return the error after the readers have learned of it."""
        self._loss = loss.message
        self._on_loss(loss)
        return loss

    def _describe_loss(self) -> StoreFileError:
        return StoreFileError(
            f"{self._path} or its write-ahead log was deleted, moved, truncated or replaced while it was "
            "open, so it is no longer used. Restore the files and restart, or restart with another path."
        )


def _refuse_wrong_files(path: str, last: LastCommit) -> None:
    """Raise `StoreFileError` if the log or the database is not the recorded one, or a later one."""
    log = path + WAL_SUFFIX
    found = _find_log(log)
    refuse_lost_log(path, last, found)
    _refuse_older_database(path, last.generation, must_read=False)
    refuse_other_log(path, last, found, lambda frames: _has_first_only(path, frames))


def _has_first_only(path: str, frames: int) -> bool:
    """Return whether the first frames of the log hold nothing but the store's generation (`_start_log`)."""
    page_bytes, root = _read_identity_page(path)
    return find_pages(path + WAL_SUFFIX, page_bytes, frames) <= {root}


def _read_generation(connection: apsw.Connection) -> int:
    generation: int = connection.execute("SELECT generation FROM store_identity").get
    return generation


def _read_log(log: int) -> LastCommit | None:
    """Return the salts and the valid frames of an open log; None if it is empty, or its header is damaged."""
    header = read_log_header(log)
    if header is None:
        return None
    salts, page_bytes = header
    return LastCommit(salts, count_valid_frames(log, page_bytes))


def _find_log(path: str) -> LastCommit | None:
    """Return what `_read_log` does for a log that is not open; None if it is missing."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _read_log(log)
    finally:
        os.close(log)


def _refuse_older_database(path: str, generation: int, *, must_read: bool) -> None:
    """Raise `StoreFileError` if the database, without its log, is another store or an older copy of it.

    With `must_read`, raise it too if the database cannot be read like that. Otherwise a crash may have cut a
    checkpoint short, or the damage is reported when the file is opened.
    """
    if not generation:
        return
    found = _read_database_alone(path)
    for _ in range(_INSPECTIONS if must_read else 0):
        if found is not None:
            break
        sleep(_INSPECTION_PAUSE_S)
        found = _read_database_alone(path)
    if found is None:
        if must_read:
            raise StoreFileError(f"{path} was overwritten while it was open. Restore it from a backup.")
        return
    require_same_store(path, found[0])
    if found[1] < generation:
        raise StoreFileError(
            f"{path} is an older copy of this store, without the last acknowledged writes: its generation is "
            f"{found[1]}, but {get_marker_path(path)} names {generation}. Put the newer file back, or remove "
            f"{get_marker_path(path)} to accept this one."
        )


def _read_database_alone(path: str) -> tuple[str, int] | None:
    """Return the store's id and generation in the database file, as if it had no log; None if that fails."""
    found = _query_database_alone(path, "SELECT id, generation FROM store_identity")
    is_complete = isinstance(found, tuple) and isinstance(found[0], str) and isinstance(found[1], int)
    return found if is_complete and len(found[0]) == ID_CHARACTERS else None


def _read_identity_page(path: str) -> tuple[int, int]:
    """Return the size of pages, and the number of the page that holds the id and the generation; zeros if the
    database cannot be read without its log.
    """
    found = _query_database_alone(
        path,
        "SELECT page_size, rootpage FROM pragma_page_size, sqlite_schema WHERE name = 'store_identity'",
    )
    return found or (0, 0)


def _query_database_alone(path: str, sql: str) -> Any:
    """Return the first row of a query on the database file, as if it had no log; None if that fails."""
    address = f"file:{quote(path)}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        with closing(apsw.Connection(address, flags=flags, vfs=register_checksum_vfs())) as connection:
            return connection.execute(sql).get
    except apsw.Error:
        return None


def _refuse_other_files(path: str, record: CommitRecord) -> None:
    """Raise `StoreFileError` if other processes use files that are no longer at their paths."""
    recorded = record.read_inodes()
    if recorded is not None and recorded != _read_inodes(path):
        raise StoreFileError(
            f"Another process has {path} open, and its files were deleted or replaced since. Nothing was "
            "changed: stop every process that uses it, then restart."
        )


def _describe_state(found: os.stat_result) -> tuple[int, int, int]:
    """Return what changes with each change of a file. A copy may keep the time of its content, not both."""
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size


def _read_inodes(path: str) -> tuple[int, ...]:
    """Return the inodes of the database, its log, its index and its lock file; 0 for one that is missing."""
    return tuple(_read_inode(path + suffix) for suffix in ("", WAL_SUFFIX, SHM_SUFFIX, LOCK_SUFFIX))


def _read_inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
