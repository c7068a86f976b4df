"""A SQLite VFS that behaves like the default one and counts how often a file is synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


class SyncCounter(apsw.VFS):
    """The VFS. `vfs` is its registered name, `count` the number of syncs of all files."""

    def __init__(self) -> None:
        self.vfs = "holdfast-counted-syncs"
        self.count = 0
        super().__init__(self.vfs, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> CountingFile:  # noqa: N802
        return CountingFile(self, name, flags)


class CountingFile(apsw.VFSFile):
    """A file that reports each sync to the counter."""

    def __init__(self, counter: SyncCounter, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._counter = counter

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._counter.count += 1
        super().xSync(flags)


@contextmanager
def count_syncs() -> Iterator[SyncCounter]:
    """Register the VFS while the block runs and yield its counter."""
    counter = SyncCounter()
    try:
        yield counter
    finally:
        counter.unregister()
