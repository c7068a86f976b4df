"""The engines are those of the tables' own suite; each test has a table of its own, and a clock moved by hand."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores, create_tables
from tests.contract.moto import NOT_ATOMIC, skip_races
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tripcortex.model.entities import circuits

__all__ = ["played", "store"]

_NUMBERS = itertools.count()


class HandClock:
    """From a time at which no engine takes an item for dead."""

    moment = 4926222000.0

    def now(self) -> float:
        return self.moment


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_races(items, Path(__file__).parent, NOT_ATOMIC)


Story = Callable[[Stores, HandClock], Coroutine[Any, Any, None]]
Played = Callable[[Story], None]


@pytest.fixture
def played(store: Store) -> Played:
    def with_table(story: Story) -> None:
        async def told() -> None:
            clock = HandClock()
            stores = Stores(store.tables, environment=f"tc{os.getpid()}-{next(_NUMBERS)}", clock=clock)
            await create_tables(stores, [circuits])
            await story(stores, clock)

        asyncio.run(told())

    return with_table
