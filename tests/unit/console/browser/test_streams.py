"""The newest changes of a table: from the end of its stream, as they come, in bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast import Stores
from holdfast.config.settings import Settings
from holdfast.console.accounts import DemoAccounts
from holdfast.console.app import build_console
from holdfast.console.browser.streams import (
    FORGET_AFTER_S,
    MAX_RECORDS,
    StreamTail,
    build_topic_name,
    register_stream_topics,
)
from tests.console_client import open_console_client

from .warehouse import NAME, HandClock, build_order, logs, open_warehouse, put, stock

URL = f"/data/{NAME}/Stock/stream"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def stores(clock: HandClock) -> AsyncIterator[Stores]:
    async with open_warehouse(clock=clock) as opened:
        yield opened


async def test_begins_with_the_last_records_and_follows(stores: Stores) -> None:
    await put(stores, *(build_order(number) for number in range(MAX_RECORDS + 10)))
    tail = StreamTail(stores, stock)

    first = await tail.read()
    assert [each.keys["PK"] for each in first.records][:2] == [
        f"ORDER#o-{MAX_RECORDS + 9}",
        f"ORDER#o-{MAX_RECORDS + 8}",
    ]
    assert len(first.records) == MAX_RECORDS

    await put(stores, build_order(500))
    second = await tail.read()
    assert second.records[0].keys["PK"] == "ORDER#o-500"
    assert (len(second.records), second.count - first.count) == (MAX_RECORDS, 1)


async def test_begins_again_when_nobody_has_read_for_a_while(stores: Stores, clock: HandClock) -> None:
    tail = StreamTail(stores, stock)
    await put(stores, build_order(1))
    await tail.read()

    for wait in (FORGET_AFTER_S + 1, 1200.0):
        clock.moment += wait
        await put(stores, build_order(int(wait)))
        assert (await tail.read()).records[0].keys["PK"] == f"ORDER#o-{int(wait)}"


async def test_a_table_without_a_stream_has_no_records(stores: Stores) -> None:
    state = await StreamTail(stores, logs).read()

    assert (state.is_enabled, state.records) == (False, ())


async def test_a_write_changes_the_topic_of_its_table(stores: Stores) -> None:
    console = build_console(Settings(), stores, [stores], DemoAccounts(), {})
    register_stream_topics(console)
    name = build_topic_name(NAME, "Stock")
    topic = console.live._topics[name]
    assert topic.system == NAME

    before = await topic.read()
    assert await topic.read() == before
    await put(stores, build_order(1))
    assert await topic.read() != before


async def test_the_page_shows_what_changed(stores: Stores, clock: HandClock) -> None:
    async with open_console_client(stores) as client:
        assert "No changes yet" in await client.get(URL)
        await put(stores, build_order(1, note="first"))
        await put(stores, build_order(1, note="second"))

        page = await client.get(URL)
        newest, oldest = page.split("<tr>")[-2:]
        assert ("changed" in newest, "created" in oldest) == (True, True)
        assert "second" in newest
        assert "placed_at" not in newest
        assert f'data-live="{build_topic_name(NAME, "Stock")}"' in page


async def test_htmx_gets_the_list_alone(stores: Stores) -> None:
    await put(stores, build_order(1))
    async with open_console_client(stores) as client:
        part = await client.get_fragment(URL)

    assert "ORDER#o-1" in part
    assert "<html" not in part


async def test_a_table_without_a_declared_stream_says_how_to_have_one(stores: Stores) -> None:
    async with open_console_client(stores) as client:
        page = await client.get(f"/data/{NAME}/Notes/stream")

    assert "This table has no stream" in page
