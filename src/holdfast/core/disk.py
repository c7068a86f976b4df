"""Sync of files to the disk, locks on files, and files that only their owner may use.

On macOS, fsync leaves the bytes in the drive's own cache, and a power failure loses them. `F_FULLFSYNC`
writes that cache too. Windows has no `fcntl`: code that needs locks or a synced folder calls `require_posix`
first.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from holdfast.core.errors import SettingsError

try:
    import fcntl
except ModuleNotFoundError:
    fcntl = None  # type: ignore[assignment]

PRIVATE_FILE_MODE: Final = 0o600
PRIVATE_FOLDER_MODE: Final = 0o700
HAS_LOCKS: Final = fcntl is not None
# None where fsync already reaches the disk.
FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def require_posix(subject: str, instead: str) -> None:
    """Raise `SettingsError` on Windows: `subject` does not work there, `instead` does."""
    if not HAS_LOCKS:
        raise SettingsError(f"{subject} needs Linux or macOS; on Windows, use {instead}.")


def sync(descriptor: int) -> None:
    """Return when the bytes of an open file or folder are on the disk and not only in the drive's cache."""
    if FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, FULL_SYNC)
        except OSError as error:
            if error.errno == errno.EIO:
                raise
            # A network or FUSE file system does not know the command: sync as SQLite does there.
        else:
            return
    os.fsync(descriptor)


def sync_path(path: str | os.PathLike[str]) -> None:
    """Sync the file or the folder at this path."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, created if it is missing, and return its descriptor. Also an `opener` for `open`.

    Only its owner may read and write a new file, whatever the umask. An existing one stays as it is.
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    except FileExistsError:
        if flags & os.O_EXCL:
            raise
        return os.open(path, flags & ~os.O_CREAT | os.O_CLOEXEC)
    os.fchmod(descriptor, PRIVATE_FILE_MODE)
    return descriptor


def create_private_file(path: str | os.PathLike[str]) -> None:
    """Create an empty file that only its owner may read and write.

    An existing one is not even opened: closing it again would drop the locks that this process has on it.
    """
    try:
        os.close(open_private(path, os.O_RDWR | os.O_EXCL))
    except FileExistsError:
        return


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Create a folder and those above it, each for its owner alone, whatever the umask.

    Existing ones stay as they are. Raise `OSError` if that fails.
    """
    folder = os.path.abspath(folder)
    if os.path.isdir(folder):
        return
    make_private_folder(os.path.dirname(folder))
    try:
        os.mkdir(folder, PRIVATE_FOLDER_MODE)
    except FileExistsError:
        if os.path.isdir(folder):
            return
        raise
    os.chmod(folder, PRIVATE_FOLDER_MODE)


def lock(descriptor: int, *, shared: bool = False) -> None:
    """Lock the open file; wait until it is free. Closing the file releases the lock."""
    fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(descriptor: int) -> bool:
    """Lock the open file exclusively without waiting. Return whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock on the open file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
