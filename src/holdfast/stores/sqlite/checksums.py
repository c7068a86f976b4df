"""Checksums of pages: SQLite's checksum VFS, which the driver's wheel brings as an extension.

Each page of a database ends with a checksum of eight bytes. The VFS computes it when a checkpoint writes the
page, and compares it when the page is read. A page that anything else has changed is an error, never data.
Pages in the log have the log's own checksums, which SQLite compares after a crash. Decision 0020 has the
measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter, sleep
from typing import Final

import apsw
import apsw.sqlite_extra

from holdfast.core.errors import SettingsError

CHECKSUM_VFS: Final = "cksmvfs"
CHECKSUM_BYTES: Final = 8
_EXTENSION: Final = "cksumvfs"
_LOOK_S: Final = 0.01


@cache
def register_checksum_vfs() -> str:
    """Register the VFS with SQLite, once, and return its name. The default VFS stays the default."""
    default = apsw.vfs_names()[0]
    connection = apsw.Connection(":memory:")
    try:
        apsw.sqlite_extra.load(connection, _EXTENSION)
    except (apsw.Error, apsw.sqlite_extra.NotAvailable, LookupError) as error:
        raise SettingsError(
            f"The installed apsw {apsw.apsw_version()} lacks SQLite's checksum extension. Install the wheel "
            "of apsw from the package index."
        ) from error
    finally:
        connection.close()
    apsw.set_default_vfs(default)
    return CHECKSUM_VFS


def has_checksums(connection: apsw.Connection) -> bool:
    """Return whether the pages of the connection's file have checksums that its VFS verifies."""
    # Text, "0" or "1"; None from another VFS.
    return bool(connection.pragma("checksum_verification") == "1")


def ignore_checksums(connection: apsw.Connection) -> None:
    """Make the connection read pages without comparing their checksums."""
    connection.pragma("checksum_verification", False)


@contextmanager
def checksums_ignored(connection: apsw.Connection) -> Iterator[None]:
    """Make the connection read pages without comparing their checksums for the time of the context."""
    had_checksums = has_checksums(connection)
    ignore_checksums(connection)
    try:
        yield
    finally:
        if had_checksums:
            connection.pragma("checksum_verification", True)


def add_checksums(connection: apsw.Connection, wait_s: float) -> None:
    """Rewrite a file in WAL mode that was written without checksums.

    Needs the write lock, and space for a second copy. Raises `apsw.BusyError` if another connection has the
    file open for longer than `wait_s`: a process of an older version would write pages without checksums.
    """
    # Only the last connection can leave WAL mode. The file is rewritten in it: after a crash, a rollback
    # journal would be played back with checksums in pages that had none.
    _leave_wal_mode(connection, wait_s)
    connection.pragma("journal_mode", "wal")
    connection.reserve_bytes(reserve=CHECKSUM_BYTES)
    connection.execute("VACUUM")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _leave_wal_mode(connection: apsw.Connection, wait_s: float) -> None:
    """Wait until no other connection has the file open. Each process that opens it looks into it first."""
    ends_at = perf_counter() + wait_s
    while True:
        try:
            connection.pragma("journal_mode", "delete")
            return
        except apsw.BusyError:
            if perf_counter() > ends_at:
                raise
            sleep(_LOOK_S)


def is_checksum_error(error: BaseException | None) -> bool:
    """Return whether the driver found a page whose checksum does not match."""
    return getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_DATA
