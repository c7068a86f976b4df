"""The engines are those of the tables' own suite, with queues in memory beside; each test has tables of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Stores, Table, create_tables
from holdfast.runtime.engines import Engines
from holdfast.stores.queues.embedded import open_queues
from tests.contract.moto import NOT_ATOMIC, skip_races
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store

_NUMBERS = itertools.count()

__all__ = ["opened", "store"]

Opened = Callable[..., Stores]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_races(items, Path(__file__).with_name("test_outbox.py"))
    skip_races(items, Path(__file__).with_name("test_rate_limit.py"), NOT_ATOMIC)


@pytest.fixture
def opened(store: Store) -> Iterator[Opened]:
    """Makes the tables that are named, and gives the stores to use them through."""
    engines = Engines({"queues": open_queues})

    def with_tables(*tables: Table) -> Stores:
        stores = Stores(store.tables, environment=f"g{os.getpid()}-{next(_NUMBERS)}", engines=engines)
        asyncio.run(create_tables(stores, tables))
        return stores

    yield with_tables
    engines.close()
