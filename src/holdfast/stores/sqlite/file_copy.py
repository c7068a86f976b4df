"""Copy of a live SQLite file at one moment, while other processes keep writing to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Final

import apsw

from holdfast.core.disk import create_private_file
from holdfast.core.store_marker import read_marker, require_same_store
from holdfast.stores.sqlite.checksums import CHECKSUM_BYTES, has_checksums, register_checksum_vfs
from holdfast.stores.sqlite.connections import Tuning, open_reader
from holdfast.stores.sqlite.errors import map_error
from holdfast.stores.sqlite.log_damage import get_size, refuse_damaged_log
from holdfast.stores.sqlite.schema import Schema, check_identity, find_store_id, read_version
from holdfast.stores.sqlite.store_files import refuse_lost_files, refuse_missing_database
from holdfast.stores.sqlite.write_lock import WriteLock

# Small enough that progress is visible, and large enough that a step costs little.
PAGES_PER_STEP: Final = 1024
DEFAULTS: Final = Tuning()
WRITE_ERRORS: Final = (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_TRUNCATE)

PageProgress = Callable[[int, int], None]
"""Called with the number of copied pages and of all pages."""


def has_data(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a file with data. Raise `StoreFileError` if there was one and it was lost."""
    found = os.path.realpath(path)
    refuse_missing_database(found)
    return get_size(found) > 0


class LiveFile:
    """A file that has data, to be copied as it is when `freeze` is called. Close it at the end.

    No process writes while its `write_lock` is held. Raises `StoreFileError` for a file that is foreign,
    damaged, replaced or too new.
    """

    def __init__(self, path: str | os.PathLike[str], schema: Schema) -> None:
        self.path = os.path.realpath(path)
        with ExitStack() as undo:
            try:
                if read_marker(self.path) is None:
                    # Before any file is created next to it: a foreign file must stay untouched.
                    with closing(open_reader(self.path, DEFAULTS)) as reader:
                        check_identity(reader, schema, self.path)
                self.write_lock = WriteLock(self.path, wait_s_max=DEFAULTS.lock_wait_s_max)
                undo.callback(self.write_lock.close)
                with self.write_lock:
                    refuse_lost_files(self.path)
                    self._reader = open_reader(self.path, DEFAULTS)
                    undo.callback(self._reader.close)
                    check_identity(self._reader, schema, self.path)
                    refuse_damaged_log(self._reader, self.path)
                self.version, self.store_id = read_version(self._reader), find_store_id(self._reader)
            except apsw.Error as error:
                raise map_error(error, self.path) from error
            if self.store_id is not None and read_marker(self.path) is not None:
                require_same_store(self.path, self.store_id)
            undo.pop_all()

    def freeze(self) -> None:
        """Fix the moment that `copy_to` copies. Later writes go to the log, and are not seen."""
        try:
            self._reader.execute("BEGIN")
            # A transaction begins with its first read.
            self._reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except apsw.Error as error:
            raise map_error(error, self.path) from error

    def copy_to(
        self, target: str | os.PathLike[str], progress: PageProgress = lambda done, total: None
    ) -> None:
        """Copy the frozen state to a new file. It is not synced."""
        try:
            self._copy_pages(os.fspath(target), progress)
        except apsw.Error as error:
            raise map_error(error, os.fspath(target) if _is_write_error(error) else self.path) from error

    def close(self) -> None:
        """End the frozen state and close the files."""
        self._reader.close()
        self.write_lock.close()

    def __enter__(self) -> LiveFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _copy_pages(self, target: str, progress: PageProgress) -> None:
        create_private_file(target)
        is_checked = has_checksums(self._reader)
        # The VFS would write checksums over the content of pages that have no room for them.
        writer = apsw.Connection(target, vfs=register_checksum_vfs() if is_checked else None)
        try:
            # Whoever wants the copy to last syncs it; half a copy is thrown away.
            writer.pragma("journal_mode", "off")
            writer.pragma("synchronous", "off")
            if is_checked:
                _write_first_page(writer, self._reader.pragma("page_size"))
            # The open transaction keeps SQLite from starting again when another process writes.
            with writer.backup("main", self._reader, "main") as backup:
                while not backup.done:
                    backup.step(PAGES_PER_STEP)
                    progress(backup.page_count - backup.remaining, backup.page_count)
        finally:
            writer.close()


def _write_first_page(writer: apsw.Connection, page_bytes: int) -> None:
    """Make a new file one with checksums, so that each page gets one when it is written.

    A copy of a large file writes its first page late. Pages from the log have no checksum of their own.
    """
    writer.pragma("page_size", page_bytes)
    writer.reserve_bytes(reserve=CHECKSUM_BYTES)
    writer.execute("CREATE TABLE placeholder (x); DROP TABLE placeholder")


def _is_write_error(error: apsw.Error) -> bool:
    """Return whether the new file failed, and not the one that is copied."""
    code = getattr(error, "extendedresult", None)
    return isinstance(error, (apsw.FullError, apsw.CantOpenError)) or code in WRITE_ERRORS
