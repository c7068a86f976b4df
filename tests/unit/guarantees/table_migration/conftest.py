"""The stores of the migration tests: a harbour with ten berths."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import Stores
from tests.unit.guarantees.table_migration.harbour import open_harbour


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_harbour() as stores:
        yield stores
