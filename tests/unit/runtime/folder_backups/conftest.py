"""Fixtures: a data folder of this test's own, and a backup of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.runtime.folder_backups import back_up_folder

from .data_folders import build_settings, fill


@pytest.fixture(scope="session")
def filled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "data"
    fill(folder)
    return folder


@pytest.fixture(scope="session")
def complete_backup(filled_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a backup with the keys, which tests copy before they change it."""
    target = tmp_path_factory.mktemp("backups") / "complete"
    back_up_folder(build_settings(filled_folder), target, with_keys=True)
    return target


@pytest.fixture
def data(filled_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled_folder, tmp_path / "data"))


@pytest.fixture
def backup(complete_backup: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(complete_backup, tmp_path / "backup"))
