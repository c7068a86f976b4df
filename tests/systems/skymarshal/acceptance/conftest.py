"""Sample data, loaded once for all tests that only read it.

`sample_stores` has the document's sizes and every index, including the optional ones. The session shares it:
a test that writes uses `small_stores` or opens its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast import Stores, add_indexes, open_memory_stores
from skymarshal.demo.sample.loader import load_sample
from skymarshal.system import SYSTEM


@pytest.fixture(scope="session")
def sample_stores() -> Iterator[Stores]:
    """The whole sample in memory, read only."""
    stores = open_memory_stores(SYSTEM)
    asyncio.run(_fill(stores, 1))
    yield stores
    asyncio.run(stores.close())


@pytest.fixture
def small_stores() -> Iterator[Stores]:
    """A small sample in memory that a test may change."""
    stores = open_memory_stores(SYSTEM)
    asyncio.run(_fill(stores, 0.05))
    yield stores
    asyncio.run(stores.close())


async def _fill(stores: Stores, scale: float) -> None:
    await load_sample(stores, scale=scale)
    await add_indexes(stores, [index for index in SYSTEM.indexes if not index.default])
