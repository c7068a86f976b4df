"""Restores of a data folder: all or nothing, from a backup whose every byte is as it was written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.core.errors import (
    DataDamaged,
    HoldfastError,
    KeyUnavailable,
    SettingsError,
    StoreFileError,
    StoreFull,
)
from holdfast.core.store_marker import read_marker
from holdfast.operations import queues
from holdfast.runtime.folder_backups import (
    back_up_folder,
    find_data_folder,
    manifest,
    restore,
    restore_folder,
)
from holdfast.runtime.folder_backups.manifest import FileEntry, Manifest, read_manifest
from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.sqlite import Leases
from tests.sqlite_files import open_file

from .data_folders import ITEMS, QUEUE, build_settings, open_archive, open_notes, put_note, read_all


def restore_to(backup: Path, target: Path, **options: Any) -> restore.FolderRestore:
    return restore_folder(backup, target, settings=Settings(), **options)


@pytest.mark.parametrize("verify", [True, False], ids=["verified", "not verified"])
def test_restores_every_store(backup: Path, filled_folder: Path, tmp_path: Path, verify: bool) -> None:
    done = restore_to(backup, tmp_path / "restored", verify=verify)

    assert done.has_keys and done.is_verified is verify
    assert read_all(tmp_path / "restored") == read_all(filled_folder)


def test_restored_folder_is_private_and_has_no_trace_of_the_restore(backup: Path, tmp_path: Path) -> None:
    restore_to(backup, tmp_path / "restored", verify=True)

    names = {path.name for path in (tmp_path / "restored").iterdir()}
    files = ("tables.db", "queues.db", "objects", "keys.json")
    assert names == {name for file in files for name in (file, f".{file}.identity")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "restored"]
    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (tmp_path / "restored").rglob("*")
    }
    assert modes == {(True, 0o700), (False, 0o600)}


def test_restore_leaves_the_backup_as_it_is(backup: Path, tmp_path: Path) -> None:
    before = {path: path.stat() for path in backup.rglob("*")}
    restore_to(backup, tmp_path / "restored", verify=True)

    assert {path: path.stat().st_mtime_ns for path in backup.rglob("*")} == {
        path: found.st_mtime_ns for path, found in before.items()
    }


def test_dry_run_checks_everything_and_keeps_nothing(backup: Path, tmp_path: Path) -> None:
    done = restore_to(backup, tmp_path / "restored", verify=True, dry_run=True)

    assert done.is_dry_run
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup"]


# --- on the new machine -------------------------------------------------------------------------------------


def test_store_has_the_same_id_and_takes_writes(backup: Path, filled_folder: Path, tmp_path: Path) -> None:
    restore_to(backup, tmp_path / "restored")
    for name in ("tables.db", "queues.db", "objects", "keys.json"):
        assert read_marker(tmp_path / "restored" / name) == read_marker(filled_folder / name) is not None

    for _ in range(2):
        with open_notes(tmp_path / "restored") as notes:
            put_note(notes, ITEMS)
    assert len(read_all(tmp_path / "restored")["items"]) == ITEMS + 1


def test_restored_file_that_is_lost_later_is_noticed(backup: Path, tmp_path: Path) -> None:
    restore_to(backup, tmp_path / "restored")
    (tmp_path / "restored" / "tables.db").unlink()

    with pytest.raises(StoreFileError, match="says that it held data"):
        open_notes(tmp_path / "restored")


def test_message_in_flight_is_received_again_after_its_timeout(backup: Path, tmp_path: Path) -> None:
    restore_to(backup, tmp_path / "restored")
    clock = RunClock(tmp_path / "clock", start=Settings().clock.now())
    with open_queues(tmp_path / "restored" / "queues.db", clock=clock) as work:
        first = work.run_blocking(queues.ReceiveMessages(QUEUE, count=10))
        clock.advance(31)
        again = work.run_blocking(queues.ReceiveMessages(QUEUE, count=10))

    assert len(first) == 3
    assert {each.body for each in again} == {f"message {number}" for number in range(4)}


@pytest.mark.parametrize("ahead_s", [-3600, 0, 3600], ids=["clock behind", "same clock", "clock ahead"])
def test_lease_of_the_old_machine_does_not_block_the_new_one(
    data: Path, tmp_path: Path, ahead_s: float
) -> None:
    now = Settings().clock.now()
    with open_notes(data) as notes:
        taken = Leases(notes.database, lambda: now).take("indexing")
        back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)
    restore_to(tmp_path / "backup", tmp_path / "restored")

    with open_notes(tmp_path / "restored") as notes:
        later = Leases(notes.database, lambda: now + ahead_s + 31).take("indexing")
    assert taken is not None and later is not None
    assert later.token > taken.token


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.fixture
def keyless(data: Path, tmp_path: Path) -> Path:
    """Return a backup without the keys."""
    back_up_folder(build_settings(data), tmp_path / "keyless")
    return tmp_path / "keyless"


def test_restore_without_keys_says_so_and_verifies_the_rest(keyless: Path, tmp_path: Path) -> None:
    done = restore_to(keyless, tmp_path / "restored", verify=True)

    assert not done.has_keys
    assert sum(done.manifest.keys.values()) == 3
    assert not (tmp_path / "restored" / "keys.json").exists()


def test_folder_restored_without_keys_gets_no_new_ones(keyless: Path, data: Path, tmp_path: Path) -> None:
    """Objects that are put with other keys would hide that the old ones are missing."""
    restore_to(keyless, tmp_path / "restored")

    with pytest.raises(StoreFileError, match="says that it held data"):
        open_archive(tmp_path / "restored")
    shutil.copy(data / "keys.json", tmp_path / "restored")
    assert read_all(tmp_path / "restored") == read_all(data)


def test_given_key_file_makes_everything_readable(keyless: Path, data: Path, tmp_path: Path) -> None:
    done = restore_to(keyless, tmp_path / "restored", verify=True, key_file=data / "keys.json")

    assert done.has_keys
    assert read_all(tmp_path / "restored") == read_all(data)


def test_key_file_of_another_folder_is_refused(keyless: Path, tmp_path: Path) -> None:
    open_file_cipher(tmp_path / "other.json")

    with pytest.raises(KeyUnavailable, match="other.json: it lacks key-.*, with which 3 objects"):
        restore_to(keyless, tmp_path / "restored", key_file=tmp_path / "other.json")
    assert not (tmp_path / "restored").exists()


def test_missing_key_file_is_refused(keyless: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match="Failed to read the key file"):
        restore_to(keyless, tmp_path / "restored", key_file=tmp_path / "none.json")


# --- the target ---------------------------------------------------------------------------------------------


def test_folder_that_holds_data_is_refused_and_unchanged(backup: Path, data: Path) -> None:
    before = read_all(data)

    with pytest.raises(SettingsError, match="is not empty, and nothing in it was changed"):
        restore_to(backup, data)
    assert read_all(data) == before


def test_target_in_the_backup_is_refused(backup: Path) -> None:
    with pytest.raises(SettingsError, match="is in the backup"):
        restore_to(backup, backup / "data")


def test_full_disk_leaves_no_folder(backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(restore, "_write_markers", fail)
    _refuse(StoreFull, backup, tmp_path)


def test_settings_with_one_data_folder_name_the_target(tmp_path: Path) -> None:
    assert find_data_folder(Settings(base=tmp_path)) == tmp_path / "data"


@pytest.mark.parametrize(
    "settings", [Settings(queues="sqlite:elsewhere/queues.db"), Settings(tables="dynamodb://us-east-1")]
)
def test_settings_without_one_data_folder_need_a_target(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="Name a new folder with --data DIR"):
        find_data_folder(settings)


# --- the backup ---------------------------------------------------------------------------------------------


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 2)


def replace_by_link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


@pytest.mark.parametrize(
    ("pattern", "change"),
    [
        *(("tables.db", change) for change in (flip_bit, truncate, Path.unlink, replace_by_link)),
        *((pattern, flip_bit) for pattern in ("queues.db", "objects/**/*@", "objects/**/bucket.json")),
        ("keys.json", truncate),
    ],
)
def test_changed_file_is_named_and_nothing_is_restored(
    backup: Path, tmp_path: Path, pattern: str, change: Callable[[Path], None]
) -> None:
    path = next(backup.glob(pattern))
    change(path)

    assert str(path) in _refuse(DataDamaged, backup, tmp_path)


@pytest.mark.parametrize("change", [flip_bit, truncate])
def test_changed_manifest_is_refused(backup: Path, tmp_path: Path, change: Callable[[Path], None]) -> None:
    change(backup / "manifest.json")

    assert "manifest.json is damaged" in _refuse(DataDamaged, backup, tmp_path)


def test_manifest_with_fields_of_a_later_version_is_read(backup: Path, tmp_path: Path) -> None:
    path = backup / "manifest.json"
    path.write_text(path.read_text().replace("{", '{"added_later": 1,', 1))
    path.write_bytes(manifest._set_hash(path.read_bytes()))

    restore_to(backup, tmp_path / "restored", verify=True)


@pytest.mark.parametrize("change", [lambda found: found.pop("sha256"), lambda found: found.update(later=1)])
def test_manifest_whose_hash_is_not_at_its_end_is_refused(
    backup: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = backup / "manifest.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found, indent=1))

    assert "manifest.json is damaged" in _refuse(DataDamaged, backup, tmp_path)


def test_folder_without_a_manifest_is_not_a_backup(backup: Path, tmp_path: Path) -> None:
    (backup / "manifest.json").unlink()

    assert "is not a backup" in _refuse(StoreFileError, backup, tmp_path)
    shutil.rmtree(backup)
    assert "is not a backup" in _refuse(StoreFileError, backup, tmp_path)


def test_manifest_of_a_newer_format_is_refused(backup: Path, tmp_path: Path) -> None:
    path = backup / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2, "unknown": "field"}))

    message = _refuse(StoreFileError, backup, tmp_path)
    assert (
        "was written by a newer Holdfast (format 2; this one supports up to 1). Upgrade Holdfast." in message
    )


def test_store_of_a_newer_schema_is_refused(backup: Path, tmp_path: Path) -> None:
    _edit(backup, lambda found: _replace_store(found, "tables", schema=99))

    assert "tables.db in the backup was written by a newer Holdfast (schema 99" in _refuse(
        StoreFileError, backup, tmp_path
    )


def test_dump_of_another_postgres_is_refused(backup: Path, tmp_path: Path) -> None:
    _edit(backup, lambda found: _add_store(found, "sql", version="15.2"))

    assert "has dumps of PostgreSQL 15.2, and this is PostgreSQL 18" in _refuse(
        StoreFileError, backup, tmp_path
    )


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "objects/../../escaped", ""])
def test_path_that_leaves_the_folder_is_refused(backup: Path, tmp_path: Path, name: str) -> None:
    _edit(backup, lambda found: msgspec.structs.replace(found, files=found.files | {name: FileEntry(0, "")}))

    assert "which is not in the backup" in _refuse(StoreFileError, backup, tmp_path)


def test_verification_notices_messages_that_are_missing(backup: Path, tmp_path: Path) -> None:
    """The file is as its manifest says, but has fewer messages than were counted."""
    connection = open_file(backup / "queues.db")
    connection.execute("DELETE FROM messages WHERE place = 3")
    connection.wal_checkpoint()
    connection.close()
    _edit(backup, lambda found: _update_file(found, backup, "queues.db"))

    assert "work has 3 instead of 4" in _refuse(DataDamaged, backup, tmp_path)
    restore_to(backup, tmp_path / "restored")


def test_verification_decrypts_objects(backup: Path, tmp_path: Path) -> None:
    name = next(path for path in read_manifest(backup).files if path.endswith("@"))
    flip_bit(backup / name)
    _edit(backup, lambda found: _update_file(found, backup, name))

    assert "the object pages/" in _refuse(DataDamaged, backup, tmp_path)


def _refuse(kind: type[HoldfastError], backup: Path, tmp_path: Path) -> str:
    """Check that a restore fails with this error and leaves nothing, and return its message."""
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(kind) as refused:
        restore_to(backup, tmp_path / "restored", verify=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    return refused.value.message


def _edit(backup: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Replace the manifest of a backup by a changed one, with its right hash."""
    changed = change(read_manifest(backup))
    (backup / "manifest.json").unlink()
    manifest.write_manifest(backup, changed)


def _replace_store(found: Manifest, store: str, **changes: Any) -> Manifest:
    entry = msgspec.structs.replace(found.stores[store], **changes)
    return msgspec.structs.replace(found, stores=found.stores | {store: entry})


def _add_store(found: Manifest, store: str, **fields: Any) -> Manifest:
    entry = manifest.StoreEntry(engine="embedded", path=store, counts={}, **fields)
    return msgspec.structs.replace(found, stores=found.stores | {store: entry})


def _update_file(found: Manifest, backup: Path, name: str) -> Manifest:
    content = (backup / name).read_bytes()
    entry = FileEntry(len(content), hashlib.sha256(content).hexdigest())
    return msgspec.structs.replace(found, files=found.files | {name: entry})
