"""Copy of a live objects folder as it is at one moment, while other processes keep using it.

Most of the folder is copied while everything continues. Then `lock_buckets` stops deletions and replacements,
and one more pass brings the copy to the moment of the lock: it adds what is new, replaces what was replaced
and removes what was deleted. Only what is put during that last pass may be in the copy or not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.disk import make_private_folder, open_private
from holdfast.core.errors import NotFound, StoreFileError
from holdfast.stores.objects.local.file_storage import FolderFileStorage, map_errors
from holdfast.stores.objects.local.paths import LOCK_FILE, STAGING_FOLDER

FileVersion = tuple[int, int, int, int]
"""Device, inode, time and size of a file, which differ once the file is replaced."""
FileProgress = Callable[[int, int], None]
"""Called with the number of copied files and of all files."""


class FolderCopy:
    """A copy of the objects in `source`, written into the new folder `target`. It is not synced."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source, self._target = source.absolute(), target
        self._storage = FolderFileStorage(self._source, clock=SYSTEM_CLOCK)
        # The version of each copied file, by its path. A file is never changed, only replaced.
        self._copied: dict[str, FileVersion] = {}

    @contextmanager
    def lock_buckets(self) -> Iterator[None]:
        """Let no process delete or replace a file for the time of the context."""
        with ExitStack() as locks:
            locked: set[str] = set()
            while new := self._list_buckets() - locked:
                for bucket in sorted(new):
                    locks.enter_context(self._storage.lock_bucket(bucket))
                locked |= new
            yield

    def copy_changes(self, progress: FileProgress = lambda done, total: None) -> None:
        """Bring the copy up to date with the folder."""
        make_private_folder(self._target)
        found = self._list_files()
        for path in self._copied.keys() - found.keys():
            self._remove(path)
        for done, (path, version) in enumerate(found.items(), start=1):
            if self._copied.get(path) != version:
                self._copy(path, version)
            progress(done, len(found))

    def _list_buckets(self) -> set[str]:
        return {each.name for each in self._source.iterdir() if each.is_dir()}

    def _list_files(self) -> dict[str, FileVersion]:
        """Return the version of each file by its path, without locks and files that are being written."""
        with map_errors(str(self._source)):
            return dict(_walk(str(self._source), ""))

    def _copy(self, path: str, version: FileVersion) -> None:
        """Copy one file. It may have been deleted since it was listed."""
        try:
            content = self._storage.get(path)
        except NotFound:
            self._remove(path)
            return
        target = self._target / path
        make_private_folder(target.parent)
        with open(target, "wb", opener=open_private) as file:
            file.write(content)
        self._copied[path] = version

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            (self._target / path).unlink()
        self._copied.pop(path, None)


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, FileVersion]]:
    """Yield the path and version of each file below a folder. Links are followed, as the engine does.

    Raise `StoreFileError` for an entry that leads to no file, which a list would leave out without a word.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir():
                yield from _walk(entry.path, f"{path}/")
            elif not _is_temporary(path) and (found := _find_file(entry)) is not None:
                yield path, (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _find_file(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a file, or None if it was deleted after its folder was read."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        if not entry.is_symlink():
            return None
        raise StoreFileError(
            f"{entry.path} is a link to a file that does not exist. Restore the file, or remove the link."
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreFileError(f"{entry.path} is not a regular file. Move it out of the objects folder.")
    return found


def _is_temporary(path: str) -> bool:
    """Return whether the file is a lock of a bucket, or an object that is being written."""
    _, _, inside = path.partition("/")
    return inside == LOCK_FILE or inside.startswith(f"{STAGING_FOLDER}/")
