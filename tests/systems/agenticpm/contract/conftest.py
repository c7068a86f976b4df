"""Fixtures that run AgenticPM's contract tests on every table engine, with objects in memory."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agenticpm.model import patterns
from agenticpm.model.entities import contents, table
from holdfast import Stores
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.runtime import create_buckets, create_tables
from holdfast.runtime.engines import Engines
from holdfast.stores.objects.local import open_memory_objects
from tests.contract.moto import skip_races
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tests.systems.agenticpm.unit.writers.sample_contents import ManualClock, Story, sample_project

__all__ = ["run_story", "store"]

_NUMBERS = itertools.count()

RunStory = Callable[[Story], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_races(items, Path(__file__).parent)


@pytest.fixture
def run_story(store: Store) -> RunStory:
    """Return a function that runs a story on a new table with a project and a manual clock."""

    def run(story: Story) -> None:
        async def with_tables() -> None:
            # From now on: the engines use their own clocks and hide expired items.
            clock = ManualClock(SYSTEM_CLOCK.now())
            engines = Engines({"objects": lambda: open_memory_objects(clock=clock)})
            stores = Stores(
                store.tables,
                environment=f"a{os.getpid()}-{next(_NUMBERS)}",
                clock=clock,
                engines=engines,
            )
            await create_tables(stores, (table,))
            await create_buckets(stores, (contents,))
            await stores.run(patterns.create_project(sample_project()))
            await story(stores, clock)
            engines.close()

        asyncio.run(with_tables())

    return run
