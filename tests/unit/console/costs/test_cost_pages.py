"""The cost pages: estimates, measured figures, growth, prices, and systems that have little to show."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from holdfast import System, open_memory_stores
from holdfast.console.overview.samples import Rates, Sample, SystemSample
from holdfast.runtime import provision
from tests.unit.console.overview.test_overview_page import get_text
from tests.unit.console.pages import Pages, open_pages
from tests.unit.reports import news_desk

EMPTY = System("bare", "Has nothing", title="The bare one")
HOT = replace(news_desk.SYSTEM, design=replace(news_desk.SYSTEM.design, load=news_desk.make_load(50)))


@asynccontextmanager
async def open_measured(system: System, **options: Any) -> AsyncIterator[Pages]:
    """Open the pages of a system that is measured."""
    async with open_memory_stores(system) as stores:
        await provision(stores, system)
        async with open_pages(stores, **options) as pages:
            await pages.console.measurements.wait(system.name)
            yield pages


async def test_teaches_how_to_add_a_system() -> None:
    async with open_pages() as pages:
        assert "holdfast new NAME" in await pages.get("/cost")


async def test_page_of_all_systems_begins_their_measurement_and_says_so() -> None:
    async with open_memory_stores(news_desk.SYSTEM) as stores, open_pages(stores) as pages:
        text = get_text(await pages.get("/cost"))
        assert "measuring" in text
        await pages.console.measurements.wait("newsdesk")
        measured = get_text(await pages.get_part("/cost", "costs"))

    assert "measuring" not in measured
    assert "$" in measured


async def test_page_of_a_system_waits_for_its_measurement_and_becomes_the_estimate() -> None:
    async with open_memory_stores(news_desk.SYSTEM) as stores, open_pages(stores) as pages:
        assert "Measuring newsdesk" in await pages.get("/cost/newsdesk")
        await pages.console.measurements.wait("newsdesk")
        part = await pages.get_part("/cost/newsdesk", "cost")

    assert "Growth" in part
    assert "<html" not in part


async def test_shows_patterns_tables_indexes_and_stated_costs() -> None:
    async with open_measured(news_desk.SYSTEM) as pages:
        text = get_text(await pages.get("/cost/newsdesk"))

    for expected in ("N3 tell", "day-index", "the plan", "news are told twice", "and once in the feed"):
        assert expected in text
    assert "no process is watched" in text


async def test_growth_says_which_key_gets_hot() -> None:
    async with open_measured(HOT) as pages:
        calm = get_text(await pages.get("/cost/newsdesk"))
        hot = get_text(await pages.get_part("/cost/newsdesk?growth=30", "growth"))

    assert "no key is hot" in calm
    # 50 news a second take 100 write units a second on the key of the day, and 50 on the feed.
    assert "hot from" in calm.lower()
    assert re.search(r"DAY#\*[^×]* 3,000 .* 10 ×", hot)
    assert re.search(r"ALL[^×]* 1,500 .* 20 ×", hot)
    assert "2 keys are hot" in hot
    assert "At 30 × the load" in hot


async def test_growth_is_money_and_keeps_the_prices_and_the_load() -> None:
    async with open_measured(news_desk.SYSTEM) as pages:
        once, tenfold = [
            _read_total(await pages.get_part(f"/cost/newsdesk?growth={growth}", "growth"))
            for growth in (1, 10)
        ]
        old = _read_total(await pages.get_part("/cost/newsdesk?prices=dynamodb-2018-11", "growth"))
        busy = _read_total(await pages.get_part("/cost/newsdesk?load=a busy day", "growth"))
        page = await pages.get("/cost/newsdesk?prices=dynamodb-2018-11&load=a busy day&growth=3")

    assert tenfold == pytest.approx(10 * once, rel=0.01)
    assert old == pytest.approx(2 * once, rel=0.01)
    assert busy > 100 * once
    assert 'name="prices" value="dynamodb-2018-11"' in page
    assert 'name="load" value="a busy day"' in page
    assert "These prices were replaced on 2024-11-01" in page


@pytest.mark.parametrize(("growth", "shown"), [("0", 1), ("-5", 1), ("101", 100), ("1000000", 100)])
async def test_growth_beyond_the_slider_is_its_end(growth: str, shown: int) -> None:
    async with open_measured(news_desk.SYSTEM) as pages:
        page = await pages.get(f"/cost/newsdesk?growth={growth}")

    assert f"At {shown} × the load" in page
    assert f'step="1" value="{shown}"' in page


async def test_growth_that_is_not_a_number_is_refused_in_words() -> None:
    async with open_measured(news_desk.SYSTEM) as pages:
        assert "growth" in await pages.get("/cost/newsdesk?growth=much", 400)


async def test_shows_measured_next_to_estimated() -> None:
    async with open_measured(news_desk.SYSTEM) as pages:
        now = pages.console.own.clock.now()
        rates = Rates(write_units={"News": 10.0}, read_units={"News": 2.0})
        samples = [Sample(at, {"newsdesk": SystemSample(rates=rates)}) for at in (now - 600, now)]
        await pages.keep(samples)
        text = get_text(await pages.get("/cost/newsdesk"))
        every = get_text(await pages.get("/cost"))

    # 10 write units a second are 26,298,000 a month.
    assert "26,298,000" in text
    assert "Measured $17.09 a month at the rates of the last 10 min" in text
    assert "$17.09" in every


async def test_system_without_tables_and_patterns_has_a_page() -> None:
    async with open_measured(EMPTY) as pages:
        text = get_text(await pages.get("/cost/bare?growth=5"))
        every = get_text(await pages.get("/cost"))

    assert "The system has no tables, so it has no partitions that get hot." in text
    assert "declares no tables" in text
    assert "declares no access patterns" in text
    assert "The bare one $0.00 none none none –" in every


async def test_system_without_a_load_says_what_to_declare() -> None:
    bare = replace(news_desk.SYSTEM, design=type(news_desk.SYSTEM.design)())
    async with open_measured(bare) as pages:
        text = get_text(await pages.get("/cost/newsdesk"))

    assert "Design(load=Load(volumes=…))" in text
    assert "the system has no volume of news" in text


async def test_system_of_others_does_not_exist() -> None:
    async with open_measured(news_desk.SYSTEM, roles=["other:viewer"]) as pages:
        assert "newsdesk" not in await pages.get("/cost")
        await pages.get("/cost/newsdesk", 404)
        await pages.post("/cost/newsdesk/measure", 404)


async def test_measures_again() -> None:
    async with open_measured(news_desk.SYSTEM) as pages:
        before = pages.console.measurements.get("newsdesk")
        page = await pages.post("/cost/newsdesk/measure")
        after = await pages.console.measurements.wait("newsdesk")

    assert "newsdesk is being measured." in page
    assert after.measured is not before.measured


def _read_total(part: str) -> float:
    """Return the money of the month in the part that the slider changes."""
    found = re.search(r"the load: (?:at least )?\$([\d,.]+)", part)
    assert found, part
    return float(found[1].replace(",", ""))
