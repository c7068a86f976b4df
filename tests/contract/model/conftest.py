"""The engines are those of the tables' own suite; each test has an environment, and so tables, of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Stores, Table, create_tables
from tests.contract.moto import expect_faults
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tests.unit.model.blocking import Blocking

# Where moto differs from DynamoDB. Each must fail: one that passes again is reported, and its line goes.
MOTO = {
    "test_an_update_that_names_nothing_gives_the_item": "answers 500 to an UpdateItem that has only a key",
    "test_a_transaction_repeated_with_its_token_has_one_effect": "ignores ClientRequestToken",
    "test_a_token_that_was_used_for_something_else_is_refused": "ignores ClientRequestToken",
}

_NUMBERS = itertools.count()

__all__ = ["opened", "store"]

Opened = Callable[..., Blocking]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_faults(items, Path(__file__).parent, MOTO)


@pytest.fixture
def opened(store: Store) -> Opened:
    """Makes the tables that are named, and gives the stores to use them through."""

    def with_tables(*tables: Table) -> Blocking:
        stores = Stores(store.tables, environment=f"t{os.getpid()}-{next(_NUMBERS)}")
        asyncio.run(create_tables(stores, tables))
        return Blocking(stores)

    return with_tables
