"""Copies of single stores for a backup, each in the same steps.

prepare     copy what can be copied while everything continues
hold        stop the writers, for as long as the context lasts
freeze      fix the moment of the copy
write       write the copy, read all of it, and describe it
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Final, Protocol

from holdfast.config.settings import Settings
from holdfast.core.disk import make_private_folder
from holdfast.core.errors import DataDamaged
from holdfast.core.progress import Progress
from holdfast.core.store_marker import read_marker, refuse_lost_store
from holdfast.runtime.folder_backups.manifest import StoreEntry
from holdfast.runtime.folder_backups.sources import BACKUP_NAMES, ENGINES, OBJECTS, QUEUES, SQL, TABLES
from holdfast.runtime.folder_backups.store_checks import (
    check_file,
    check_objects,
    get_file_kind,
    open_check_cipher,
    refuse_problems,
)

# How often the objects are copied while writers continue. The second time, little is left to copy.
OBJECT_PASSES: Final = 2


class StoreCopy(Protocol):
    """The copy of one store, in a folder of the backup. Close it at the end."""

    def prepare(self) -> None: ...

    def hold(self) -> AbstractContextManager[None]: ...

    def freeze(self) -> None: ...

    def write(self) -> StoreEntry:
        """Write the copy and return its entry. Raise `DataDamaged` if the store is damaged."""
        ...

    def close(self) -> None: ...


def open_store_copy(
    store: str, path: Path, folder: Path, settings: Settings, progress: Progress
) -> StoreCopy | None:
    """Return the copy of a store, to be written into the folder; None if the store has no data yet.

    Raise `StoreFileError` if its data were lost.
    """
    target = folder / BACKUP_NAMES[store]
    if store in (TABLES, QUEUES):
        from holdfast.stores.sqlite.file_copy import has_data

        return FileCopy(store, path, target, progress) if has_data(path) else None
    if not (path / "server" if store == SQL else path).is_dir():
        refuse_lost_store(path)
        return None
    return SqlCopy(path, target, progress) if store == SQL else ObjectsCopy(path, target, settings, progress)


class FileCopy:
    """The copy of a database file: the tables or the queues."""

    def __init__(self, store: str, path: Path, target: Path, progress: Progress) -> None:
        from holdfast.stores.sqlite.file_copy import LiveFile

        self._store, self._path, self._target, self._progress = store, path, target, progress
        self._file = LiveFile(path, get_file_kind(store).schema)

    def prepare(self) -> None:
        """Do nothing: the pages change until the moment is fixed."""

    def hold(self) -> AbstractContextManager[None]:
        return self._file.write_lock

    def freeze(self) -> None:
        self._file.freeze()

    def write(self) -> StoreEntry:
        """Copy the pages, then read the copy. An error names the damaged items."""
        try:
            self._file.copy_to(
                self._target, lambda done, total: self._progress(f"{self._store} (pages)", done, total)
            )
        except DataDamaged:
            refuse_problems(self._path, get_file_kind(self._store).verify(self._file.path, self._progress))
            raise
        # The log cannot be truncated before.
        self._file.close()
        return StoreEntry(
            engine=ENGINES[self._store][0],
            path=self._target.name,
            id=self._file.store_id,
            schema=self._file.version,
            counts=check_file(self._store, self._target, self._path, self._progress),
        )

    def close(self) -> None:
        self._file.close()


class ObjectsCopy:
    """The copy of a folder of objects."""

    def __init__(self, path: Path, target: Path, settings: Settings, progress: Progress) -> None:
        from holdfast.stores.objects.local.folder_copy import FolderCopy

        self._path, self._target, self._progress = path, target, progress
        self._copy = FolderCopy(path, target)
        self._cipher = open_check_cipher(settings)
        self.keys: dict[str, int] = {}

    def prepare(self) -> None:
        """Copy everything while writers continue."""
        for _ in range(OBJECT_PASSES):
            self._copy_changes()

    def hold(self) -> AbstractContextManager[None]:
        return self._copy.lock_buckets()

    def freeze(self) -> None:
        """Bring the copy to this moment. Deletions and replacements wait for it."""
        self._copy_changes()

    def write(self) -> StoreEntry:
        """Read the copy, and decrypt it if the keys are on this machine."""
        found = check_objects(self._target, self._cipher, self._path, self._progress)
        self.keys = found.keys
        return StoreEntry(
            engine=ENGINES[OBJECTS][0],
            path=self._target.name,
            id=read_marker(self._path),
            counts=found.counts,
        )

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _copy_changes(self) -> None:
        self._copy.copy_changes(lambda done, total: self._progress("objects", done, total))


class SqlCopy:
    """The dumps of an embedded PostgreSQL, which is started if it does not run."""

    def __init__(self, path: Path, target: Path, progress: Progress) -> None:
        from holdfast.stores.sql.postgres import EmbeddedServer
        from holdfast.stores.sql.postgres.dumps import ServerSnapshot

        self._target, self._progress = target, progress
        with ExitStack() as undo:
            server = EmbeddedServer(path)
            server.use()
            undo.callback(server.release)
            self._snapshot = ServerSnapshot(server)
            undo.callback(self._snapshot.close)
            self._stack = undo.pop_all()

    def prepare(self) -> None:
        """Do nothing: a dump begins at its moment."""

    def hold(self) -> AbstractContextManager[None]:
        """Stop no writer: a snapshot of the server has its moment by itself."""
        return nullcontext()

    def freeze(self) -> None:
        self._snapshot.freeze()

    def write(self) -> StoreEntry:
        """Dump every database and count its rows."""
        make_private_folder(self._target)
        databases = self._snapshot.dump(
            self._target, lambda done, total: self._progress("sql (databases)", done, total)
        )
        return StoreEntry(
            engine=ENGINES[SQL][0],
            path=self._target.name,
            version=self._snapshot.version,
            counts=self._snapshot.count_rows(),
            databases=databases,
        )

    def close(self) -> None:
        self._stack.close()
