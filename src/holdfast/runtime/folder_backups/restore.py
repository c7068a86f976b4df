"""Restore a backup of a data folder into a new folder, all or nothing, and verify what was restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.config.settings import FILE_SCHEME, Settings
from holdfast.core.disk import make_private_folder, open_private, require_posix, sync
from holdfast.core.errors import DataDamaged, KeyUnavailable, SettingsError, StoreFileError
from holdfast.core.progress import Progress, ignore_progress
from holdfast.core.store_marker import write_marker
from holdfast.runtime.folder_backups.manifest import Manifest, StoreEntry, read_manifest, read_verified
from holdfast.runtime.folder_backups.sources import (
    BACKUP_NAMES,
    DATA_NAMES,
    OBJECTS,
    QUEUES,
    SQL,
    TABLES,
    find_sources,
)
from holdfast.runtime.folder_backups.staged_folder import stage_folder
from holdfast.runtime.folder_backups.store_checks import check_file, check_objects, get_file_kind

if TYPE_CHECKING:
    from holdfast.security.ciphers import Cipher

STAGING_KIND: Final = "restoring"
DEFAULT_KEY_NAME: Final = "keys.json"
MAX_DIFFERENCES_SHOWN: Final = 5


class FolderRestore(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore did. Without `has_keys`, the encrypted data of the folder are unreadable."""

    manifest: Manifest
    folder: Path
    has_keys: bool
    is_verified: bool
    is_dry_run: bool


def find_data_folder(settings: Settings) -> Path:
    """Return the folder in which the settings keep every store, under the default names.

    Raise `SettingsError` if they keep them in several places, or in services.
    """
    paths = find_sources(settings).paths
    folders = {path.parent for path in paths.values()}
    if len(folders) == 1 and {store: path.name for store, path in paths.items()} == DATA_NAMES:
        return folders.pop()
    raise SettingsError(
        "The settings do not keep all stores in one folder. Name a new folder with --data DIR, and point the "
        "settings to it afterwards."
    )


def restore_folder(
    backup: Path,
    target: Path,
    *,
    settings: Settings,
    key_file: Path | None = None,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress = ignore_progress,
) -> FolderRestore:
    """Restore a backup into a new folder. Every file must match its hash.

    `key_file` adds the keys that are not in the backup. With `verify`, everything that was restored is read
    and counted. A `dry_run` does the same and keeps nothing. Raise `SettingsError` if the target holds data,
    `StoreFileError` or `DataDamaged` if the backup cannot be used; then there is no new folder.
    """
    require_posix("A restore of embedded stores", "services, which have backups of their own")
    manifest = read_manifest(backup)
    _check_supported(manifest)
    _check_keys(manifest, key_file)
    if target.resolve().is_relative_to(backup.resolve()):
        raise SettingsError(f"{target} is in the backup {backup}. Name a folder elsewhere.")
    with stage_folder(target, STAGING_KIND, _stop_server) as staged:
        _copy_files(backup, manifest, staged.path, progress)
        if key_file is not None:
            _copy_keys(key_file, staged.path / _get_key_name(manifest, settings))
        _write_markers(manifest, staged.path, _get_key_name(manifest, settings))
        has_keys = not manifest.keys or (staged.path / _get_key_name(manifest, settings)).exists()
        if SQL in manifest.stores:
            _restore_sql(backup, manifest.stores[SQL], staged.path, verify, progress)
        if verify:
            _verify(backup, manifest, staged.path, settings, progress)
        if not dry_run:
            staged.publish()
    return FolderRestore(
        manifest=manifest, folder=target, has_keys=has_keys, is_verified=verify, is_dry_run=dry_run
    )


# --- before anything is written -----------------------------------------------------------------------------


def _check_supported(manifest: Manifest) -> None:
    """Raise `StoreFileError` if a store was written by a version that this one cannot read."""
    for store, entry in manifest.stores.items():
        if store not in DATA_NAMES:
            raise StoreFileError(f"The backup has an unknown store {store!r}. Upgrade Holdfast.")
        supported = get_file_kind(store).schema.version if store in (TABLES, QUEUES) else None
        if supported is not None and entry.schema is not None and entry.schema > supported:
            raise StoreFileError(
                f"{entry.path} in the backup was written by a newer Holdfast (schema {entry.schema}; this "
                f"one supports up to {supported}). Upgrade Holdfast."
            )
        if store == SQL:
            _check_postgres_version(entry)


def _check_postgres_version(entry: StoreEntry) -> None:
    from holdfast.stores.sql.postgres.programs import MAJOR_VERSION

    major = (entry.version or "").partition(".")[0]
    if major != str(MAJOR_VERSION):
        raise StoreFileError(
            f"The backup has dumps of PostgreSQL {entry.version}, and this is PostgreSQL {MAJOR_VERSION}. "
            f"Restore it with a Holdfast that brings PostgreSQL {major}."
        )


def _check_keys(manifest: Manifest, key_file: Path | None) -> None:
    """Raise `KeyUnavailable` if a given key file lacks a key that the backup needs."""
    if key_file is None:
        return
    from holdfast.security.ciphers import FileCipher

    missing = {id: count for id, count in manifest.keys.items() if not FileCipher(key_file).has_key(id)}
    if missing:
        raise KeyUnavailable(
            f"Invalid key file {key_file}: it lacks {', '.join(missing)}, with which "
            f"{sum(missing.values()):,} objects of the backup are encrypted. Name the key file of the folder "
            "that was backed up."
        )


# --- files --------------------------------------------------------------------------------------------------


def _copy_files(backup: Path, manifest: Manifest, folder: Path, progress: Progress) -> None:
    """Copy every file of the backup except the dumps, and compare each with its hash."""
    dumps = BACKUP_NAMES[SQL] + "/"
    for done, (name, entry) in enumerate(manifest.files.items(), start=1):
        content = read_verified(backup, name, entry)
        if name.startswith(dumps):
            for _ in content:
                continue
        else:
            _write_file(folder / name, content)
        progress("files", done, len(manifest.files))
    if OBJECTS in manifest.stores:
        make_private_folder(folder / DATA_NAMES[OBJECTS])


def _write_file(path: Path, content: Iterable[bytes]) -> None:
    """Write a new private file and sync it."""
    make_private_folder(path.parent)
    with open(path, "xb", opener=open_private) as file:
        for block in content:
            file.write(block)
        file.flush()
        sync(file.fileno())


def _copy_keys(key_file: Path, target: Path) -> None:
    """Copy the given key file, in place of one from the backup."""
    target.unlink(missing_ok=True)
    _write_file(target, [key_file.read_bytes()])


def _get_key_name(manifest: Manifest, settings: Settings) -> str:
    """Return the name of the key file in the restored folder."""
    if manifest.key_file is not None:
        return manifest.key_file
    return settings.keys_file.name if settings.keys.startswith(FILE_SCHEME) else DEFAULT_KEY_NAME


def _write_markers(manifest: Manifest, folder: Path, key_name: str) -> None:
    """Mark each store with its id: the same data in another place is the same store.

    The key file is marked even if it is missing, so that no process creates another in its place.
    """
    if manifest.key_file_id is not None:
        write_marker(folder / key_name, manifest.key_file_id)
    for store, entry in manifest.stores.items():
        if entry.id is not None:
            write_marker(folder / DATA_NAMES[store], entry.id)


def _stop_server(folder: Path) -> None:
    """Stop the server that a killed restore has left in a folder, before its files are removed."""
    if (folder / DATA_NAMES[SQL]).exists():
        from holdfast.stores.sql.postgres.embedded import stop_abandoned_server

        stop_abandoned_server(folder / DATA_NAMES[SQL])


# --- SQL ----------------------------------------------------------------------------------------------------


def _restore_sql(backup: Path, entry: StoreEntry, folder: Path, verify: bool, progress: Progress) -> None:
    """Create a server in the folder, restore the dumps into it, count its rows if asked, and stop it."""
    from holdfast.stores.sql.postgres import EmbeddedServer
    from holdfast.stores.sql.postgres.dumps import count_rows, restore_dumps

    server = EmbeddedServer(folder / DATA_NAMES[SQL])
    server.use()
    try:
        restore_dumps(
            server,
            backup / entry.path,
            entry.databases,
            lambda done, total: progress("sql (databases)", done, total),
        )
        if verify:
            _compare(SQL, count_rows(server), entry.counts)
    finally:
        server.release()


# --- verification -------------------------------------------------------------------------------------------


def _verify(backup: Path, manifest: Manifest, folder: Path, settings: Settings, progress: Progress) -> None:
    """Read the restored files and objects, and compare their counts with the manifest.

    Objects are decrypted if the folder has the keys.
    """
    for store, entry in manifest.stores.items():
        path, subject = folder / DATA_NAMES[store], backup / entry.path
        if store in (TABLES, QUEUES):
            _compare(store, check_file(store, path, subject, progress), entry.counts)
        elif store == OBJECTS:
            cipher = _find_cipher(folder / _get_key_name(manifest, settings))
            _compare(store, check_objects(path, cipher, subject, progress).counts, entry.counts)


def _find_cipher(key_file: Path) -> Cipher | None:
    from holdfast.security.ciphers import FileCipher

    return FileCipher(key_file) if key_file.exists() else None


def _compare(store: str, found: Mapping[str, int], expected: Mapping[str, int]) -> None:
    """Raise `DataDamaged` if the counts differ from those of the backup."""
    differences = [
        f"{name} has {found.get(name, 0):,} instead of {expected.get(name, 0):,}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]
    if differences:
        shown = "; ".join(differences[:MAX_DIFFERENCES_SHOWN])
        raise DataDamaged(f"The restored {store} differ from the backup: {shown}. Use another backup.")
