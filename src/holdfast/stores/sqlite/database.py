"""A SQLite database, in a file or in memory: the interface of this layer for the stores.

`Database.open` first refuses, without changing anything, an SQLite that is too old, an unusable path, and a
file that is foreign, damaged or too new. Then it migrates an older file and starts the committer.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import apsw

from holdfast.core.disk import create_private_file, require_posix
from holdfast.core.errors import SettingsError, StoreBusy, StoreFileError
from holdfast.core.store_marker import read_marker, refuse_lost_store
from holdfast.stores.sqlite import forks
from holdfast.stores.sqlite.batch import Batch, Work
from holdfast.stores.sqlite.checksums import CHECKSUM_BYTES, add_checksums, has_checksums
from holdfast.stores.sqlite.commit_futures import CommitFuture
from holdfast.stores.sqlite.committer import Committer, GroupCommitter
from holdfast.stores.sqlite.connections import (
    MEMORY,
    Tuning,
    open_reader,
    open_writer,
    require_sqlite,
    use_wal,
)
from holdfast.stores.sqlite.errors import map_error
from holdfast.stores.sqlite.inline_committer import InlineCommitter
from holdfast.stores.sqlite.log_damage import refuse_damaged_log
from holdfast.stores.sqlite.log_index import refuse_damaged_index
from holdfast.stores.sqlite.readers import Reader, Readers, ThreadReaders
from holdfast.stores.sqlite.schema import (
    Schema,
    check_identity,
    has_store_id,
    is_blank,
    migrate,
    read_version,
)
from holdfast.stores.sqlite.shared_reader import SharedReader
from holdfast.stores.sqlite.store_files import (
    StoreFiles,
    expect_migration,
    refuse_lost_files,
    refuse_missing_database,
)
from holdfast.stores.sqlite.write_lock import WriteLock

DEFAULTS = Tuning()

log = logging.getLogger(__name__)

T = TypeVar("T")


class Database:
    """A database, created by `open`.

    All methods are thread-safe, except those that open, close or check it.
    """

    def __init__(
        self,
        path: str,
        writer: apsw.Connection,
        committer: Committer,
        readers: Readers,
        write_lock: WriteLock | None = None,
        files: StoreFiles | None = None,
    ) -> None:
        self.path, self.committer, self.has_checksums = path, committer, has_checksums(writer)
        self._writer, self._readers, self._write_lock, self._files = writer, readers, write_lock, files
        self._process = os.getpid()
        # Reads take microseconds, so callers use the readers directly.
        self.reader: Callable[[], Reader] = readers.reader
        self.read_connection: Callable[[], AbstractContextManager[apsw.Connection]] = readers.read_connection
        self.read_unverified: Callable[[], AbstractContextManager[apsw.Connection]] = readers.read_unverified
        self.snapshot: Callable[[], AbstractContextManager[apsw.Connection]] = readers.snapshot
        forks.register(self)
        _open_databases.add(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str], schema: Schema, tuning: Tuning = DEFAULTS) -> Database:
        """Open a file, creating it if it does not exist. ":memory:" opens a database that lasts until it is
        closed.
        """
        require_sqlite(apsw.sqlite_lib_version())
        if os.fspath(path) == MEMORY:
            return cls._open_in_memory(schema, tuning)
        return cls._open_file(os.path.realpath(path), schema, tuning)

    def submit(self, work: Work[T], *, savepoint: bool = True) -> CommitFuture[T]:
        """Queue a unit of work: a function of the writing connection, run in a transaction with other units.

        If it raises, its writes are rolled back and its future raises the same error. It reads through the
        connection it is given, and neither begins nor ends a transaction. A unit that raises only before its
        first write needs no `savepoint`; if it raises later all the same, the whole transaction is rolled
        back.
        """
        return self.committer.submit(work, savepoint=savepoint)

    def write(self, work: Work[T]) -> T:
        """Submit a unit of work and wait until it is on disk."""
        return self.committer.submit(work).result()

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the running unit of work is committed, before its submitter is notified."""
        self.committer.batch().after_commit(callback)

    def batch(self) -> Batch:
        """Return the transaction of the unit of work that is running."""
        return self.committer.batch()

    def has_only_verified_pages(self, snapshot: apsw.Connection) -> bool:
        """Return whether all pages of a snapshot, after its first statement, are compared with their
        checksums.

        False if it may have pages of the log, which SQLite truncates only once no snapshot needs them.
        """
        # SQLite verifies pages only while the header, as it was read last, says that they have checksums.
        return (
            self._files is not None
            and snapshot.reserve_bytes() == CHECKSUM_BYTES
            and self.has_checksums
            and self._files.is_log_empty()
        )

    def check(self) -> list[str]:
        """Return the errors that SQLite finds in the file, one line each, for `holdfast doctor`.

        Reads the whole file.
        """
        try:
            with self.read_connection() as connection:
                found = [str(line) for (line,) in connection.execute("PRAGMA quick_check")]
        except StoreFileError as error:
            # The file is too damaged to read it all.
            return [error.message]
        return [] if found == ["ok"] else found

    def require_whole_pages(self) -> None:
        """Raise `StoreFileError` if the file ends within a page: what is not found may have been there."""
        if self._files is not None:
            self._files.require_whole_pages()

    def compact(self, *, rewrite: bool = True) -> bool:
        """Move the write-ahead log into the file and truncate it.

        Return False if readers or writers prevented it. With `rewrite` the file is rewritten first, so that
        no deleted data is left: SQLite moves rows between pages and leaves copies in the unused part of a
        page, which `secure_delete` does not reach. Writers wait for the rewrite, which holds the write lock,
        and the disk needs space for a second copy of the file.
        """
        files, own_lock = self._files, self._write_lock
        if files is None or own_lock is None:
            return True
        write_lock = WriteLock(self.path, wait_s_max=DEFAULTS.lock_wait_s_max)
        try:
            if write_lock.inode != own_lock.inode:
                raise StoreFileError(f"The lock file of {self.path} was removed or replaced: restart.")
            files.refuse_loss()
            with write_lock, closing(open_writer(self.path, DEFAULTS)) as connection:
                if rewrite:
                    files.verify(connection)
                    files.begin_commit(connection)
                    connection.pragma("temp_store", "default")
                    connection.execute("VACUUM")
                files.truncate_log(connection)
        except (apsw.BusyError, StoreBusy):
            return False
        except apsw.Error as error:
            raise map_error(error, self.path) from error
        finally:
            write_lock.close()
        return True

    def close(self) -> None:
        """Finish the accepted work, then refuse everything.

        A second call, or one in a forked child, does nothing.
        """
        if self not in _open_databases or os.getpid() != self._process:
            return
        _open_databases.discard(self)
        forks.unregister(self)
        self.committer.close()
        self._readers.close()
        self._writer.close()
        if self._write_lock is not None:
            self._write_lock.close()
        if self._files is not None:
            self._files.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connections(self) -> list[apsw.Connection]:
        """Return all open connections, for `forks.py`."""
        return [self._writer, *self._readers.connections()]

    def after_fork_in_child(self) -> None:
        """Refuse all further use in a forked child, and refuse to open the same file there."""
        forks.inherited.add(self.path)
        self.committer.after_fork_in_child()
        self._readers.after_fork_in_child()
        if self._files is not None:
            self._files.close()

    @classmethod
    def _open_in_memory(cls, schema: Schema, tuning: Tuning) -> Database:
        """Create the schema on one connection, which readers and the committer share under a lock."""
        connection = open_writer(MEMORY, tuning)
        try:
            migrate(connection, schema)
        except apsw.Error as error:
            raise map_error(error, MEMORY) from error
        lock = threading.RLock()
        committer = InlineCommitter(connection, lock, path=MEMORY)
        return cls(MEMORY, connection, committer, SharedReader(connection, lock, MEMORY))

    @classmethod
    def _open_file(cls, path: str, schema: Schema, tuning: Tuning) -> Database:
        """Check the path, the file and its log, migrate the file, and start its committer."""
        require_posix(
            "A file of tables or queues",
            "DynamoDB (`dynamodb://REGION`) and SQS (`sqs://REGION`), or memory (`sqlite::memory:`)",
        )
        forks.refuse_inherited(path)
        _check_path(Path(path))
        refuse_missing_database(path)
        create_private_file(path)
        readers = ThreadReaders(path, tuning)
        with ExitStack() as undo:
            try:
                if read_marker(path) is None:
                    # Before any file is created next to it: a foreign file must stay untouched.
                    _check_unmarked_file(path, schema, tuning)
                write_lock = WriteLock(path, wait_s_max=tuning.lock_wait_s_max)
                undo.callback(write_lock.close)
                with write_lock:
                    refuse_lost_files(path)
                    writer = open_writer(path, tuning)
                    undo.callback(writer.close)
                    _prepare_file(writer, path, schema, tuning)
                    files = StoreFiles(
                        writer,
                        path,
                        has_default_vfs=tuning.vfs is None,
                        records_commits=tuning.synchronous == "FULL",
                        on_loss=readers.refuse,
                    )
                    undo.callback(files.close)
            except apsw.Error as error:
                raise map_error(error, path) from error
            undo.pop_all()
        readers.require_current = files.require_current
        readers.require_whole_pages = files.require_whole_pages
        committer = GroupCommitter(
            writer, write_lock, files, path=path, version=schema.version, tuning=tuning
        )
        return cls(path, writer, committer, readers, write_lock, files)


def _check_unmarked_file(path: str, schema: Schema, tuning: Tuning) -> None:
    """Raise `StoreFileError` if the file is foreign or too new; only read it."""
    with closing(open_reader(path, tuning)) as connection:
        check_identity(connection, schema, path)


def _prepare_file(writer: apsw.Connection, path: str, schema: Schema, tuning: Tuning) -> None:
    """Check the file and its log, and upgrade a file of an older version. Needs the write lock."""
    check_identity(writer, schema, path)
    use_wal(writer, tuning)
    refuse_damaged_log(writer, path)
    refuse_damaged_index(path)
    has_id = has_store_id(writer)
    if not has_id:
        refuse_lost_store(path)
    if tuning.vfs is None and not is_blank(writer) and not has_checksums(writer):
        if has_id:
            raise StoreFileError(
                f"The header of {path} is damaged: it says that pages have no checksums. Nothing was "
                "changed: restore the file from a backup."
            )
        log.info("Rewriting %s with checksums: it was written by an older version.", path)
        add_checksums(writer, tuning.busy_ms_max / 1000)
    if has_id and read_version(writer) < schema.version:
        expect_migration(path)
    migrate(writer, schema)


# The interpreter must not exit while a committer is in the middle of a transaction.
_open_databases: set[Database] = set()


@atexit.register
def _close_all() -> None:
    """Close every open database when the interpreter exits."""
    for database in list(_open_databases):
        database.close()


def _check_path(path: Path) -> None:
    """Raise a clear error where SQLite would only say "unable to open database file".

    The file itself is not opened here: closing it would drop the locks that SQLite may hold on it in this
    process, for another `Database`.
    """
    if path.is_dir():
        raise SettingsError(
            f"{path} is a folder. Give the path of a file in it, such as {path / 'tables.db'}."
        )
    if path.exists() and not path.is_file():
        raise SettingsError(f"{path} is not a regular file. Choose another path.")
    if not path.parent.is_dir():
        raise SettingsError(f"The folder {path.parent} does not exist. Create it, or choose another path.")
    if not os.access(path.parent, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        raise SettingsError(f"No permission to write in the folder {path.parent}, which {path.name} needs.")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        raise SettingsError(f"No permission to read and write {path}. Change it, or choose another path.")
    if path.exists() and path.stat().st_size == 1:
        # SQLite would treat it as an empty database.
        raise StoreFileError(f"{path} is not a Holdfast file. It was not changed: choose another path.")
