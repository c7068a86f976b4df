"""How SQLite syncs its files: on macOS, each sync must write the drive's cache too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.stores.sqlite import Tuning
from tests.unit.stores.sqlite.pairs import open_pairs, pair

NORMAL, FULL = apsw.SQLITE_SYNC_NORMAL, apsw.SQLITE_SYNC_FULL
KIND_MASK = 0x0F


class RecordingDisk(apsw.VFS):
    """A VFS that records for each sync whether SQLite asked for a normal or a full one, and of which file."""

    def __init__(self) -> None:
        super().__init__("recording", "unix")
        self.syncs: set[tuple[str, int]] = set()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: RecordingDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "").name

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.syncs.add((self._name, flags & KIND_MASK))
        super().xSync(flags)


@pytest.fixture
def disk() -> Iterator[RecordingDisk]:
    """Record the syncs of every file that SQLite opens."""
    made = RecordingDisk()
    yield made
    made.unregister()


@pytest.mark.parametrize(("platform", "kind"), [("darwin", FULL), ("linux", NORMAL)])
def test_commits_and_checkpoints_sync_as_the_platform_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: RecordingDisk, platform: str, kind: int
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    with open_pairs(tmp_path / "pairs.db", Tuning(vfs="recording")) as database:
        database.write(pair(1))
    assert {name: found for name, found in disk.syncs if name != "pairs.db-journal"} == {
        "pairs.db-wal": kind,
        "pairs.db": kind,
    }
    assert {found for _, found in disk.syncs} == {kind}
