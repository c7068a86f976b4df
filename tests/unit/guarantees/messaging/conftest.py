"""The SQL shop of the outbox and inbox tests: an empty database, its stores, and a second connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from psycopg.rows import dict_row

from holdfast import Stores
from tests.postgres import connect, create_database
from tests.unit.guarantees.messaging.order_outbox import ManualClock
from tests.unit.guarantees.messaging.sql_shop import SHOP, Outside, create_shop_queues, open_shop_stores


@pytest.fixture
def url() -> str:
    return create_database(SHOP)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def outside(url: str) -> Iterator[Outside]:
    """A connection for checks next to the stores."""
    with connect(url) as outside:
        outside.row_factory = dict_row
        yield outside


@pytest.fixture
async def stores(url: str, clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_shop_stores(url, clock=clock) as stores:
        await create_shop_queues(stores)
        yield stores
