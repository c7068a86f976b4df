"""The engines are those of the queues' own suite, with a PostgreSQL beside; each test has a database and queues of its own."""

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
from tests.postgres import fresh_database
from tests.unit.guarantees.announcing import Hand
from tests.unit.guarantees.sql_announcing import SHOP, SYSTEM

_NUMBERS = itertools.count()

__all__ = ["store", "stores"]


class Kept:
    """An engine that others use after these stores."""

    def __init__(self, behind: Any) -> None:
        self.run = behind.run

    def close(self) -> None:
        pass


@pytest.fixture
def stores(store: Store) -> Iterator[Stores]:
    """Rows by a clock that stands still, queues by that of their engine."""
    url, queues = fresh_database(SHOP), Kept(store.queues)
    engines = Engines({"queues": lambda: queues, "sql": lambda: open_postgres(url)})
    with open_tables(None) as tables:
        environment = f"x{os.getpid()}-{next(_NUMBERS)}"
        yield Stores(tables, system=SYSTEM, environment=environment, clock=Hand(), engines=engines)
    engines.close()
