"""A fixture: an embedded engine whose background work runs only when the test steps it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .stepped_engine import SteppedEngine, open_stepped_engine


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedEngine]:
    with open_stepped_engine(monkeypatch) as engine:
        yield engine
