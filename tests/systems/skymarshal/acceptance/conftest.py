"""Fixtures with the sample data: the whole sample for tests that read, a small one for writers.

All of them have every index, including the optional ones. The sample is loaded once into a file for all test
processes. A test that writes uses `small_stores`, or opens a copy of a file with `open_copy`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.runtime import add_indexes
from holdfast_demo.skymarshal.sample.loader import load_sample
from skymarshal.system import SYSTEM


@pytest.fixture(scope="session")
def sample_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tables file with the whole sample, at the document's sizes."""
    return _load_once(tmp_path_factory, "sample.db", 1)


@pytest.fixture(scope="session")
def small_sample_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tables file with a sample of a twentieth of the size; the documented rows are all there."""
    return _load_once(tmp_path_factory, "small_sample.db", 0.05)


@pytest.fixture(scope="session")
def sample_stores(sample_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    """The whole sample, shared by the session and read only."""
    stores = open_copy(sample_file, tmp_path_factory.mktemp("sample"))
    yield stores
    asyncio.run(stores.close())


@pytest.fixture
async def small_stores(small_sample_file: Path, tmp_path: Path) -> AsyncIterator[Stores]:
    """A small sample that a test may change."""
    async with open_copy(small_sample_file, tmp_path / "small") as stores:
        yield stores


def open_copy(file: Path, folder: Path) -> Stores:
    """Open stores on a copy of a tables file, made in this folder."""
    folder.mkdir(exist_ok=True)
    return open_stores(SYSTEM, Settings(tables=f"sqlite:{shutil.copy(file, folder)}"))


def _load_once(tmp_path_factory: pytest.TempPathFactory, name: str, scale: float) -> Path:
    """Return the file with the sample of this scale. The first test process that asks loads it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    file = shared / name
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            loading = tmp_path_factory.mktemp("loading") / name
            asyncio.run(_load(loading, scale))
            loading.rename(file)
    return file


async def _load(file: Path, scale: float) -> None:
    async with open_stores(SYSTEM, Settings(tables=f"sqlite:{file}")) as stores:
        await load_sample(stores, scale=scale)
        await add_indexes(stores, [index for index in SYSTEM.indexes if not index.default])
