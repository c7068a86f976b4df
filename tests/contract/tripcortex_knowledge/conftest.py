"""One database for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.tripcortex_knowledge.knowledge_base import Base, opened


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    with opened() as found:
        yield found
