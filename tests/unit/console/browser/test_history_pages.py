"""The past of an item on its page: as it was at a second, and change by change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import pytest

from holdfast import Stores
from holdfast.console.browser.addresses import build_item_url
from holdfast.operations.tables import DeleteItem, ListItemChanges, Operation, UpdateContinuousBackups
from holdfast.stores.tables.dynamodb.handlers.item_history import refuse_item_history
from holdfast.stores.tables.port import Tables
from tests.console_client import ConsoleClient, open_console_client

from .warehouse import NAME, HandClock, build_order, open_warehouse, put

R = TypeVar("R")

KEY = {"PK": "ORDER#o-1", "SK": "ORDER"}
URL = build_item_url(NAME, "Stock", KEY, "history")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def stores(clock: HandClock) -> AsyncIterator[Stores]:
    async with open_warehouse(clock=clock) as opened:
        clock.moment += 60
        yield opened


@pytest.fixture
async def client(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores) as opened:
        yield opened


def at(moment: float) -> str:
    """Return the address of the history at a time, as a browser's form sends it."""
    return f"{URL}&at={datetime.fromtimestamp(moment, UTC).strftime('%Y-%m-%dT%H:%M:%S')}"


async def test_shows_an_item_as_it_was_at_a_second(
    stores: Stores, client: ConsoleClient, clock: HandClock
) -> None:
    moments = {}
    for note in ("first", "second", "third"):
        await put(stores, build_order(1, note=note))
        moments[note] = clock.moment + 2
        clock.moment += 60
    await stores.tables.run(DeleteItem("Stock", dict(KEY)))
    clock.moment += 60

    for note, moment in moments.items():
        past = (await client.get(at(moment))).partition("Changes, newest first")[0]
        assert note in past
        assert "It changed next at" in past
    for nothing in (moments["first"] - 30, clock.moment - 2):
        assert "There was no item with this key" in await client.get(at(nothing))


async def test_lists_each_change_with_what_differs(
    stores: Stores, client: ConsoleClient, clock: HandClock
) -> None:
    await put(stores, build_order(1, note="first"))
    clock.moment += 60
    await put(stores, build_order(1, note="second", count=4))
    clock.moment += 60
    await stores.tables.run(DeleteItem("Stock", dict(KEY)))

    page = await client.get(URL)

    assert page.index("Removed") < page.index("Changed<") < page.index("Created")
    assert "2 attributes" in page
    assert all(each in page for each in ("first", "second", "as it was before"))


@pytest.mark.parametrize("text", ["soon", "2026-13-01T00:00:00"])
async def test_an_invalid_time_is_explained(client: ConsoleClient, text: str) -> None:
    assert "Invalid time" in await client.get(f"{URL}&at={text}")


async def test_a_time_before_the_log_is_refused(client: ConsoleClient) -> None:
    assert "must be within" in await client.get(f"{URL}&at=2001-01-01T00:00:00")


async def test_a_table_without_recovery_says_so(stores: Stores, client: ConsoleClient) -> None:
    await stores.tables.run(UpdateContinuousBackups("Stock", False))

    page = await client.get(URL)

    assert "The past of this item is not known" in page
    assert "point_in_time_recovery=True" in page


async def test_dynamodb_says_why_it_has_no_past(stores: Stores, client: ConsoleClient) -> None:
    stores.tables = _WithoutHistory(stores.tables)

    page = await client.get(URL)

    assert "DynamoDB has no read of one item" in page
    assert "holdfast restore" in page


class _WithoutHistory:
    """A tables store that answers as the DynamoDB engine does: it has a window, and no history of an item."""

    def __init__(self, inner: Tables) -> None:
        self._inner = inner

    async def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, ListItemChanges):
            await refuse_item_history(operation, cast(Any, None))
        return await self._inner.run(operation)
