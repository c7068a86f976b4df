"""Opening and tuning of SQLite connections: one writer per database and one reader per thread."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

import apsw

from holdfast.core.errors import SettingsError
from holdfast.stores.sqlite.checksums import CHECKSUM_BYTES, ignore_checksums, register_checksum_vfs

MEMORY = ":memory:"
MIN_SQLITE = (3, 51, 3)
MAX_WAL_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The tuning options of a file. The defaults are durable; only a test has a reason for less."""

    page_bytes: int = 8192
    reader_cache_kib: int = 2048
    writer_cache_kib: int = 16384
    mmap_bytes: int = 0
    secure_delete: bool = False
    synchronous: Literal["FULL", "NORMAL", "OFF"] = "FULL"
    busy_ms_max: int = 5000
    checkpoint_pages: int = 1000
    # The log keeps deleted data until it is truncated: after `log_quiet_s` without a write, or `log_s_max` in
    # any case.
    log_quiet_s: float = 1.0
    log_s_max: float = 60.0
    lock_hold_ms_max: float = 10.0
    lock_wait_s_max: float = 30.0
    units_max: int = 256
    vfs: str | None = None
    """Another VFS than the one with checksums, for tests."""


def require_sqlite(version: str) -> None:
    """Raise `SettingsError` if this version of SQLite is too old for several writers."""
    if tuple(int(part) for part in version.split(".")) < MIN_SQLITE:
        wanted = ".".join(map(str, MIN_SQLITE))
        raise SettingsError(
            f"SQLite {version} is too old: before {wanted}, resetting the WAL can corrupt a file with "
            "several "
            f"writers. Install an apsw that brings SQLite {wanted} or newer."
        )


def open_writer(path: str, tuning: Tuning) -> apsw.Connection:
    """Open the writing connection, not yet in WAL mode: a foreign file must stay unchanged (see
    `use_wal`).
    """
    connection = _connect(path, tuning, apsw.SQLITE_OPEN_CREATE)
    if path != MEMORY and tuning.vfs is None:
        # Of a new file; an older one is rewritten when it is opened.
        connection.reserve_bytes(reserve=CHECKSUM_BYTES)
    connection.pragma("cache_size", -tuning.writer_cache_kib)
    connection.pragma("secure_delete", tuning.secure_delete)
    # Savepoints keep the old pages of each unit. Keep them in memory rather than in a temporary file.
    connection.pragma("temp_store", "memory")
    sync_to_disk(connection, sys.platform)
    return connection


def sync_to_disk(connection: apsw.Connection, platform: str) -> None:
    """Make each sync of the connection reach the disk. `platform` is named as in `sys.platform`.

    On macOS, fsync leaves the bytes in the drive's cache, and SQLite needs these pragmas to write that too.
    """
    if platform == "darwin":
        connection.pragma("fullfsync", True)
        connection.pragma("checkpoint_fullfsync", True)


def use_wal(connection: apsw.Connection, tuning: Tuning) -> None:
    """Switch the file to WAL mode, with the tuned durability."""
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", tuning.synchronous)
    connection.pragma("journal_size_limit", MAX_WAL_BYTES)
    # The committer checkpoints between transactions, when no submitter is waiting.
    connection.wal_autocheckpoint(0)


def open_reader(path: str, tuning: Tuning, *, verify: bool = True) -> apsw.Connection:
    """Open a connection that can only read. The file must exist: an empty one in its place would hide the
    loss.

    Without `verify` the connection does not compare the checksums of pages, so its user checks each row.
    """
    connection = _connect(path, tuning)
    if not verify:
        ignore_checksums(connection)
    connection.pragma("cache_size", -tuning.reader_cache_kib)
    connection.pragma("query_only", True)
    connection.wal_autocheckpoint(0)
    return connection


def open_unused(path: str) -> apsw.Connection:
    """Open a file that no process uses, to read it. Nothing is created next to it."""
    address = f"file:{quote(path)}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(address, flags=flags, vfs=register_checksum_vfs())


def _connect(path: str, tuning: Tuning, flags: int = 0) -> apsw.Connection:
    """Open a connection with the tuned busy timeout and mmap size."""
    vfs = tuning.vfs or (None if path == MEMORY else register_checksum_vfs())
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE | flags, vfs=vfs)
    # Otherwise the last connection to close moves the log into the file and deletes it, even if the file is
    # damaged. Set before anything is read: a first page that is no database fails the pragmas below.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.set_busy_timeout(tuning.busy_ms_max)
    # Of a new file. A reader must know it too: a page read in another size has no valid checksum.
    connection.pragma("page_size", tuning.page_bytes)
    connection.pragma("mmap_size", tuning.mmap_bytes)
    return connection
