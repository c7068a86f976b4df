"""The stores that a backup covers, as the settings name them, and those that it leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from holdfast.config.settings import (
    ENVIRONMENT_SECRETS,
    FILE_SCHEME,
    IN_MEMORY,
    MEMORY_CACHE,
    MEMORY_OBJECTS,
    OBJECTS_FOLDER_NAME,
    QUEUES_FILE_NAME,
    SQL_FOLDER_NAME,
    SQLITE_SCHEME,
    TABLES_FILE_NAME,
    TEMPORARY_SQL,
    Settings,
)
from holdfast.core.errors import SettingsError

TABLES: Final = "tables"
QUEUES: Final = "queues"
OBJECTS: Final = "objects"
SQL: Final = "sql"

# The name of each store in a data folder, and in a backup, which has dumps instead of PostgreSQL's folder.
DATA_NAMES: Final = {
    TABLES: TABLES_FILE_NAME,
    QUEUES: QUEUES_FILE_NAME,
    OBJECTS: OBJECTS_FOLDER_NAME,
    SQL: SQL_FOLDER_NAME,
}
BACKUP_NAMES: Final = DATA_NAMES | {SQL: "sql"}
# The embedded engine of each store, and the service.
ENGINES: Final = {
    TABLES: ("sqlite", "dynamodb"),
    QUEUES: ("sqlite", "sqs"),
    OBJECTS: ("local", "s3"),
    SQL: ("embedded", "postgresql"),
}
MEMORY_ENGINE: Final = "memory"

MEMORY_REASON: Final = "is in memory, and ends with its process"
SERVICE_REASON: Final = "is a service, which has backups of its own"
ABSENT_REASON: Final = "has no data yet"


class SkippedStore(msgspec.Struct, frozen=True):
    """A store that is not in the backup, and why."""

    store: str
    engine: str
    reason: str


class Sources(msgspec.Struct, frozen=True):
    """The embedded stores by name, with the file or folder of each, and the stores that are left out."""

    paths: dict[str, Path]
    skipped: tuple[SkippedStore, ...]

    @property
    def folders(self) -> set[Path]:
        """The folders that hold the data."""
        return {path.parent if store in (TABLES, QUEUES) else path for store, path in self.paths.items()}


def find_sources(settings: Settings) -> Sources:
    """Return what the settings name. Nothing is opened."""
    paths: dict[str, Path] = {}
    skipped: list[SkippedStore] = []
    for place in _list_places(settings):
        if place.path is not None:
            paths[place.store] = place.path
        else:
            reason = MEMORY_REASON if place.engine == MEMORY_ENGINE else SERVICE_REASON
            skipped.append(SkippedStore(place.store, place.engine, reason))
    if settings.cache != MEMORY_CACHE:
        skipped.append(SkippedStore("cache", "redis", SERVICE_REASON))
    if settings.secrets.startswith(FILE_SCHEME):
        skipped.append(SkippedStore("secrets", "file", "is a file of yours: keep a copy of it elsewhere"))
    elif settings.secrets != ENVIRONMENT_SECRETS:
        skipped.append(SkippedStore("secrets", "secretsmanager", SERVICE_REASON))
    return Sources(paths, tuple(skipped))


def refuse_inside(target: Path, sources: Sources) -> None:
    """Raise `SettingsError` if the target is in a folder of the data: it would be lost with them."""
    resolved = target.resolve()
    for folder in sources.folders:
        if resolved.is_relative_to(folder.resolve()):
            raise SettingsError(
                f"{target} is in the data folder {folder}, and would be lost with it. Name a folder "
                "elsewhere, best on another disk."
            )


class _Place(msgspec.Struct, frozen=True):
    """Where a store is: `path` is None if it is not on this machine's disk."""

    store: str
    path: Path | None
    engine: str


def _list_places(settings: Settings) -> list[_Place]:
    has_local_objects = settings.objects.startswith(FILE_SCHEME)
    return [
        _locate(TABLES, settings.tables == IN_MEMORY, settings.has_embedded_tables, settings.tables_file),
        _locate(
            QUEUES,
            settings.queues == IN_MEMORY,
            settings.queues.startswith(SQLITE_SCHEME),
            settings.queues_file,
        ),
        _locate(OBJECTS, settings.objects == MEMORY_OBJECTS, has_local_objects, settings.objects_directory),
        _locate(SQL, settings.sql == TEMPORARY_SQL, settings.has_embedded_sql, settings.sql_directory),
    ]


def _locate(store: str, is_in_memory: bool, is_embedded: bool, path: Path | None) -> _Place:
    if is_in_memory:
        return _Place(store, None, MEMORY_ENGINE)
    embedded, service = ENGINES[store]
    return _Place(store, path, embedded) if is_embedded else _Place(store, None, service)
