"""A disk that forgets what was not synced, as a VFS for SQLite: for tests of durability.

`kill -9` never tests fsync, because the kernel still has what was written. Here every file has a second image
that changes only when SQLite syncs it. `after_power_loss` writes into another folder what a machine would
find if its power failed now; the database continues meanwhile, so one run can be cut many times:

    with power_loss_disk() as disk:
        database = Database.open(path, schema)
        …                                                     # work, and note what was acknowledged
        found = disk.after_power_loss(path, folder)           # nothing unsynced survived
        found = disk.after_power_loss(path, folder, random)   # some unsynced sectors did, others not
        Database.open(found, schema)

The VFS is below the one with the checksums of pages, where SQLite's own VFS is otherwise.

Only writes, sizes and syncs are simulated. A file that was never synced does not exist afterwards; a deletion
is durable at once. Reads, locks and shared memory use the real file underneath.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw

from holdfast.core.store_marker import get_marker_path
from holdfast.stores.sqlite.checksums import CHECKSUM_VFS, register_checksum_vfs

SECTOR_BYTES = 512

_names = (f"power-loss-{number}" for number in itertools.count(1))


@contextmanager
def power_loss_disk() -> Iterator[PowerLossDisk]:
    """Register the disk for the block. Close every database on it before the block ends."""
    default = apsw.vfs_names()[0]
    disk = PowerLossDisk(next(_names))
    _put_checksums_over(disk.name, default)
    try:
        yield disk
    finally:
        _put_checksums_over(default, default)
        disk.unregister()


def _put_checksums_over(vfs: str, default: str) -> None:
    """Register the VFS with checksums again, over another one. No file may be open."""
    if CHECKSUM_VFS in apsw.vfs_names():
        apsw.unregister_vfs(CHECKSUM_VFS)
    register_checksum_vfs.cache_clear()
    apsw.set_default_vfs(vfs)
    register_checksum_vfs()
    apsw.set_default_vfs(default)


class PowerLossDisk(apsw.VFS):
    """VFS that keeps a durable image of every file; `syncs` counts the syncs."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.syncs = 0
        self.lock = threading.Lock()
        self._images: dict[str, Image] = {}

    def after_power_loss(self, path: str | Path, folder: Path, torn: Random | None = None) -> Path:
        """Write the database at `path`, as found after a power loss, into `folder`; return its path there.

        With `torn`, a random half of the unsynced sectors has survived; without it, none has.
        """
        real = Path(path).resolve()
        with self.lock:
            for name, image in self._images.items():
                content = image.after_power_loss(torn)
                if content is not None and name.startswith(str(real)):
                    (folder / Path(name).name).write_bytes(content)
            # It is not simulated. All of it survives: it must never name more than what is on the disk.
            marker = Path(get_marker_path(real))
            if marker.exists():
                (folder / marker.name).write_bytes(marker.read_bytes())
        return folder / real.name

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:
            return apsw.VFSFile("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        with self.lock:
            image = self._images.get(path)
            if image is None:
                image = self._images[path] = Image.of(Path(path))
        return _File(self, image, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        with self.lock:
            self._images.pop(filename, None)


@dataclass
class Image:
    """One file: its durable content (None while the file itself is not durable), and the changes since."""

    durable: bytearray | None
    unsynced: list[Change] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path) -> Image:
        """Return the image of a file, durable if it exists."""
        return cls(bytearray(path.read_bytes()) if path.exists() else None)

    def sync(self) -> None:
        """Make all changes durable."""
        self.durable = _apply(self.durable, self.unsynced)
        self.unsynced.clear()

    def after_power_loss(self, torn: Random | None) -> bytearray | None:
        """Return the content found after a power loss; None if the file does not exist then."""
        if torn is None or self.durable is None:
            return self.durable
        survived = [
            part for change in self.unsynced for part in change.split_at_sectors() if torn.random() < 0.5
        ]
        return _apply(self.durable, survived)


@dataclass(frozen=True)
class Change:
    """Bytes written at an offset; None means that the file was truncated there."""

    offset: int
    data: bytes | None

    def split_at_sectors(self) -> Iterator[Change]:
        """Yield the change split at the boundaries of sectors; a truncation is not split."""
        if self.data is None:
            yield self
            return
        start = self.offset
        while start < self.offset + len(self.data):
            end = min((start // SECTOR_BYTES + 1) * SECTOR_BYTES, self.offset + len(self.data))
            yield Change(start, self.data[start - self.offset : end - self.offset])
            start = end


def _apply(content: bytearray | None, changes: list[Change]) -> bytearray:
    """Return the content after the changes; None counts as empty."""
    result = bytearray(content or b"")
    for change in changes:
        if change.data is None:
            del result[change.offset :]
            continue
        result.extend(bytes(max(0, change.offset - len(result))))
        result[change.offset : change.offset + len(change.data)] = change.data
    return result


class _File(apsw.VFSFile):
    """A file whose writes and truncations are durable only after a sync."""

    def __init__(
        self, disk: PowerLossDisk, image: Image, name: str | apsw.URIFilename, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._disk, self._image = disk, image

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        with self._disk.lock:
            self._image.unsynced.append(Change(offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        with self._disk.lock:
            self._image.unsynced.append(Change(newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        # The real file need not be synced: only the image counts.
        with self._disk.lock:
            self._disk.syncs += 1
            self._image.sync()
