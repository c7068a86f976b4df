"""Fixtures of the unit tests: a manual clock, stores in memory, and the agent's harness."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores, provision
from tests.systems.agenticpm.unit.samples import ManualClock
from tests.systems.agenticpm.unit.workers.loop_harness import Harness, open_harness


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await provision(stores, SYSTEM)
        yield stores


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with open_harness() as harness:
        yield harness
