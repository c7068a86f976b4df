"""Fixture `base`: one PostgreSQL database with objects in memory for each test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.systems.tripcortex.contract.policies.knowledge_base import Base, open_base


@pytest.fixture(scope="module")
def base() -> Iterator[Base]:
    """Open a database per test module."""
    with open_base() as found:
        yield found
