"""Packing of data folders: the same folder gives the same archive, and it unpacks to what was packed."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from tests.corpus import archive
from tests.corpus.archive import SUFFIX, list_release_folders, list_releases_with, pack, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "inside").mkdir(parents=True)
    (made / "inside" / "text").write_text("a text")
    return made


def _make_database(path: Path) -> apsw.Connection:
    """Create a SQLite database with a write-ahead log and one row; return its open connection."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    return connection


def test_same_folder_gives_the_same_archive(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "first")
    os.utime(folder / "inside" / "text", (1, 1))
    (folder / "inside" / "text").chmod(0o644)
    pack(folder, tmp_path / "second")

    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_unpacks_exactly_what_was_packed(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "out")

    assert (tmp_path / "out" / "inside" / "text").read_text() == "a text"


def test_checkpoint_moves_the_log_into_the_database(folder: Path, tmp_path: Path) -> None:
    _make_database(folder / "x.db").close()
    pack(folder, tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "out")

    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["inside", "x.db"]


def test_rejects_a_database_in_use(folder: Path, tmp_path: Path) -> None:
    connection = _make_database(folder / "x.db")

    with pytest.raises(RuntimeError, match="in use"):
        pack(folder, tmp_path / "packed")

    connection.close()


def test_packs_the_log_without_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    connection = _make_database(folder / "x.db")
    pack(folder, tmp_path / "packed", checkpoint=False)
    connection.close()
    unpack(tmp_path / "packed", tmp_path / "out")

    assert (tmp_path / "out" / "x.db-wal").stat().st_size
    with apsw.Connection(str(tmp_path / "out" / "x.db")) as again:
        assert again.execute("SELECT x FROM t").get == 1
    again.close()


def test_release_folders_are_sorted_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("v0_10", "v0_2", "v1_0", "views"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(archive, "CORPUS", tmp_path)

    assert [each.name for each in list_release_folders()] == ["v0_2", "v0_10", "v1_0"]


@pytest.mark.parametrize(
    "release", list_releases_with("library_killed"), ids=lambda release: str(release.name)
)
def test_archive_of_a_killed_process_has_its_log(release: Path, tmp_path: Path) -> None:
    unpack(release / f"library_killed{SUFFIX}", tmp_path)

    assert (tmp_path / "tables.db-wal").stat().st_size > 0
    assert (tmp_path / "queues.db-wal").stat().st_size > 0
