"""The engines are those of the tables' own suite; each test has an environment, and so tables, of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores, Table, create_tables
from tests.contract.moto import skip_races
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tests.unit.guarantees.once_records import HandClock

__all__ = ["played", "store"]

_NUMBERS = itertools.count()

Story = Callable[[Stores, HandClock], Coroutine[Any, Any, None]]
Played = Callable[..., None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_races(items, Path(__file__).parent)


@pytest.fixture
def played(store: Store) -> Played:
    """Makes the tables that are named, and tells a story on them, with a clock that it moves by hand."""

    def with_tables(story: Story, *tables: Table) -> None:
        async def told() -> None:
            clock = HandClock()
            stores = Stores(store.tables, environment=f"g{os.getpid()}-{next(_NUMBERS)}", clock=clock)
            await create_tables(stores, tables)
            await story(stores, clock)

        asyncio.run(told())

    return with_tables
