"""Fixtures that run AgenticPM's contract tests on every table engine, with objects in memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator

import pytest

from agenticpm.model import patterns
from agenticpm.model.entities import contents, table
from agenticpm.model.events import get_now
from holdfast import Stores
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.runtime import create_buckets, create_tables
from holdfast.runtime.engines import Engines
from holdfast.stores.objects.local import open_memory_objects
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tests.systems.agenticpm.unit.samples import ManualClock
from tests.systems.agenticpm.unit.writers.sample_contents import sample_project

__all__ = ["store"]

_NUMBERS = itertools.count()


@pytest.fixture
def clock() -> ManualClock:
    # From now on: the engines use their own clocks and hide expired items.
    return ManualClock(get_now(SYSTEM_CLOCK))


@pytest.fixture
async def stores(store: Store, clock: ManualClock) -> AsyncIterator[Stores]:
    """Open a new table with a project on the engine, with a manual clock."""
    environment = f"a{os.getpid()}-{next(_NUMBERS)}"
    engines = Engines({"objects": lambda: open_memory_objects(clock=clock)})
    stores = Stores(store.tables, environment=environment, clock=clock, engines=engines)
    await create_tables(stores, (table,))
    await create_buckets(stores, (contents,))
    await stores.run(patterns.create_project(sample_project()))
    yield stores
    engines.close()
