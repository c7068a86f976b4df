"""In-memory stores with a manual clock that begins at noon, the beginning of a window."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import Stores, open_memory_stores
from tests.unit.guarantees.idempotency.once_records import ManualClock

NOON = 1770206400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(clock=clock) as stores:
        yield stores
