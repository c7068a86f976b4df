"""Fixtures of the SQL outbox's contract: every queues engine with a PostgreSQL database, new per test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Stores
from holdfast.runtime.engines import Engines
from holdfast.stores.sql.postgres import open_postgres
from holdfast.stores.tables.embedded import open_tables
from tests.contract.queues.conftest import store
from tests.contract.queues.store import Store
from tests.postgres import create_database
from tests.unit.guarantees.messaging.order_outbox import ManualClock
from tests.unit.guarantees.messaging.sql_shop import SHOP, SYSTEM

_NUMBERS = itertools.count()

__all__ = ["store", "stores"]


class SharedEngine:
    """An engine whose `close` does nothing, because other stores share it."""

    def __init__(self, behind: Any) -> None:
        self.run = behind.run

    def close(self) -> None:
        pass


@pytest.fixture
def stores(store: Store) -> Iterator[Stores]:
    """Open stores whose rows use a stopped clock and whose queues use their engine's clock."""
    url, queues = create_database(SHOP), SharedEngine(store.queues)
    engines = Engines({"queues": lambda: queues, "sql": lambda: open_postgres(url)})
    with open_tables(None) as tables:
        environment = f"x{os.getpid()}-{next(_NUMBERS)}"
        yield Stores(tables, system=SYSTEM, environment=environment, clock=ManualClock(), engines=engines)
    engines.close()
