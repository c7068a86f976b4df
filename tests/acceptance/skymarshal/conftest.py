"""The sample, made once for all tests that only read it.

`sample_stores` holds the document's sizes with every index, the optional ones too. It is shared by the session: a
test that writes takes `small_stores`, or makes its own.
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
    """The whole sample, in memory. Read only."""
    stores = open_memory_stores(SYSTEM)
    asyncio.run(_filled(stores, 1))
    yield stores
    asyncio.run(stores.close())


@pytest.fixture
def small_stores() -> Iterator[Stores]:
    """The sample with few others beside what the document names, in memory, to be written to."""
    stores = open_memory_stores(SYSTEM)
    asyncio.run(_filled(stores, 0.05))
    yield stores
    asyncio.run(stores.close())


async def _filled(stores: Stores, scale: float) -> None:
    await load_sample(stores, scale=scale)
    await add_indexes(stores, [index for index in SYSTEM.indexes if not index.default])
