"""Fixture `run_story`: runs an async test on each tables engine, with its own table and a manual clock."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import Stores
from holdfast.runtime import create_tables
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tripcortex.model.entities import circuits

__all__ = ["run_story", "store"]

_NUMBERS = itertools.count()


class HandClock:
    """Manual clock that starts at a time at which no engine takes an item for expired."""

    moment = 4926222000.0

    def now(self) -> float:
        return self.moment


Story = Callable[[Stores, HandClock], Coroutine[Any, Any, None]]
RunStory = Callable[[Story], None]


@pytest.fixture
def run_story(store: Store) -> RunStory:
    """Return a function that runs an async test with its own table and a manual clock."""

    def run_with_table(story: Story) -> None:
        async def run() -> None:
            clock = HandClock()
            stores = Stores(store.tables, environment=f"tc{os.getpid()}-{next(_NUMBERS)}", clock=clock)
            await create_tables(stores, [circuits])
            await story(stores, clock)

        asyncio.run(run())

    return run_with_table
