"""Where files of objects are kept: a folder of the disk, or memory; obstore moves the bytes of both.

On disk, obstore writes a file beside its place and moves it there in one step, but asks the disk for nothing: after a
power cut a name could be there without its bytes. So a file is written under a name of its own, brought to the disk,
moved to its place, and the folders on the way are brought to the disk too, before anybody is told that it is kept.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore

from holdfast.clock import Clock
from holdfast.errors import AlreadyThere, HoldfastError, NotFound, SettingsError, StoreFull, StoreIOError
from holdfast.stores.objects.local.paths import LOCK, STAGING

# A file that is still on its way after so long belongs to a process that is no more.
STRAY_S: Final = 86_400.0
STAGED_BYTES: Final = 16
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Medium(Protocol):
    """Files by path; the first step of a path is the bucket. Calls block, and any thread may make them."""

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        """Kept for good when it returns. `AlreadyThere` if `create_only` and there is one."""
        ...

    def get(self, path: str) -> bytes: ...

    def get_start(self, path: str, size: int) -> bytes: ...

    def remove(self, path: str) -> None: ...

    def paths(self, folder: str) -> list[str]: ...

    def alone(self, bucket: str) -> AbstractContextManager[None]:
        """Nobody else changes what is there, in any process; what is new may come."""
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
        """There are none: nothing is on its way here."""


class FolderMedium:
    def __init__(self, folder: Path, *, clock: Clock) -> None:
        folder = folder.absolute()
        try:
            _make_folder(folder)
            self._store = LocalStore(folder)
        except OSError as error:
            raise SettingsError(
                f"The folder {folder} cannot hold objects ({error.strerror}): name another in the setting `objects`."
            ) from error
        self._folder, self._clock = folder, clock
        # Folders that this process has brought to the disk, with their way there; they are never removed.
        self._kept: set[Path] = set()

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        # By chance alone: engines, threads and processes that share the folder know nothing of each other.
        staged = f"{path.partition('/')[0]}/{STAGING}/{self._clock.now():.3f}-{token_hex(STAGED_BYTES)}"
        with mapped(path):
            obstore.put(self._store, staged, file)
            try:
                _sync(self._folder / staged)
                if create_only:
                    obstore.copy(self._store, staged, path, overwrite=False)
                else:
                    obstore.rename(self._store, staged, path, overwrite=True)
                    staged = ""
                self._keep_folders((self._folder / path).parent)
            finally:
                if staged:
                    (self._folder / staged).unlink(missing_ok=True)

    def get(self, path: str) -> bytes:
        with mapped(path):
            return bytes(obstore.get(self._store, path).bytes())

    def get_start(self, path: str, size: int) -> bytes:
        with mapped(path), (self._folder / path).open("rb") as file:
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

    def _keep_folders(self, folder: Path) -> None:
        """The folder of the file always, those above once: their entries change only when a folder is made."""
        _sync(folder)
        new: list[Path] = []
        while folder != self._folder and folder not in self._kept:
            new.append(folder)
            folder = folder.parent
            _sync(folder)
        # Only now, so that nobody relies on a way that is not yet on the disk.
        self._kept.update(new)


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """What the disk or obstore raises, as one of ours."""
    try:
        yield
    except AlreadyExistsError as error:
        raise AlreadyThere(f"There is already {path}.") from error
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
    """None for a file that is not ours: it is left alone."""
    moment, dash, _ = staged.partition("-")
    try:
        return float(moment) if dash else None
    except ValueError:
        return None


def _listed(store: LocalStore | MemoryStore, folder: str) -> list[str]:
    with mapped(folder):
        return [each["path"] for each in obstore.list(store, prefix=folder).collect()]


def _make_folder(folder: Path) -> None:
    """With those above it, each on the disk."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
