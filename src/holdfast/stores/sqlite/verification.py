"""Verification of a SQLite file: every page, the log, and SQLite's structures.

Everything is only read, in one snapshot, while other processes may use the file. `holdfast doctor --deep`
verifies stores in use, and backups verify copies that no process uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final

import apsw

from holdfast.core.errors import HoldfastError
from holdfast.core.progress import Progress
from holdfast.stores.sqlite.checksums import has_checksums, is_checksum_error
from holdfast.stores.sqlite.connections import Tuning, open_reader, open_unused
from holdfast.stores.sqlite.errors import map_error
from holdfast.stores.sqlite.log_damage import refuse_damaged_log
from holdfast.stores.sqlite.schema import Schema, check_identity, is_blank
from holdfast.stores.sqlite.store_files import check_files, refuse_truncated_database

# Another process may be writing the page that is read.
_READS: Final = 3
_PROGRESS_PAGES: Final = 1000

RowCheck = Callable[[apsw.Connection, Progress], list[str]]
"""A function that verifies the rows of a store and returns what is wrong, one line each."""


def verify_file(
    path: str, schema: Schema, check_rows: RowCheck, progress: Progress, *, is_in_use: bool = True
) -> list[str]:
    """Return everything that is wrong with a file, one line each: its files, its pages, then its rows.

    A file that is not in use has no log, and nothing is created next to it.
    """
    try:
        if is_in_use:
            check_files(path)
        with open_snapshot(path, schema, is_in_use=is_in_use) as connection:
            if is_blank(connection):
                return []
            problems = _verify_pages(connection, path, progress)
            if not problems:
                problems = _verify_structures(connection)
            return problems + check_rows(connection, progress)
    except HoldfastError as error:
        return [error.message]


@contextmanager
def damage_caught(problems: list[str], subject: str) -> Iterator[None]:
    """Add to `problems` that the subject is on a damaged page, if the block finds one, and end the block."""
    try:
        yield
    except apsw.Error as error:
        if not (is_checksum_error(error) or isinstance(error, apsw.CorruptError)):
            raise
        problems.append(f"{subject} is on a damaged page")


@contextmanager
def open_snapshot(path: str, schema: Schema, *, is_in_use: bool = True) -> Iterator[apsw.Connection]:
    """Open a reading connection with a transaction. Raise `StoreFileError` for a foreign or truncated file,
    or a damaged log.
    """
    try:
        with closing(open_reader(path, Tuning()) if is_in_use else open_unused(path)) as connection:
            check_identity(connection, schema, path)
            if is_in_use:
                refuse_damaged_log(connection, path)
                refuse_truncated_database(connection, path)
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")
    except apsw.Error as error:
        raise map_error(error, path) from error


def _verify_pages(connection: apsw.Connection, path: str, progress: Progress) -> list[str]:
    """Compare every page of the file, used or not, with its checksum."""
    if not has_checksums(connection):
        return []
    page_bytes: int = connection.pragma("page_size")
    # By SQLite's own VFS: closing the file in another way would drop the locks of this process on it.
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile("unix", path, flags)
    try:
        pages = file.xFileSize() // page_bytes
        damaged = []
        for number in range(1, pages + 1):
            if not _is_page_sound(connection, file, number, page_bytes):
                damaged.append(f"page {number} does not match its checksum")
            if number % _PROGRESS_PAGES == 0 or number == pages:
                progress(f"{path} (pages)", number, pages)
        return damaged
    finally:
        file.xClose()


def _is_page_sound(connection: apsw.Connection, file: apsw.VFSFile, number: int, page_bytes: int) -> bool:
    """Return whether a page matches its checksum, in one of several reads."""
    for _ in range(_READS):
        content = file.xRead(page_bytes, (number - 1) * page_bytes)
        if connection.execute("SELECT verify_checksum(?)", (content,)).get:
            return True
    return False


def _verify_structures(connection: apsw.Connection) -> list[str]:
    """Return what SQLite finds: pages that are linked wrongly, rows that are missing in SQLite's indexes."""
    found = [str(line) for (line,) in connection.execute("PRAGMA integrity_check")]
    return [] if found == ["ok"] else found
