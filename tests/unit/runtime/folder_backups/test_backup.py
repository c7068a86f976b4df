"""Backups of a data folder: all stores at one moment, complete or absent, refused if a store is damaged."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.settings import Settings
from holdfast.core.disk import sync_path
from holdfast.core.errors import (
    DataDamaged,
    HoldfastError,
    SettingsError,
    StoreBusy,
    StoreFileError,
    StoreFull,
    StoreIOError,
    format_message,
)
from holdfast.core.store_marker import read_marker
from holdfast.operations import queues
from holdfast.operations.objects import DeleteObject, PutObject
from holdfast.runtime.folder_backups import (
    back_up_folder,
    backup,
    manifest,
    restore_folder,
    staged_folder,
    store_copies,
)
from holdfast.runtime.folder_backups.staged_folder import stage_folder
from holdfast.stores.objects.local import file_storage
from holdfast.stores.objects.local.paths import to_path
from tests.sqlite_files import open_file

from .data_folders import (
    BUCKET,
    ITEMS,
    MESSAGES,
    OBJECTS,
    QUEUE,
    build_settings,
    open_archive,
    open_notes,
    open_work,
    put_note,
    read_all,
)

# How long a writer must not get through.
HELD_S = 0.3


def restore(backed_up: Path, target: Path) -> dict[str, Any]:
    """Restore and verify a backup, and return everything in the new folder."""
    restore_folder(backed_up, target, settings=Settings(), verify=True)
    return read_all(target)


def test_restored_folder_has_every_item_message_and_object(data: Path, tmp_path: Path) -> None:
    back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)

    assert restore(tmp_path / "backup", tmp_path / "restored") == read_all(data)


def test_manifest_has_versions_ids_counts_and_every_file(data: Path, tmp_path: Path) -> None:
    made = back_up_folder(build_settings(data), tmp_path / "backup")

    assert made.stores["tables"].schema == 2
    assert {store: sum(entry.counts.values()) for store, entry in made.stores.items()} == {
        "tables": ITEMS,
        "queues": MESSAGES,
        "objects": OBJECTS,
    }
    assert made.stores["tables"].id == read_marker(data / "tables.db")
    written = {path.relative_to(tmp_path / "backup").as_posix() for path in _list_files(tmp_path / "backup")}
    assert made.files.keys() == written - {"manifest.json"}
    assert json.loads((tmp_path / "backup" / "manifest.json").read_text())["format"] == 1


def test_only_the_owner_may_read_the_backup(data: Path, tmp_path: Path) -> None:
    back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)

    folders = {tmp_path / "backup", *(path for path in (tmp_path / "backup").rglob("*") if path.is_dir())}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in _list_files(tmp_path / "backup")} == {0o600}


def test_backup_leaves_the_source_as_it_is(data: Path, tmp_path: Path) -> None:
    before = read_all(data)
    back_up_folder(build_settings(data), tmp_path / "backup")

    assert read_all(data) == before


def test_every_file_and_folder_is_on_the_disk_before_the_backup_has_its_name(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    rename = Path.rename

    def record_sync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    def record_folder(path: str | Path) -> None:
        sync_path(path)
        synced.append(Path(path))

    def rename_last(path: Path, target: Path) -> Path:
        assert {path, *path.rglob("*")} <= set(synced)
        return rename(path, target)

    monkeypatch.setattr(manifest, "sync", record_sync)
    monkeypatch.setattr(staged_folder, "sync_path", record_folder)
    monkeypatch.setattr(Path, "rename", rename_last)
    back_up_folder(build_settings(data), tmp_path / "backup")

    assert synced[-1] == tmp_path


# --- the moment ---------------------------------------------------------------------------------------------


def test_writers_continue_and_later_writes_are_not_in_the_backup(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze_all = backup._freeze_all

    with open_notes(data) as notes, open_work(data) as work:

        def freeze_then_write(copies: Any) -> None:
            freeze_all(copies)
            put_note(notes, ITEMS, "written after the moment")
            work.run_blocking(queues.SendMessages(QUEUE, (queues.OutgoingMessage(body="later"),)))

        monkeypatch.setattr(backup, "_freeze_all", freeze_then_write)
        back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)

    restored = restore(tmp_path / "backup", tmp_path / "restored")
    assert len(restored["items"]) == ITEMS
    assert len(restored["messages"]) == MESSAGES
    assert len(read_all(data)["items"]) == ITEMS + 1


def test_no_store_is_written_between_the_moments_of_two_stores(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is sent after its item was written is in the backup only with the item."""
    freeze = store_copies.FileCopy.freeze
    writers: list[threading.Thread] = []

    with open_notes(data) as notes, open_work(data) as work:

        def write() -> None:
            put_note(notes, ITEMS, "announced by a message")
            work.run_blocking(queues.SendMessages(QUEUE, (queues.OutgoingMessage(body="an announcement"),)))

        def freeze_while_writing(copy: store_copies.FileCopy) -> None:
            freeze(copy)
            if not writers:
                writers.append(threading.Thread(target=write))
                writers[0].start()
                # It waits for the lock. Without one, it is done long before.
                writers[0].join(HELD_S)

        monkeypatch.setattr(store_copies.FileCopy, "freeze", freeze_while_writing)
        back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)
        writers[0].join()

    restored = restore(tmp_path / "backup", tmp_path / "restored")
    assert (len(restored["items"]), len(restored["messages"])) == (ITEMS, MESSAGES)


def test_moment_of_every_store_is_fixed_while_all_writers_wait() -> None:
    steps: list[str] = []
    backup._freeze_all(
        {store: RecordingCopy(store, steps) for store in ("tables", "queues", "objects", "sql")}
    )

    assert steps == [
        *("hold objects", "hold tables", "hold queues", "hold sql"),
        *("freeze tables", "freeze queues", "freeze sql"),
        *("release sql", "release queues", "release tables", "freeze objects", "release objects"),
    ]


class RecordingCopy:
    """The copy of a store that only records its steps."""

    def __init__(self, store: str, steps: list[str]) -> None:
        self._store, self._steps = store, steps

    def prepare(self) -> None: ...

    @contextmanager
    def hold(self) -> Iterator[None]:
        self._steps.append(f"hold {self._store}")
        yield
        self._steps.append(f"release {self._store}")

    def freeze(self) -> None:
        self._steps.append(f"freeze {self._store}")

    def write(self) -> manifest.StoreEntry:
        raise NotImplementedError

    def close(self) -> None: ...


def test_objects_are_those_of_the_moment(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put, replaced or deleted while the objects are copied is as it was at the moment."""
    archive = open_archive(data)
    prepare = store_copies.ObjectsCopy.prepare

    def prepare_then_change(copy: store_copies.ObjectsCopy) -> None:
        prepare(copy)
        asyncio.run(_change_objects())

    async def _change_objects() -> None:
        await archive.run(PutObject(BUCKET, "pages/new", b"new"))
        await archive.run(PutObject(BUCKET, "pages/0", b"replaced"))
        await archive.run(DeleteObject(BUCKET, "pages/1"))

    monkeypatch.setattr(store_copies.ObjectsCopy, "prepare", prepare_then_change)
    back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)

    objects = restore(tmp_path / "backup", tmp_path / "restored")["objects"]
    assert objects == read_all(data)["objects"]
    assert objects["pages/0"] == b"replaced" and "pages/1" not in objects and "pages/new" in objects


def test_deletion_of_an_object_waits_until_the_moment_is_copied(data: Path, tmp_path: Path) -> None:
    """An object that an item of the backup names is in the backup, even if both are deleted meanwhile."""
    from holdfast.stores.objects.local.folder_copy import FolderCopy

    archive, copy = open_archive(data), FolderCopy(data / "objects", tmp_path / "copy")
    deletion = threading.Thread(target=lambda: asyncio.run(archive.run(DeleteObject(BUCKET, "pages/2"))))
    with copy.lock_buckets():
        deletion.start()
        copy.copy_changes()
        assert (data / "objects" / to_path(BUCKET, "pages/2")).exists()
    deletion.join()

    assert (tmp_path / "copy" / to_path(BUCKET, "pages/2")).exists()
    assert not (data / "objects" / to_path(BUCKET, "pages/2")).exists()


# --- the target ---------------------------------------------------------------------------------------------


def test_empty_folder_becomes_the_backup(data: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir(mode=0o755)
    back_up_folder(build_settings(data), tmp_path / "backup")

    assert (tmp_path / "backup" / "manifest.json").exists()


def test_link_to_an_empty_folder_is_followed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    back_up_folder(build_settings(data), tmp_path / "link")

    assert (tmp_path / "elsewhere" / "manifest.json").exists()


@pytest.mark.parametrize("name", ["data/backup", "data", "data/objects/backup", "link/backup"])
def test_target_in_the_data_folder_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(data)

    with pytest.raises(SettingsError, match="is in the data folder"):
        back_up_folder(build_settings(data), tmp_path / name)


def test_target_with_content_is_refused_and_unchanged(data: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "letter").write_text("mine")

    with pytest.raises(SettingsError, match="is not empty, and nothing in it was changed"):
        back_up_folder(build_settings(data), tmp_path / "backup")
    assert [path.name for path in (tmp_path / "backup").iterdir()] == ["letter"]


def test_target_that_is_a_file_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("mine")

    with pytest.raises(SettingsError, match="is a file"):
        back_up_folder(build_settings(data), tmp_path / "backup")
    with pytest.raises(SettingsError, match="No access"):
        back_up_folder(build_settings(data), tmp_path / "backup" / "inside")


@pytest.mark.parametrize(
    ("failure", "kind", "remedy"),
    [
        (errno.ENOENT, SettingsError, "Change it, or name another folder."),
        (errno.EIO, StoreIOError, "Check the disk, or name a folder on another."),
    ],
)
def test_target_that_cannot_be_created_is_refused_with_a_remedy(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: int,
    kind: type[HoldfastError],
    remedy: str,
) -> None:
    def fail(path: Path) -> None:
        raise OSError(failure, os.strerror(failure), str(path))

    monkeypatch.setattr(staged_folder, "make_private_folder", fail)

    assert _refuse(kind, data, tmp_path).endswith(remedy)


def test_target_that_another_process_is_writing_is_refused(data: Path, tmp_path: Path) -> None:
    with (
        stage_folder(tmp_path / "backup", backup.STAGING_KIND),
        pytest.raises(StoreBusy, match="Another process is writing"),
    ):
        back_up_folder(build_settings(data), tmp_path / "backup")


def test_what_a_killed_backup_left_is_removed_by_the_next(data: Path, tmp_path: Path) -> None:
    left = tmp_path / ".backup.partial"
    (left / "objects").mkdir(parents=True)
    (left / "tables.db").write_text("half of it")

    back_up_folder(build_settings(data), tmp_path / "backup")

    assert not left.exists()
    assert (tmp_path / "backup" / "tables.db").stat().st_size > len("half of it")


def test_interrupted_backup_leaves_nothing(data: Path, tmp_path: Path) -> None:
    def interrupt(task: str, done: int, total: int) -> None:
        if task == "syncing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up_folder(build_settings(data), tmp_path / "backup", progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_leaves_no_backup(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(backup, "seal_files", fail)
    with pytest.raises(StoreFull, match="No space left for .*backup, and nothing was kept"):
        back_up_folder(build_settings(data), tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


# --- the source ---------------------------------------------------------------------------------------------


def test_damaged_item_is_named_and_nothing_is_backed_up(data: Path, tmp_path: Path) -> None:
    with open_file(data / "tables.db") as connection:
        connection.execute("UPDATE items_1 SET sum = sum + 1 WHERE id = 3")
    connection.close()

    message = _refuse(DataDamaged, data, tmp_path)
    assert "the item {'id': 'n-2'} of Notes is damaged" in message
    assert "Restore what is damaged from an earlier one" in message


def test_item_on_a_damaged_page_is_named(data: Path, tmp_path: Path) -> None:
    open_notes(data).database.compact(rewrite=False)
    path = data / "tables.db"
    content = bytearray(path.read_bytes())
    at = content.index(b"a note" * 50)
    content[at] ^= 1
    path.write_bytes(content)

    assert "of Notes" in _refuse(DataDamaged, data, tmp_path)


def test_damaged_object_is_named(data: Path, tmp_path: Path) -> None:
    path = data / "objects" / to_path(BUCKET, "pages/1")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)

    assert "the object pages/1 in archive" in _refuse(DataDamaged, data, tmp_path)


def test_damage_of_every_store_is_named_at_once(data: Path, tmp_path: Path) -> None:
    with open_file(data / "tables.db") as connection:
        connection.execute("UPDATE items_1 SET sum = sum + 1 WHERE id = 3")
    connection.close()
    path = data / "objects" / to_path(BUCKET, "pages/1")
    path.write_bytes(path.read_bytes()[:-1])

    message = _refuse(DataDamaged, data, tmp_path)
    assert "the item {'id': 'n-2'} of Notes is damaged" in message
    assert "the object pages/1 in archive" in message
    assert message.count("Restore what is damaged from an earlier one") == 1


@pytest.mark.parametrize("pattern", ["queues.db*", "objects"])
def test_lost_store_is_not_taken_for_an_empty_one(data: Path, tmp_path: Path, pattern: str) -> None:
    for path in data.glob(pattern):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert "says that it held data" in _refuse(StoreFileError, data, tmp_path)


def test_foreign_file_is_refused(data: Path, tmp_path: Path) -> None:
    (data / "tables.db").write_bytes(b"these are notes, and no database" * 500)

    _refuse(StoreFileError, data, tmp_path)


def test_objects_whose_keys_are_missing_are_refused(data: Path, tmp_path: Path) -> None:
    (data / "keys.json").unlink()

    assert "keys.json" in _refuse(DataDamaged, data, tmp_path)


def test_unreadable_object_is_an_error_with_its_path(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, *how: Any, **more: Any) -> Any:
        if path.endswith("@"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open(path, *how, **more)

    monkeypatch.setattr(file_storage, "open", refuse, raising=False)

    assert "pages/" in _refuse(StoreIOError, data, tmp_path)


def test_link_to_a_lost_object_is_not_left_out(data: Path, tmp_path: Path) -> None:
    path = data / "objects" / to_path(BUCKET, "pages/1")
    path.unlink()
    path.symlink_to(tmp_path / "lost")

    assert "is a link to a file that does not exist" in _refuse(StoreFileError, data, tmp_path)


def test_bucket_on_another_disk_is_copied_through_its_link(data: Path, tmp_path: Path) -> None:
    (data / "objects" / BUCKET).rename(tmp_path / "elsewhere")
    (data / "objects" / BUCKET).symlink_to(tmp_path / "elsewhere")
    back_up_folder(build_settings(data), tmp_path / "backup", with_keys=True)

    assert len(restore(tmp_path / "backup", tmp_path / "restored")["objects"]) == OBJECTS


def test_folder_without_stores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing to back up"):
        back_up_folder(build_settings(tmp_path / "data"), tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


def test_store_that_was_never_used_is_reported_as_skipped(data: Path, tmp_path: Path) -> None:
    made = back_up_folder(build_settings(data), tmp_path / "backup")

    assert [(each.store, each.reason) for each in made.skipped] == [("sql", "has no data yet")]


def test_services_are_named_and_left_out(data: Path, tmp_path: Path) -> None:
    settings = Settings(
        tables=f"sqlite:{data / 'tables.db'}",
        queues="sqs://us-east-1",
        objects="s3://us-east-1",
        sql="postgresql://someone@example.com/db",
        cache="redis://example.com:6379/0",
        secrets="secretsmanager://us-east-1",
    )
    made = back_up_folder(settings, tmp_path / "backup")

    assert list(made.stores) == ["tables"]
    assert [each.store for each in made.skipped] == ["queues", "objects", "sql", "cache", "secrets"]
    assert {each.reason for each in made.skipped} == {"is a service, which has backups of its own"}


def test_keys_in_a_service_cannot_be_included(data: Path, tmp_path: Path) -> None:
    settings = Settings(tables=f"sqlite:{data / 'tables.db'}", keys="kms://us-east-1/alias/x")

    with pytest.raises(SettingsError, match="The keys are in a service"):
        back_up_folder(settings, tmp_path / "backup", with_keys=True)


def test_run_clock_is_part_of_the_backup(data: Path, tmp_path: Path) -> None:
    (data / "clock").write_text("1795000000.0")
    settings = Settings(tables=f"sqlite:{data / 'tables.db'}", run_clock=str(data / "clock"))
    back_up_folder(settings, tmp_path / "backup")
    restore_folder(tmp_path / "backup", tmp_path / "restored", settings=Settings())

    assert (tmp_path / "restored" / "clock").read_text() == "1795000000.0"


def _refuse(kind: type[HoldfastError], data: Path, tmp_path: Path) -> str:
    """Check that a backup fails with this error and leaves nothing, and return its message."""
    with pytest.raises(kind) as refused:
        back_up_folder(build_settings(data), tmp_path / "backup")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    return format_message(refused.value)


def _list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
