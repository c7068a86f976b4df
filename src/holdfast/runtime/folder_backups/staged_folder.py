"""A folder that is written under a hidden name next to its final one, and gets that when it is complete.

.nightly.partial/    being written, or left by a process that was killed; the next one removes it
nightly/             complete
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.core.disk import make_private_folder, sync_path, try_lock
from holdfast.core.errors import HoldfastError, SettingsError, StoreBusy, StoreFull, StoreIOError

DISK_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
ACCESS_ERRORS: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT}
)


class StagedFolder:
    """The folder to fill at `path`. `publish` gives it its final name."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path, self._target = path, target
        self.is_published = False

    def publish(self) -> None:
        """Sync the folders and rename the folder, which must be complete, in one step."""
        for folder, _, _ in os.walk(self.path):
            sync_path(folder)
        self.path.rename(self._target)
        self.is_published = True
        sync_path(self._target.parent)


@contextmanager
def stage_folder(
    target: Path, kind: str, before_removal: Callable[[Path], None] = lambda path: None
) -> Iterator[StagedFolder]:
    """Yield a new folder that becomes `target` when it is published, and is removed otherwise.

    `kind` ends its hidden name. `before_removal` is called with a folder that is about to be removed because
    it was not published. Raise `SettingsError` if the target exists and is not an empty folder, `StoreBusy`
    if another process is writing it.
    """
    target = Path(os.path.realpath(target))
    refuse_occupied(target)
    staged = StagedFolder(target.with_name(f".{target.name}.{kind}"), target)
    with map_disk_errors(target):
        make_private_folder(target.parent)
        descriptor = _claim(staged.path, target)
        try:
            # What a process that was killed has left.
            before_removal(staged.path)
            _empty(staged.path)
            refuse_occupied(target)
            yield staged
        finally:
            if not staged.is_published:
                before_removal(staged.path)
                shutil.rmtree(staged.path, ignore_errors=True)
            os.close(descriptor)


def _empty(folder: Path) -> None:
    """Remove everything in the folder."""
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def refuse_occupied(target: Path) -> None:
    """Raise `SettingsError` unless the target is missing or an empty folder that can be replaced."""
    with map_disk_errors(target):
        if not target.exists():
            return
        if not target.is_dir():
            raise SettingsError(f"{target} is a file. Name a new folder.")
        if any(target.iterdir()):
            raise SettingsError(f"{target} is not empty, and nothing in it was changed. Name a new folder.")
        if target.is_mount():
            raise SettingsError(f"{target} is a mount point. Name a new folder in it.")


@contextmanager
def map_disk_errors(target: Path) -> Iterator[None]:
    """Map errors of the disk to `StoreFull`, `SettingsError` or `StoreIOError`."""
    try:
        yield
    except OSError as error:
        raise _to_holdfast_error(target, error) from error


def _to_holdfast_error(target: Path, error: OSError) -> HoldfastError:
    where = error.filename or target
    if error.errno in DISK_FULL_ERRORS:
        return StoreFull(f"No space left for {target}, and nothing was kept. Free some space and retry.")
    if error.errno in ACCESS_ERRORS:
        return SettingsError(f"No access to {where} ({error.strerror}). Change it, or name another folder.")
    if error.errno == errno.ENOTEMPTY:
        return SettingsError(f"{target} was filled by another process meanwhile. Name a new folder.")
    return StoreIOError(
        f"The disk failed for {where} ({error.strerror}), and nothing was kept. Check the disk, or name "
        "a folder on another."
    )


def _claim(path: Path, target: Path) -> int:
    """Create the folder, or take over one that was left. Return a descriptor that holds its lock."""
    while True:
        make_private_folder(path)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if not try_lock(descriptor):
            os.close(descriptor)
            raise StoreBusy(
                f"Another process is writing {target} at this moment. Wait for it, or name another."
            )
        # Its owner may have renamed or removed it before it released the lock.
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.lstat()):
            return descriptor
        os.close(descriptor)
