"""Fixtures of the SQLite layer: the small store of pairs, on a file or on both a file and memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.stores.sqlite import Database
from tests.unit.stores.sqlite.pairs import PATIENT, open_pairs


@pytest.fixture
def file_database(tmp_path: Path) -> Iterator[Database]:
    """Yield a database of pairs on a file."""
    with open_pairs(tmp_path / "pairs.db", PATIENT) as database:
        yield database


@pytest.fixture(params=["file", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Yield a database of pairs, once on a file and once in memory."""
    path = tmp_path / "pairs.db" if request.param == "file" else ":memory:"
    with open_pairs(path, PATIENT) as database:
        yield database
