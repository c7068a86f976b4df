"""The settings of a SQLite connection that depend on the operating system."""

from __future__ import annotations

import sys
from pathlib import Path

import apsw
import pytest

from holdfast.stores.sqlite.connections import Tuning, open_writer, sync_to_disk
from holdfast.stores.tables.embedded.storage import file_copy


def read_sync_pragmas(connection: apsw.Connection) -> tuple[int, int]:
    return connection.pragma("fullfsync"), connection.pragma("checkpoint_fullfsync")


@pytest.mark.parametrize(("platform", "expected"), [("darwin", (1, 1)), ("linux", (0, 0)), ("win32", (0, 0))])
def test_only_macos_needs_the_drive_to_write_its_cache(platform: str, expected: tuple[int, int]) -> None:
    connection = apsw.Connection(":memory:")
    sync_to_disk(connection, platform)
    assert read_sync_pragmas(connection) == expected


def test_the_writer_of_a_file_syncs_as_its_platform_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    connection = open_writer(str(tmp_path / "a.db"), Tuning())
    assert read_sync_pragmas(connection) == (1, 1)
    connection.close()


def test_a_copy_syncs_as_its_platform_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platforms: list[str] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(file_copy, "sync_to_disk", lambda connection, platform: platforms.append(platform))
    file_copy._copy_at_once(apsw.Connection(":memory:"), str(tmp_path / "copy.db"))
    assert platforms == ["darwin"]
