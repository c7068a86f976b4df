"""Fixtures that unpack the archives of every version and open them with the current code."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

from holdfast import Stores
from holdfast.stores.tables.embedded import EmbeddedTables
from holdfast.stores.tables.embedded.jobs.worker import Worker
from tests.corpus.archive import SUFFIX, list_release_folders, list_releases_with, load_notes, unpack

from .clock import ManualClock
from .system import open_library

ARCHIVES: Final = [
    (release, name) for name in ("library", "library_killed") for release in list_releases_with(name)
]


@dataclass(frozen=True)
class Library:
    """An opened archive: `notes` are its writer's, and `clock` shows the time when it was written."""

    stores: Stores
    clock: ManualClock
    notes: Any
    folder: Path
    release: Path

    @property
    def tables(self) -> EmbeddedTables:
        assert isinstance(self.stores.tables, EmbeddedTables)
        return self.stores.tables

    @property
    def is_latest(self) -> bool:
        """True if this is the newest version's archive: the current code must write exactly what it wrote."""
        return self.release == list_release_folders()[-1]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", params=ARCHIVES, ids=lambda each: f"{each[0].name} {each[1]}")
def unpacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str, Path]:
    """Unpack an archive into a folder that tests copy and never open; return version, name and folder."""
    release, name = request.param
    folder = tmp_path_factory.mktemp(f"{release.name}-{name}")
    unpack(release / f"{name}{SUFFIX}", folder)
    return release, name, folder


@pytest.fixture
async def library(unpacked: tuple[Path, str, Path], tmp_path: Path) -> AsyncIterator[Library]:
    """Open a copy of the archive, without the background worker of the tables."""
    release, name, original = unpacked
    folder = tmp_path / "data"
    shutil.copytree(original, folder)
    notes = load_notes(release, name)
    clock = ManualClock(notes["written_at"])
    # Without the background worker, so that open work stays until a test calls `sweep`.
    with patch.object(Worker, "start"):
        stores = open_library(folder, clock)
        assert isinstance(stores.tables, EmbeddedTables)  # opens them
    try:
        yield Library(stores, clock, notes, folder, release)
    finally:
        await stores.close()
