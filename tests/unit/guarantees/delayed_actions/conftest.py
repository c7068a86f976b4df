"""In-memory stores with the letters' tables, a manual clock and a fake post office."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.runtime import create_tables
from tests.unit.guarantees.delayed_actions.delayed_letters import FakePostOffice, letters
from tests.unit.guarantees.idempotency.once_records import ManualClock, counters


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def office() -> FakePostOffice:
    return FakePostOffice()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(clock=clock) as stores:
        await create_tables(stores, [letters, counters])
        yield stores
