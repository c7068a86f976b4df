"""The small store of these tests, on a file and in memory: both behave alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.sqlite import Database
from tests.unit.stores.sqlite.pairs import PATIENT, open_pairs


@pytest.fixture
def file_database(tmp_path: Path) -> Iterator[Database]:
    with open_pairs(tmp_path / "pairs.db", PATIENT) as database:
        yield database


@pytest.fixture(params=["file", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "pairs.db" if request.param == "file" else ":memory:"
    with open_pairs(path, PATIENT) as database:
        yield database
