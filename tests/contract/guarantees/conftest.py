"""Fixtures of the guarantees' contract: stores over every tables engine, with their own tables per test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from holdfast import Stores, Table
from holdfast.runtime import create_tables
from holdfast.runtime.engines import Engines
from holdfast.stores.queues.embedded import open_queues
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tests.unit.guarantees.idempotency.once_records import ManualClock

__all__ = ["open_stores", "run_story", "store"]

_NUMBERS = itertools.count()

Story = Callable[[Stores, ManualClock], Coroutine[Any, Any, None]]
RunStory = Callable[..., None]
OpenStores = Callable[..., Stores]


@pytest.fixture
def run_story(store: Store) -> RunStory:
    """Return a function that creates the named tables and runs a story on them with a manual clock."""

    def with_tables(story: Story, *tables: Table) -> None:
        async def run() -> None:
            clock = ManualClock()
            stores = Stores(store.tables, environment=f"g{os.getpid()}-{next(_NUMBERS)}", clock=clock)
            await create_tables(stores, tables)
            await story(stores, clock)

        asyncio.run(run())

    return with_tables


@pytest.fixture
def open_stores(store: Store) -> Iterator[OpenStores]:
    """Return a function that creates the named tables and returns stores with in-memory queues."""
    engines = Engines({"queues": open_queues})

    def with_tables(*tables: Table) -> Stores:
        stores = Stores(store.tables, environment=f"g{os.getpid()}-{next(_NUMBERS)}", engines=engines)
        asyncio.run(create_tables(stores, tables))
        return stores

    yield with_tables
    engines.close()
