"""The record of the last acknowledged commit: how far the database and its log must reach at the next start.

After a crash SQLite takes a log that was removed or cut for a log that was never written, and an older copy
of the database for the database. The record is kept in the store's marker, outside of both files:

    first line      the id of the store (`core/store_marker.py`)
    commit record   the log's salts and length after the last commit; the database's generation and version
    open files      the inodes of the database, its log, its index and its lock, while a process uses them
    holder          the process that holds the write lock, and since when

It is written after each commit has been synced, so it never names more than what is on disk. It is not synced
itself: after a power failure it may name less. Before the log is truncated or started again it is cleared and
synced, so that it never names another log than the one that is there. A cleared record still names the log
that is in the database: SQLite would read an older log, or a part of that one, over the newer database.

The commit record is kept twice, written one after the other: a process that is killed, or a power failure,
tears at most one of them.

Each process that uses the store holds a shared lock on the marker: the next to open it learns whether it is
alone, and otherwise must find the files that the others have open.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from itertools import product
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.disk import lock, sync, try_lock
from holdfast.core.errors import StoreFileError
from holdfast.core.store_marker import IDENTITY_BYTES, get_marker_path

_COMMIT: Final = struct.Struct("<8sIQIBI")
# Of older versions. The first kept one copy, and let the log start again without a record; the second did not
# name a log that is in the database.
_FIRST_COMMIT: Final = struct.Struct("<8sIQI")
_SECOND_COMMIT: Final = struct.Struct("<8sIQIB")
_FIRST_FORMAT, _FORMAT = 1, 3
_INODES: Final = struct.Struct("<4Q")
_HOLDER: Final = struct.Struct("<qd")
_SUM: Final = struct.Struct("<I")
_COMMIT_AT: Final = IDENTITY_BYTES
_COMMIT_END: Final = _COMMIT_AT + _COMMIT.size + _SUM.size
_SECOND_COMMIT_AT: Final = 84
_SECOND_COMMIT_END: Final = _SECOND_COMMIT_AT + _COMMIT.size + _SUM.size
_INODES_AT: Final = 128
_INODES_END: Final = _INODES_AT + _INODES.size + _SUM.size
_HOLDER_AT: Final = 192
_MARKER_BYTES: Final = 256
# Of the log since a record of an older version, which a power failure made older still.
_MAX_RESTARTS: Final = 8


class LastCommit(NamedTuple):
    """The state of a store after a commit.

    `salts` identify the log and `frames` is its length; 0 if everything is in the database, as then are the
    `moved` frames of the log. `generation` counts the checkpoints: the database alone has at least that of
    the last one that moved the whole log. `version` is its schema's, and `format` the record's own.
    """

    salts: bytes = bytes(8)
    frames: int = 0
    generation: int = 0
    version: int = 0
    format: int = _FORMAT
    moved: int = 0


NOTHING: Final = LastCommit(format=0)
UNKNOWN_SALTS: Final = bytes(8)
"""Of an empty log that the next process to write starts, with the first transaction of `StoreFiles`."""
ANY_SALTS: Final = b"\xff" * 8
"""Of a log whose transactions are not recorded: a migration writes it, or commits are not synced."""


class CommitRecord:
    """The record of one store, whose marker must exist. Only the holder of the write lock writes it.

    The marker is mapped into memory: a write to a file with every commit would cost as much as the commit.
    """

    def __init__(self, path: str) -> None:
        self._path, self._process = path, os.getpid()
        self._descriptor = os.open(get_marker_path(path), os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(self._descriptor).st_size
            if size < _MARKER_BYTES:
                # All of it now, so that a commit needs no space on the disk.
                os.pwrite(self._descriptor, bytes(_MARKER_BYTES - size), size)
            self._mapping = mmap.mmap(self._descriptor, _MARKER_BYTES)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._line = self._mapping[:IDENTITY_BYTES]
        self._known, self._known_last = b"", NOTHING

    def hold(self) -> LastCommit:
        """Note that this process has acquired the write lock, and return the recorded state."""
        last = self.read()
        _HOLDER.pack_into(self._mapping, _HOLDER_AT, self._process, SYSTEM_CLOCK.now())
        return last

    def read(self) -> LastCommit:
        """Return the recorded state; `NOTHING` if none was recorded. Raise `StoreFileError` if it is
        damaged.
        """
        if os.lseek(self._descriptor, 0, os.SEEK_END) < _MARKER_BYTES:
            self._restore()
        found = self._mapping[_COMMIT_AT:_COMMIT_END]
        if found != self._known:
            last = _parse(self._mapping[_COMMIT_AT:_SECOND_COMMIT_END])
            if last is None or (last is NOTHING and self._known):
                raise _describe_damage(self._path)
            self._known, self._known_last = found, last
        return self._known_last

    def write(self, last: LastCommit) -> None:
        """Record the state after a synced commit."""
        if os.lseek(self._descriptor, 0, os.SEEK_END) < _MARKER_BYTES:
            self._restore()
        if last.format != _FORMAT:
            last = last._replace(format=_FORMAT)
        content = _COMMIT.pack(*last)
        known = content + _SUM.pack(crc32(content))
        self._known, self._known_last = known, last
        self._mapping[_COMMIT_AT:_COMMIT_END] = known
        self._mapping[_SECOND_COMMIT_AT:_SECOND_COMMIT_END] = known

    def sync(self) -> None:
        """Return when the record is on disk."""
        self._mapping.flush()
        sync(self._descriptor)

    def enter(self) -> bool:
        """Take part in the use of the store, until `close`. Return whether no other process does."""
        is_alone = try_lock(self._descriptor)
        lock(self._descriptor, shared=True)
        return is_alone

    def write_inodes(self, inodes: tuple[int, ...]) -> None:
        """Record the files that this process, the first, has opened."""
        content = _INODES.pack(*inodes)
        self._mapping[_INODES_AT:_INODES_END] = content + _SUM.pack(crc32(content))

    def read_inodes(self) -> tuple[int, ...] | None:
        """Return the files that the processes which use the store have open; None if that is unknown."""
        content = _verify(self._mapping[_INODES_AT:_INODES_END], _INODES)
        return None if content is None else _INODES.unpack(content)

    def is_at_path(self) -> bool:
        """Return whether the marker is still the one at its path."""
        try:
            return os.stat(get_marker_path(self._path)).st_ino == os.fstat(self._descriptor).st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._mapping.close()
        os.close(self._descriptor)

    def _restore(self) -> None:
        """Write a truncated marker again: a process that touches a mapped file behind its end is killed."""
        os.ftruncate(self._descriptor, _MARKER_BYTES)
        os.pwrite(self._descriptor, self._line, 0)
        for place in (_COMMIT_AT, _SECOND_COMMIT_AT):
            os.pwrite(self._descriptor, self._known, place)


def read_last_commit(path: str) -> LastCommit:
    """Return the recorded state of a store; `NOTHING` without a marker. Only reads.

    Raise `StoreFileError` if the record is damaged.
    """
    try:
        with open(get_marker_path(path), "rb") as file:
            content = file.read(_MARKER_BYTES)
    except OSError:
        return NOTHING
    last = _parse(content[_COMMIT_AT:_SECOND_COMMIT_END])
    if last is None:
        raise _describe_damage(path)
    return last


def read_holder(path: str) -> tuple[int, float]:
    """Return the process that acquired the write lock last and when; zeros if no marker says so."""
    try:
        with open(get_marker_path(path), "rb") as file:
            file.seek(_HOLDER_AT)
            return _HOLDER.unpack(file.read(_HOLDER.size))
    except (OSError, struct.error):
        return 0, 0.0


def _parse(found: bytes) -> LastCommit | None:
    """Return the record in this part of the marker; `NOTHING` if it was never written, None if it is damaged.

    A process that was killed may have torn the first copy; the second is then of the commit before.
    """
    if not any(found):
        return NOTHING
    places, kinds = (0, _SECOND_COMMIT_AT - _COMMIT_AT), (_COMMIT, _SECOND_COMMIT, _FIRST_COMMIT)
    for place, kind in product(places, kinds):
        content = _verify(found[place : place + kind.size + _SUM.size], kind)
        if content is not None:
            fields = kind.unpack(content)
            older = {_FIRST_COMMIT: (_FIRST_FORMAT, 0), _SECOND_COMMIT: (0,)}
            return LastCommit._make((*fields, *older.get(kind, ())))
    return None


def _describe_damage(path: str) -> StoreFileError:
    marker = get_marker_path(path)
    return StoreFileError(
        f"{marker} is damaged: its record of the last commit of {path} does not match its checksum. Nothing "
        "was changed: restore the marker or a backup. To accept the file as it is, check it with `holdfast "
        f"doctor --deep`, then remove {marker}."
    )


def _verify(found: bytes, kind: struct.Struct) -> bytes | None:
    """Return the content of a part of the marker without its checksum; None if that does not match."""
    content = found[: kind.size]
    return content if found[kind.size :] == _SUM.pack(crc32(content)) else None


def refuse_lost_log(path: str, recorded: LastCommit, found: LastCommit | None) -> None:
    """Raise `StoreFileError` if the log that was found lacks commits of the recorded one."""
    if not recorded.frames or (found is not None and _continues(recorded, found)):
        return
    state = "is missing, empty or damaged" if found is None else "was cut, replaced or damaged"
    raise StoreFileError(
        f"The write-ahead log {path}-wal {state}: acknowledged transactions are lost, unless another SQLite "
        "program has moved them into the file. Nothing was changed: put the log back, or restore a backup. "
        f"To accept the file as it is, remove {get_marker_path(path)}."
    )


def refuse_other_log(
    path: str, recorded: LastCommit, found: LastCommit | None, has_first_only: Callable[[int], bool]
) -> None:
    """Raise `StoreFileError` if everything was in the database, and the log is not the next one.

    SQLite would read its pages over those of the database. `has_first_only` says whether that many frames of
    the log are only the first transaction of `StoreFiles`.
    """
    if recorded.frames or recorded.format < _FORMAT or recorded.salts == ANY_SALTS:
        return
    if found is None or not found.frames or _follows(recorded, found, has_first_only):
        return
    raise StoreFileError(
        f"The write-ahead log {path}-wal is older than the file, or of another one: it would bring former "
        f"data back. Nothing was changed: move {path}-wal away, because everything acknowledged is in the "
        f"file, or remove {get_marker_path(path)} to accept the log."
    )


def is_behind(recorded: LastCommit, salts: bytes, frames: int) -> bool:
    """Return whether a log with these salts and frames lacks recorded ones, and was not started again."""
    found = LastCommit(salts, frames)
    return frames < recorded.frames and not 0 < _count_restarts(recorded, found) <= _MAX_RESTARTS


def _follows(recorded: LastCommit, found: LastCommit, has_first_only: Callable[[int], bool]) -> bool:
    """Return whether the log is the one that is in the database, or the one that SQLite starts after it."""
    if recorded.salts == UNKNOWN_SALTS:
        return has_first_only(found.frames)
    if found.salts == recorded.salts:
        return found.frames >= recorded.moved
    return 0 < _count_restarts(recorded, found) <= _MAX_RESTARTS


def _continues(recorded: LastCommit, found: LastCommit) -> bool:
    """Return whether the log is the recorded one with all of its frames.

    For a record of the first version, it may be a later one.
    """
    if found.salts == recorded.salts:
        return found.frames >= recorded.frames
    return recorded.format == _FIRST_FORMAT and 0 < _count_restarts(recorded, found) <= _MAX_RESTARTS


def _count_restarts(recorded: LastCommit, found: LastCommit) -> int:
    """Return how often the log was started again. SQLite adds one to the first salt each time, after all of
    it is in the database.
    """
    return (int.from_bytes(found.salts[:4], "big") - int.from_bytes(recorded.salts[:4], "big")) % 2**32
