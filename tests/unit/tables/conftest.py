"""An engine that rests until it is told to step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .stepping import Stepped, stepped


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stepped]:
    with stepped(monkeypatch) as engine:
        yield engine
