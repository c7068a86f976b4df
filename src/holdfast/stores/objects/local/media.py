"""Storage for the files of objects: a folder on disk, or memory.

On disk, a put writes the file under a unique temporary name, syncs it, moves it to its path in one step, and
syncs the folders on the path, all before it returns: after a power failure no name exists without its bytes.
obstore lists and removes files; it never calls fsync, so this module writes durable files itself.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore

from holdfast.core.clock import Clock
from holdfast.core.errors import (
    AlreadyExists,
    HoldfastError,
    NotFound,
    SettingsError,
    StoreFull,
    StoreIOError,
)
from holdfast.stores.objects.local.paths import LOCK, STAGING

# How many synced folders to remember; a forgotten one is synced again.
FOLDERS_KNOWN_MAX: Final = 10_000
# A temporary file of this age belongs to a process that has ended.
STRAY_S: Final = 86_400.0
STAGED_BYTES: Final = 16
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Medium(Protocol):
    """Files by path; the first part of a path is the bucket. Calls block, and any thread may make them."""

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        """Store the file durably. Raise `AlreadyExists` if `create_only` is set and the file exists."""
        ...

    def get(self, path: str) -> bytes: ...

    def get_start(self, path: str, size: int) -> bytes: ...

    def remove(self, path: str) -> None: ...

    def paths(self, folder: str) -> list[str]: ...

    def alone(self, bucket: str) -> AbstractContextManager[None]:
        """Lock the bucket across processes: no other caller changes existing files; new files may still be
        added.
        """
        ...

    def remove_strays(self, bucket: str) -> None: ...


class MemoryMedium:
    def __init__(self) -> None:
        self._store = MemoryStore()
        self._lock = threading.RLock()

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        with mapped(path):
            obstore.put(self._store, path, file, mode="create" if create_only else "overwrite")

    def get(self, path: str) -> bytes:
        with mapped(path):
            return bytes(obstore.get(self._store, path).bytes())

    def get_start(self, path: str, size: int) -> bytes:
        return self.get(path)[:size]

    def remove(self, path: str) -> None:
        with mapped(path):
            obstore.delete(self._store, path)

    def paths(self, folder: str) -> list[str]:
        return _listed(self._store, folder)

    @contextmanager
    def alone(self, bucket: str) -> Iterator[None]:
        with self._lock:
            yield

    def remove_strays(self, bucket: str) -> None:
        """Do nothing: memory has no temporary files."""


class FolderMedium:
    def __init__(self, folder: Path, *, clock: Clock) -> None:
        folder = folder.absolute()
        try:
            _make_folder(folder)
            self._store = LocalStore(folder)
        except OSError as error:
            raise SettingsError(
                f"The folder {folder} cannot hold objects ({error.strerror}): name another in the setting "
                "`objects`."
            ) from error
        self._folder, self._clock = folder, clock
        # Folders that this process has synced, with the folders above them; they are never removed.
        self._kept: set[str] = set()

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        # A random name: engines, threads and processes that share the folder do not coordinate.
        name = f"{self._clock.now():.3f}-{token_hex(STAGED_BYTES)}"
        staged = f"{self._folder}/{path.partition('/')[0]}/{STAGING}/{name}"
        place = f"{self._folder}/{path}"
        with mapped(path):
            _with_folder(staged, lambda: _write(staged, file))
            try:
                _sync(Path(staged))
                # A link fails if the file exists; a rename replaces it.
                _with_folder(place, lambda: (os.link if create_only else os.replace)(staged, place))
                self._keep_folders(os.path.dirname(place))
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(staged)

    def get(self, path: str) -> bytes:
        with mapped(path), open(f"{self._folder}/{path}", "rb", buffering=0) as file:
            return file.read()

    def get_start(self, path: str, size: int) -> bytes:
        with mapped(path), open(f"{self._folder}/{path}", "rb", buffering=0) as file:
            return file.read(size)

    def remove(self, path: str) -> None:
        with mapped(path):
            obstore.delete(self._store, path)
            _sync((self._folder / path).parent)

    def paths(self, folder: str) -> list[str]:
        return _listed(self._store, folder)

    @contextmanager
    def alone(self, bucket: str) -> Iterator[None]:
        with mapped(bucket):
            (self._folder / bucket).mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self._folder / bucket / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            flock(descriptor, LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def remove_strays(self, bucket: str) -> None:
        for path in self.paths(f"{bucket}/{STAGING}"):
            begun_at = _begun_at(path.rpartition("/")[2])
            if begun_at is not None and self._clock.now() - begun_at > STRAY_S:
                (self._folder / path).unlink(missing_ok=True)

    def _keep_folders(self, folder: str) -> None:
        """Sync the file's folder always, and each folder above it once: only a new folder changes those."""
        _sync(Path(folder))
        new: list[str] = []
        while folder != str(self._folder) and folder not in self._kept:
            new.append(folder)
            folder = os.path.dirname(folder)
            _sync(Path(folder))
        if len(self._kept) > FOLDERS_KNOWN_MAX:
            self._kept.clear()
        # Only now, so that no caller relies on a path that is not yet on the disk.
        self._kept.update(new)


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Map errors of the disk and of obstore to a `HoldfastError`."""
    try:
        yield
    except (AlreadyExistsError, FileExistsError) as error:
        raise AlreadyExists(f"There is already {path}.") from error
    except FileNotFoundError as error:
        raise NotFound(f"There is no {path}.") from error
    except (BaseError, OSError) as error:
        raise _failure(path, error) from error


def _failure(path: str, error: Exception) -> HoldfastError:
    number = getattr(error, "errno", None)
    if number in FULL or "os error 28" in str(error):
        return StoreFull(f"No room left on the disk for {path}: nothing of it was kept.")
    return StoreIOError(
        f"The disk failed for {path}, which is not acknowledged: {str(error).splitlines()[0]}"
    )


def _begun_at(staged: str) -> float | None:
    """Return when a temporary file was begun, or None for any other file, which is left alone."""
    moment, dash, _ = staged.partition("-")
    try:
        return float(moment) if dash else None
    except ValueError:
        return None


def _listed(store: LocalStore | MemoryStore, folder: str) -> list[str]:
    with mapped(folder):
        return [each["path"] for each in obstore.list(store, prefix=folder).collect()]


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it, and sync each."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync(folder.parent)


def _with_folder(path: str, work: Callable[[], None]) -> None:
    """Do the work, and make the folders on the path only if they are missing: mostly they exist."""
    try:
        work()
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        work()


def _write(path: str, file: bytes) -> None:
    """Write a file under a name that no other writer uses."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        left = memoryview(file)
        while left:
            left = left[os.write(descriptor, left) :]
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
