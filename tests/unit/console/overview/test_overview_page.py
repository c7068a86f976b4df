"""The overview page: what it says without data, with it, to whom, and while it is loaded again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.config.settings import Settings
from holdfast.console.overview.routes import TOPIC
from holdfast.console.overview.samples import ProcessState, QueueState, Rates, Sample, SystemSample
from holdfast.runtime import provision
from tests.unit.console.overview.depot import DEPOT
from tests.unit.console.pages import open_pages
from tests.unit.guarantees.idempotency.once_records import ManualClock

URL = "http://127.0.0.1:8081"
WATCHED = replace(Settings(), console_targets=f"depot={URL}")


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_memory_stores(DEPOT) as opened:
        await provision(opened, DEPOT)
        yield opened


def sample(at: float, **fields: object) -> Sample:
    return Sample(at, {"depot": SystemSample(**fields)})  # type: ignore[arg-type]


def get_text(page: str) -> str:
    """Return the words of a page, without its markup."""

    class Words(HTMLParser):
        words: list[str] = []  # noqa: RUF012 - of this call

        def handle_data(self, data: str) -> None:
            self.words.append(data)

    parser = Words()
    parser.feed(page)
    return re.sub(r"\s+", " ", " ".join(parser.words))


async def test_teaches_how_to_add_a_system() -> None:
    async with open_pages() as pages:
        assert "holdfast new NAME" in await pages.get("/")


async def test_says_that_figures_are_being_read_and_how_processes_are_watched(stores: Stores) -> None:
    async with open_pages(stores) as pages:
        text = get_text(await pages.get("/"))

    assert "The first figures are being read." in text
    assert "No processes are watched" in text
    assert "depot=http://127.0.0.1:8080" in text
    assert "no figures yet" in text


async def test_shows_health_rates_backlog_and_spend(stores: Stores) -> None:
    async with open_pages(stores, settings=WATCHED) as pages:
        now = pages.console.own.clock.now()
        rates = Rates(requests=2.5, operations=10.0, failed_operations=0.1, write_units={"Orders": 100.0})
        queue = QueueState(visible=3, dead=2, oldest_s=61.0)
        await pages.keep(
            [
                sample(
                    now,
                    processes=[ProcessState(URL, started_at=now)],
                    stores={"tables": ""},
                    rates=rates,
                    queues={"parcels": queue},
                )
            ]
        )
        page = await pages.get("/")
    text = get_text(page)

    assert "No processes are watched" not in text
    assert "needs attention" in text
    assert "2 dead letters wait to be redriven." in text
    assert "Requests 2.5 /s" in text
    assert "Errors 1 %" in text
    assert "Backlog 3 oldest 1 min 1 s" in text
    # 100 write units a second are 0.0000625 dollars.
    assert "Spend $164.36 a month, $0.23 an hour" in text
    assert 'href="/queues/depot/parcels"' in page
    assert "As a table" in text


async def test_shows_incidents_with_a_link(stores: Stores) -> None:
    async with open_pages(stores, settings=WATCHED) as pages:
        now = pages.console.own.clock.now()
        await pages.keep(
            [
                sample(now - 30, queues={"parcels": QueueState(dead=0)}),
                sample(now - 15, processes=[ProcessState(URL, failure="no connection")]),
                sample(now, queues={"parcels": QueueState(dead=1)}, open_breakers=["carrier"]),
            ]
        )
        page = await pages.get("/")

    assert f"The process at {URL} did not answer: no connection" in page
    assert "The breaker of carrier was open" in page
    assert 'href="/breakers/depot"' in page
    assert "ongoing" in page


async def test_says_that_figures_are_old(stores: Stores) -> None:
    clock = ManualClock()
    async with open_pages(stores, clock=clock) as pages:
        await pages.keep([sample(clock.now())])
        clock.advance(30)
        assert "The last figures are of" not in await pages.get("/")
        clock.advance(60)
        assert "The last figures are of" in await pages.get("/")


async def test_user_sees_only_their_systems(stores: Stores) -> None:
    async with open_pages(stores, roles=["other:viewer"], settings=WATCHED) as pages:
        now = pages.console.own.clock.now()
        await pages.keep([sample(now, processes=[ProcessState(URL, failure="no connection")])])
        page = await pages.get("/")

    assert "depot" not in page
    assert URL not in page


async def test_part_of_the_page_is_loaded_without_its_frame(stores: Stores) -> None:
    async with open_pages(stores) as pages:
        part = await pages.get_part("/", "overview")

    assert "The depot" in part
    assert "<html" not in part


async def test_pages_follow_the_samples(stores: Stores) -> None:
    async with open_pages(stores) as pages:
        topic = pages.console.live._topics[TOPIC]
        before = await topic.read()
        await pages.keep([sample(pages.console.own.clock.now())])

        assert before != await topic.read()
        assert f'data-live="{TOPIC}"' in await pages.get("/")


async def test_text_of_a_failure_is_escaped(stores: Stores) -> None:
    async with open_pages(stores, settings=WATCHED) as pages:
        failing = [ProcessState(URL, failure="<script>alert(1)</script>")]
        await pages.keep([sample(pages.console.own.clock.now(), processes=failing)])

        assert "<script>alert" not in await pages.get_raw("/")


async def test_price_list_that_cannot_be_read_is_said(stores: Stores) -> None:
    async with open_pages(stores, settings=replace(Settings(), console_prices="nowhere.json")) as pages:
        assert "Failed to read the price list" in await pages.get("/")
