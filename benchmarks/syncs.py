"""A VFS that does what SQLite's own does and counts how often a file is synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


class CountedSyncs(apsw.VFS):
    def __init__(self) -> None:
        self.vfs = "holdfast-counted-syncs"
        self.count = 0
        super().__init__(self.vfs, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> CountedFile:  # noqa: N802
        return CountedFile(self, name, flags)


class CountedFile(apsw.VFSFile):
    def __init__(self, counter: CountedSyncs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._counter = counter

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._counter.count += 1
        super().xSync(flags)


@contextmanager
def counted_syncs() -> Iterator[CountedSyncs]:
    counter = CountedSyncs()
    try:
        yield counter
    finally:
        counter.unregister()
