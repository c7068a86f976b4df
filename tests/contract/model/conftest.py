"""Fixtures of the model's contract: stores over every tables engine, with tables of their own per test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Stores, Table
from holdfast.runtime import create_tables
from tests.contract.moto import expect_failures
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tests.unit.model.blocking_stores import BlockingStores

# Tests on which moto differs from DynamoDB. Each must fail: remove a line when its test is reported as
# passing.
MOTO = {
    "test_empty_update_returns_the_item": "answers 500 to an UpdateItem that has only a key",
    "test_a_transaction_repeated_with_its_token_has_one_effect": "ignores ClientRequestToken",
    "test_rejects_a_token_used_for_another_transaction": "ignores ClientRequestToken",
}

_NUMBERS = itertools.count()

__all__ = ["open_stores", "store"]

OpenStores = Callable[..., BlockingStores]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_failures(items, Path(__file__).parent, MOTO)


@pytest.fixture
def open_stores(store: Store) -> OpenStores:
    """Return a function that creates the named tables and returns their stores."""

    def with_tables(*tables: Table) -> BlockingStores:
        stores = Stores(store.tables, environment=f"t{os.getpid()}-{next(_NUMBERS)}")
        asyncio.run(create_tables(stores, tables))
        return BlockingStores(stores)

    return with_tables
