"""Fixtures with the sample data in memory: the whole sample for tests that read, a small one for writers.

`sample_stores` has the document's sizes and every index, including the optional ones. The session shares it,
and `tenth_stores`: a test that writes uses `small_stores` or opens its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.runtime import add_indexes
from holdfast_demo.skymarshal.sample.loader import load_sample
from skymarshal.system import SYSTEM


@pytest.fixture(scope="session")
def sample_stores() -> Iterator[Stores]:
    """The whole sample in memory with every index, shared by the session and read only."""
    stores = open_memory_stores(SYSTEM)
    asyncio.run(_fill(stores, 1))
    yield stores
    asyncio.run(stores.close())


@pytest.fixture(scope="session")
def tenth_stores() -> Iterator[Stores]:
    """A tenth of the sample in memory, for tests that read whole tables; shared by the session, read only."""
    stores = open_memory_stores(SYSTEM)
    asyncio.run(load_sample(stores, scale=0.1))
    yield stores
    asyncio.run(stores.close())


@pytest.fixture
async def small_stores() -> AsyncIterator[Stores]:
    """A sample of a twentieth of the size, in memory with every index, that a test may change."""
    stores = open_memory_stores(SYSTEM)
    await _fill(stores, 0.05)
    yield stores
    await stores.close()


async def _fill(stores: Stores, scale: float) -> None:
    """Load the sample and create the optional indexes."""
    await load_sample(stores, scale=scale)
    await add_indexes(stores, [index for index in SYSTEM.indexes if not index.default])
