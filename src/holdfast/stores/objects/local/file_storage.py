"""Storage for the files of the local objects engine: durable files in a folder on disk, or files in memory.

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
from pathlib import Path
from typing import Final, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, MemoryStore

from holdfast.core.clock import Clock
from holdfast.core.disk import lock, make_private_folder, open_private, require_posix, sync, sync_path
from holdfast.core.errors import (
    AlreadyExists,
    HoldfastError,
    NotFound,
    SettingsError,
    StoreFull,
    StoreIOError,
)
from holdfast.core.rng import make_hex_token
from holdfast.core.store_marker import mark_store, refuse_lost_store
from holdfast.stores.objects.local.paths import DEFINITION_FILE, LOCK_FILE, OBJECTS_FOLDER, STAGING_FOLDER

# How many synced folders to remember; a forgotten one is synced again.
MAX_SYNCED_FOLDERS: Final = 10_000
# A temporary file of this age belongs to a process that has ended.
STALE_AFTER_S: Final = 86_400.0
TEMPORARY_NAME_BYTES: Final = 16
DISK_FULL_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileStorage(Protocol):
    """Files by path; the first part of a path is the bucket. Calls block, and any thread may make them."""

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        """Store the file durably. Raise `AlreadyExists` if `create_only` is set and the file exists."""
        ...

    def get(self, path: str) -> bytes:
        """Return the file's bytes. Raise `NotFound` without it."""
        ...

    def get_version(self, path: str) -> object:
        """Return a value that changes with the file. Raise `NotFound` without it."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is such a file."""
        ...

    def get_start(self, path: str, size: int) -> bytes:
        """Return at most the first `size` bytes of the file. Raise `NotFound` without it."""
        ...

    def remove(self, path: str) -> None:
        """Remove the file. Raise `NotFound` if the storage reports that there is none."""
        ...

    def list_paths(self, folder: str) -> list[str]:
        """Return the paths of all files under the folder, at any depth, in no fixed order."""
        ...

    def lock_bucket(self, bucket: str) -> AbstractContextManager[None]:
        """Lock the bucket across processes: no other caller changes existing files; new files may still be
        added.
        """
        ...

    def remove_stale_files(self, bucket: str) -> None:
        """Remove the bucket's temporary files that are over a day old: ended processes left them."""
        ...

    def mark_bucket(self, bucket: str) -> None:
        """Write outside of the bucket that it exists, so that its loss is noticed."""
        ...

    def refuse_lost_files(self, bucket: str) -> None:
        """Raise `StoreFileError` if the bucket, all of its objects or all buckets existed and are gone."""
        ...


class MemoryFileStorage:
    """Files in memory. All buckets share one lock."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self._lock = threading.RLock()

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        with map_errors(path):
            obstore.put(self._store, path, file, mode="create" if create_only else "overwrite")

    def get(self, path: str) -> bytes:
        with map_errors(path):
            return bytes(obstore.get(self._store, path).bytes())

    def get_version(self, path: str) -> object:
        return self.get(path)

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except NotFound:
            return False
        return True

    def get_start(self, path: str, size: int) -> bytes:
        return self.get(path)[:size]

    def remove(self, path: str) -> None:
        with map_errors(path):
            obstore.delete(self._store, path)

    def list_paths(self, folder: str) -> list[str]:
        return _list_paths(self._store, folder)

    @contextmanager
    def lock_bucket(self, bucket: str) -> Iterator[None]:
        """Hold the one lock of all buckets."""
        with self._lock:
            yield

    def remove_stale_files(self, bucket: str) -> None:
        """Do nothing: memory has no temporary files."""

    def mark_bucket(self, bucket: str) -> None:
        """Do nothing: memory is lost as a whole."""

    def refuse_lost_files(self, bucket: str) -> None:
        """Do nothing, as in `mark_bucket`."""


class FolderFileStorage:
    """Files in a folder, durable when `put` returns, shared by any number of threads and processes."""

    def __init__(self, folder: Path, *, clock: Clock) -> None:
        require_posix("An objects folder", "S3 in the setting `objects`")
        folder = folder.absolute()
        _refuse_lost_folder(folder)
        try:
            _make_folder(folder)
            self._store = LocalStore(folder)
        except OSError as error:
            raise SettingsError(
                f"Invalid objects folder {folder}: {error.strerror}. Name another folder in the setting "
                "`objects`."
            ) from error
        self._folder, self._clock = folder, clock
        # Folders that this process has synced, with the folders above them; they are never removed.
        self._synced_folders: set[str] = set()
        # Buckets whose folders all have their markers.
        self._marked_buckets: set[str] = set()
        for definition in folder.glob(f"*/{DEFINITION_FILE}"):
            self.mark_bucket(definition.parent.name)

    def put(self, path: str, file: bytes, *, create_only: bool) -> None:
        """Write the file durably: write and sync a temporary file, move it to its path, sync the folders."""
        # A random name: engines, threads and processes that share the folder do not coordinate.
        name = f"{self._clock.now():.3f}-{make_hex_token(TEMPORARY_NAME_BYTES)}"
        staged = f"{self._folder}/{path.partition('/')[0]}/{STAGING_FOLDER}/{name}"
        target = f"{self._folder}/{path}"
        with map_errors(path):
            _run_with_folder(staged, lambda: _write_synced(staged, file))
            try:
                # A link fails if the file exists; a rename replaces it.
                move = os.link if create_only else os.replace
                _run_with_folder(target, lambda: move(staged, target), self._make_objects_folder)
                self._sync_folders(os.path.dirname(target))
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(staged)

    def get(self, path: str) -> bytes:
        with map_errors(path), open(f"{self._folder}/{path}", "rb", buffering=0) as file:
            return file.read()

    def exists(self, path: str) -> bool:
        return os.path.exists(f"{self._folder}/{path}")

    def get_version(self, path: str) -> object:
        """Return identity, size and time of the file: a definition is replaced by another file."""
        with map_errors(path):
            found = os.stat(f"{self._folder}/{path}")
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def get_start(self, path: str, size: int) -> bytes:
        with map_errors(path), open(f"{self._folder}/{path}", "rb", buffering=0) as file:
            return file.read(size)

    def remove(self, path: str) -> None:
        """Remove the file and sync its folder."""
        with map_errors(path):
            obstore.delete(self._store, path)
            sync_path((self._folder / path).parent)

    def list_paths(self, folder: str) -> list[str]:
        return _list_paths(self._store, folder)

    @contextmanager
    def lock_bucket(self, bucket: str) -> Iterator[None]:
        """Lock the bucket across processes by a lock file in its folder; wait until it is free."""
        with map_errors(bucket):
            make_private_folder(self._folder / bucket)
            descriptor = open_private(self._folder / bucket / LOCK_FILE, os.O_RDWR)
        try:
            lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def remove_stale_files(self, bucket: str) -> None:
        """Remove the bucket's temporary files that are over a day old; leave files with other names."""
        for path in self.list_paths(f"{bucket}/{STAGING_FOLDER}"):
            created_at = _parse_created_at(path.rpartition("/")[2])
            if created_at is not None and self._clock.now() - created_at > STALE_AFTER_S:
                (self._folder / path).unlink(missing_ok=True)

    def mark_bucket(self, bucket: str) -> None:
        """Write a marker next to the folder of all buckets, to the bucket's, and to that of its objects."""
        for folder in (self._folder, self._folder / bucket, self._folder / bucket / OBJECTS_FOLDER):
            if folder.is_dir():
                mark_store(folder)

    def refuse_lost_files(self, bucket: str) -> None:
        """Raise `StoreFileError` if a marker says that the folder of all buckets, the bucket, or that of its
        objects existed.
        """
        _refuse_lost_folder(self._folder)
        folder = self._folder / bucket
        refuse_lost_store(folder, (folder / DEFINITION_FILE).exists)
        refuse_lost_store(folder / OBJECTS_FOLDER, (folder / OBJECTS_FOLDER).exists)

    def _make_objects_folder(self, path: str) -> None:
        """Create the folder of a new file, unless all objects of its bucket are lost."""
        bucket, _, rest = path.removeprefix(f"{self._folder}/").partition("/")
        # Where the folder of all objects is, nothing is lost: most new folders take no look at the markers.
        is_new = not os.path.isdir(f"{self._folder}/{bucket}/{OBJECTS_FOLDER}")
        if is_new and rest.startswith(f"{OBJECTS_FOLDER}/"):
            self.refuse_lost_files(bucket)
        make_private_folder(os.path.dirname(path))
        if is_new or bucket not in self._marked_buckets:
            self.mark_bucket(bucket)
            self._marked_buckets.add(bucket)

    def _sync_folders(self, folder: str) -> None:
        """Sync the file's folder always, and each folder above it once: only a new folder changes those."""
        sync_path(folder)
        new: list[str] = []
        while folder != str(self._folder) and folder not in self._synced_folders:
            new.append(folder)
            folder = os.path.dirname(folder)
            sync_path(folder)
        if len(self._synced_folders) > MAX_SYNCED_FOLDERS:
            self._synced_folders.clear()
        # Only now, so that no caller relies on a path that is not yet on the disk.
        self._synced_folders.update(new)


@contextmanager
def map_errors(path: str) -> Iterator[None]:
    """Map errors of the disk and of obstore to `AlreadyExists`, `NotFound`, `StoreFull` or `StoreIOError`."""
    try:
        yield
    except (AlreadyExistsError, FileExistsError) as error:
        raise AlreadyExists(f"The file {path} already exists.") from error
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.") from error
    except (BaseError, OSError) as error:
        raise _to_holdfast_error(path, error) from error


def _to_holdfast_error(path: str, error: Exception) -> HoldfastError:
    """Return `StoreFull` if the disk is full, otherwise `StoreIOError`."""
    number = getattr(error, "errno", None)
    if number in DISK_FULL_ERRORS or "os error 28" in str(error):
        return StoreFull(f"No space left on the disk for {path}. Nothing was stored.")
    return StoreIOError(
        f"The disk failed for {path}, and the operation is not acknowledged: {str(error).splitlines()[0]}"
    )


def _parse_created_at(name: str) -> float | None:
    """Return when a temporary file was created, or None for any other file, which must not be removed."""
    moment, dash, _ = name.partition("-")
    try:
        return float(moment) if dash else None
    except ValueError:
        return None


def _list_paths(store: LocalStore | MemoryStore, folder: str) -> list[str]:
    """Return the paths of all files under the folder, at any depth."""
    with map_errors(folder):
        return [each["path"] for each in obstore.list(store, prefix=folder).collect()]


def _refuse_lost_folder(folder: Path) -> None:
    """Raise `StoreFileError` if the folder has no bucket, and its marker says that it had one."""
    refuse_lost_store(folder, lambda: any(folder.glob(f"*/{DEFINITION_FILE}")))


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it, for their owner alone, and sync the folder that contains it."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    make_private_folder(folder)
    sync_path(folder.parent)


def _run_with_folder(
    path: str,
    action: Callable[[], None],
    make_folder: Callable[[str], None] = lambda path: make_private_folder(os.path.dirname(path)),
) -> None:
    """Run the action. If the folder of `path` is missing, create it and run the action again."""
    try:
        action()
    except FileNotFoundError:
        make_folder(path)
        action()


def _write_synced(path: str, file: bytes) -> None:
    """Create a file, write the bytes and sync them.

    Raise if the file exists; remove it if that fails.
    """
    descriptor = open_private(path, os.O_WRONLY | os.O_EXCL)
    try:
        remaining = memoryview(file)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
        sync(descriptor)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
