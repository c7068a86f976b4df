"""Fixtures `stores` and `clock`: each tables engine, with its own table and a manual clock."""

from __future__ import annotations

import itertools
import os

import pytest

from holdfast import Stores
from holdfast.runtime import create_tables
from tests.contract.tables.conftest import store
from tests.contract.tables.store import Store
from tripcortex.model.entities import circuits

__all__ = ["clock", "store", "stores"]

_NUMBERS = itertools.count()


class HandClock:
    """Manual clock that starts at a time at which no engine takes an item for expired."""

    moment = 4926222000.0

    def now(self) -> float:
        return self.moment


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def stores(store: Store, clock: HandClock) -> Stores:
    """Return stores with a table of their own."""
    made = Stores(store.tables, environment=f"tc{os.getpid()}-{next(_NUMBERS)}", clock=clock)
    await create_tables(made, [circuits])
    return made
