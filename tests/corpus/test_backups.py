"""Folders of released versions are backed up and restored as they are, with all work in progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import Settings
from holdfast.operations.queues import ListQueues
from holdfast.operations.tables import ListTables
from holdfast.runtime.folder_backups import back_up_folder, restore_folder
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import open_tables
from tests.corpus.archive import SUFFIX, list_releases_with, unpack


@pytest.mark.parametrize("release", list_releases_with("library_killed"), ids=lambda path: str(path.name))
def test_backup_does_not_upgrade_a_folder_and_restores_it(release: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    unpack(release / f"library_killed{SUFFIX}", data)
    older = back_up_folder(Settings().in_folder(data), tmp_path / "backup", with_keys=True)
    restore_folder(tmp_path / "backup", tmp_path / "restored", settings=Settings(), verify=True)
    again = back_up_folder(Settings().in_folder(tmp_path / "restored"), tmp_path / "again", with_keys=True)

    assert {entry.schema for entry in again.stores.values()} == {
        entry.schema for entry in older.stores.values()
    }
    assert [entry.counts for entry in again.stores.values()] == [
        each.counts for each in older.stores.values()
    ]


def test_upgraded_folder_with_work_in_progress_is_sound(tmp_path: Path) -> None:
    """Half-built indexes, running copies and deleted tables are not damage."""
    data = tmp_path / "data"
    unpack(list_releases_with("library")[-1] / f"library{SUFFIX}", data)
    with open_tables(data / "tables.db") as tables, open_queues(data / "queues.db") as queues:
        tables._worker.close()
        manifest = back_up_folder(Settings().in_folder(data), tmp_path / "backup", with_keys=True)
        restore_folder(tmp_path / "backup", tmp_path / "restored", settings=Settings(), verify=True)
        names = tables.run_blocking(ListTables()).names, queues.run_blocking(ListQueues())
    with (
        open_tables(tmp_path / "restored" / "tables.db") as tables,
        open_queues(tmp_path / "restored" / "queues.db") as queues,
    ):
        assert (tables.run_blocking(ListTables()).names, queues.run_blocking(ListQueues())) == names

    assert sum(manifest.stores["tables"].counts.values()) > 100
