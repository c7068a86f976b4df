"""Checks of the index of a write-ahead log while a store is open.

SQLite finds the pages of the log by an index in a file that all processes map (`-shm`), and trusts it. A page
that the index does not name is read from the database, in its former state. The next commit would build on
that page, and acknowledged rows would be missing from a log whose checksums are all right.

The file, in SQLite's format: two copies of a header and the locks, then the page number of each frame and a
hash table of the frames, in blocks of 32 KB. The header is in the first block. Only the holder of the write
lock changes page numbers and hash tables.

The file is read by SQLite's own descriptor: closing another one would drop SQLite's locks on it.
"""

from __future__ import annotations

import os
import sys
from array import array
from typing import Final, NamedTuple

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import StoreFileError
from holdfast.stores.sqlite.commit_record import is_behind, read_last_commit
from holdfast.stores.sqlite.log_damage import WAL_SUFFIX

SHM_SUFFIX: Final = "-shm"
_BLOCK_BYTES: Final = 32768
_PAGES_BYTES: Final = 16384
_SLOTS: Final = 8192
_HEAD_BYTES: Final = 136
_COPY_BYTES: Final = 48
_HEAD_PAGES: Final = _HEAD_BYTES // 4
_FRAME_COUNT_AT: Final = 16
_SALTS_AT, _SALTS_BYTES = 32, 8
_SALTS_AT_IN_LOG: Final = 16
_HASH_FACTOR: Final = 383
_DESCRIPTORS: Final = "/dev/fd"
# No file system in use counts in larger steps.
TIME_STEP_S: Final = 2.0


def refuse_damaged_index(path: str) -> None:
    """Raise `StoreFileError` if SQLite misses frames of the log that other processes have open.

    Call this after a first read, in WAL mode, with the write lock, and before any write.
    """
    try:
        log = os.open(path + WAL_SUFFIX, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # SQLite creates the log with the first write.
    try:
        index = LogIndex(path, log)
        if not index.is_complete() or is_behind(read_last_commit(path), *index.describe_log()):
            raise describe_damaged_index(path)
    finally:
        os.close(log)


def describe_damaged_index(path: str) -> StoreFileError:
    """Return the error for an index that lacks frames of the log."""
    return StoreFileError(
        f"{path}{SHM_SUFFIX}, the index of the write-ahead log, was changed by another program, so the store "
        f"is no longer used. Acknowledged transactions are in the log: stop every process that uses {path}, "
        "then restart. SQLite creates the index again."
    )


class LogIndex:
    """The index of an open store's log. Only the holder of the write lock may use it."""

    def __init__(self, path: str, log: int) -> None:
        """Find the index of the database at `path`, which SQLite has open. `log` is the log's descriptor."""
        self._log, self._descriptor = log, _find_descriptor(path + SHM_SUFFIX)
        self._known, self._seen = _NOTHING, _UNSETTLED

    def note(self) -> None:
        """Remember the index as it is after a commit of this process."""
        if self._seen is _UNSETTLED or self._describe_file() != self._seen:
            self._known, self._seen = self._read() or _NOTHING, _UNSETTLED

    def is_intact(self) -> bool:
        """Return whether nothing is missing since the last commit of this process. That takes microseconds,
        unless another process has written since.

        SQLite writes the index by a mapping, and other programs by calls, each of which sets the file's time.
        So the content is compared only if the time has changed, or is too new to tell one call from the next.
        """
        found = self._describe_file()
        if self._seen is not _UNSETTLED and found == self._seen:
            return True
        view, known = self._read(), self._known
        if view is None:
            return False
        if not (view.content == known.content or _continues(known, view) or self._is_complete(view)):
            return False
        self._known = view
        self._seen = found if SYSTEM_CLOCK.now() > found.changed_s + TIME_STEP_S else _UNSETTLED
        return True

    def is_complete(self) -> bool:
        """Return whether the index belongs to this log, and finds each of its frames by its page number."""
        view = self._read()
        return view is not None and self._is_complete(view)

    def describe_log(self) -> tuple[bytes, int]:
        """Return the salts and the number of frames of the log, as the index says them."""
        view = self._read() or _NOTHING
        return view.salts, view.frames

    def _describe_file(self) -> _FileState:
        if self._descriptor is None:
            return _UNSETTLED
        found = os.fstat(self._descriptor)
        return _FileState(found.st_size, found.st_ctime_ns, found.st_ctime)

    def _is_complete(self, view: _View) -> bool:
        if not view.frames:
            return True
        if view.salts != os.pread(self._log, _SALTS_BYTES, _SALTS_AT_IN_LOG):
            return False
        return all(_finds_all(pages, slots) for pages, slots in _split(view))

    def _read(self) -> _View | None:
        """Return what the index says now; None if the file was cut."""
        if self._descriptor is None:
            return _NOTHING
        head = os.pread(self._descriptor, _HEAD_BYTES, 0)
        if head[:_COPY_BYTES] != head[_COPY_BYTES : 2 * _COPY_BYTES]:
            return _NOTHING  # SQLite recovers the index from the log before it uses it.
        frames = int.from_bytes(head[_FRAME_COUNT_AT : _FRAME_COUNT_AT + 4], sys.byteorder)
        size = (1 + (frames + _HEAD_PAGES - 1) // (_PAGES_BYTES // 4)) * _BLOCK_BYTES - _HEAD_BYTES
        content = os.pread(self._descriptor, size, _HEAD_BYTES)
        if len(content) < size:
            return None
        return _View(head[_SALTS_AT : _SALTS_AT + _SALTS_BYTES], frames, content)


class _View(NamedTuple):
    """An index: the salts of its log, the number of frames, and its blocks without the head."""

    salts: bytes
    frames: int
    content: bytes


class _FileState(NamedTuple):
    """What changes with each call that writes the file of an index."""

    size: int
    changed_ns: int
    changed_s: float


_NOTHING: Final = _View(b"", 0, b"")
_UNSETTLED: Final = _FileState(0, 0, 0.0)


def _find_descriptor(path: str) -> int | None:
    """Return the descriptor by which SQLite has a file open; None if this process has none."""
    try:
        wanted = os.stat(path)
    except FileNotFoundError:
        return None
    for name in os.listdir(_DESCRIPTORS):
        try:
            found = os.fstat(int(name))
        except OSError:
            continue  # It was that of the listing.
        if os.path.samestat(found, wanted):
            return int(name)
    return None


def _continues(known: _View, view: _View) -> bool:
    """Return whether an index of one block has everything that it had, and finds the frames added since."""
    if view.salts != known.salts or view.frames < known.frames or len(view.content) > _BLOCK_BYTES:
        return False
    before, now = int.from_bytes(known.content), int.from_bytes(view.content)
    return before & now == before and _finds_frames(*_split(view)[0], first=known.frames + 1)


def _split(view: _View) -> list[tuple[array[int], array[int]]]:
    """Return the page numbers of each block's frames, and its hash table."""
    content, left = bytes(_HEAD_BYTES) + view.content, view.frames
    blocks = []
    for start in range(0, len(content), _BLOCK_BYTES):
        middle = start + _PAGES_BYTES
        pages = array("I", content[start or _HEAD_BYTES : middle])[:left]
        blocks.append((pages, array("H", content[middle : start + _BLOCK_BYTES])))
        left -= len(pages)
    return blocks


def _finds_frames(pages: array[int], slots: array[int], first: int = 1) -> bool:
    """Return whether a search for each page, from the one of frame number `first` on, meets its frame."""
    if 0 not in slots:
        return False  # SQLite leaves half of them free: a search ends at a free one.
    for frame in range(first, len(pages) + 1):
        slot = pages[frame - 1] * _HASH_FACTOR % _SLOTS
        while (found := slots[slot]) != frame:
            if not found:
                return False
            slot = (slot + 1) % _SLOTS
    return True


def _finds_all(pages: array[int], slots: array[int]) -> bool:
    """Return whether a search for the page of each frame meets the frame.

    Many frames may be of one page, and a search for each would look at those before it again and again.
    """
    if 0 not in slots:
        return False  # SQLite leaves half of them free.
    found, free, last = bytearray(len(pages) + 1), -1, -1
    # Twice around, because a run of used slots may reach over the end.
    used = [place for place, frame in enumerate(slots) if frame]
    for turn in (0, _SLOTS):
        for place in used:
            if place + turn != last + 1:
                free = place + turn - 1
            last = place + turn
            frame = slots[place]
            if frame < len(found) and (place - pages[frame - 1] * _HASH_FACTOR) % _SLOTS < last - free:
                found[frame] = 1
    return found.count(1) == len(pages)
