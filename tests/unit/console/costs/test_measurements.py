"""Measuring systems in the background: once, with progress, and with the reason if it fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from holdfast import Stores, System, open_memory_stores
from holdfast.console.costs.measurements import STORED, Measurements, count_stored
from holdfast.core.errors import RetryLater
from holdfast.core.progress import Progress
from holdfast.model.demo import Demo
from holdfast.runtime import provision
from tests.unit.reports import news_desk
from tests.unit.reports.news_desk import Item


async def write_nothing(stores: Stores, scale: float, progress: Progress) -> None:
    """Write no sample."""


def with_sample(sample: object, name: str = "newsdesk") -> System:
    return replace(news_desk.SYSTEM, name=name, demo=Demo(sample=sample))  # type: ignore[arg-type]


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_memory_stores(news_desk.SYSTEM) as opened:
        await provision(opened, news_desk.SYSTEM)
        yield opened


async def test_measures_once_and_keeps_the_result(stores: Stores) -> None:
    measurements = Measurements({"newsdesk": stores})
    assert measurements.get("newsdesk").is_running

    done = await measurements.wait("newsdesk")

    assert done.measured is not None
    assert {each.pattern.id for each in done.measured.measures} == {"N1", "N2", "N3", "N4", "N5", "N6"}
    assert measurements.get("newsdesk") is done
    assert not done.is_running
    await measurements.close()


async def test_measuring_runs_nothing_on_the_configured_stores(stores: Stores) -> None:
    with stores.meter_usage() as usage:
        measurements = Measurements({"newsdesk": stores})
        await measurements.wait("newsdesk")

    # The thread of a measurement has its own meters: only the count of what is stored reads the tables.
    assert usage.usages == []
    assert list(await stores.all(Item.of("ALL").query())) == []
    await measurements.close()


async def test_one_system_is_measured_at_a_time_and_pages_learn_of_its_progress() -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def wait_in_sample(stores: Stores, scale: float, progress: Progress) -> None:
        progress("writing the sample", 1, 2)
        begun.set()
        await asyncio.to_thread(may_end.wait, 60)

    first, second = with_sample(wait_in_sample, "first"), with_sample(write_nothing, "second")
    async with open_memory_stores(first) as one, open_memory_stores(second) as two:
        measurements = Measurements({"first": one, "second": two})
        measurements.get("first")
        measurements.get("second")
        await asyncio.to_thread(begun.wait, 60)
        running, waiting = measurements.get("first").progress, measurements.get("second").progress
        before = await measurements.read_fingerprint()
        may_end.set()
        await measurements.wait("second")
        after = await measurements.read_fingerprint()
        await measurements.close()

    assert running is not None
    assert (running.what, running.done, running.total) == ("writing the sample", 1, 2)
    assert waiting is not None
    assert waiting.what == "waiting for another measurement"
    assert before != after


async def test_failure_is_said_in_words_and_can_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    failures = [RetryLater("The store is busy."), ValueError("odd")]

    async def fail(stores: Stores, scale: float, progress: Progress) -> None:
        if failures:
            raise failures.pop(0)

    async with open_memory_stores(with_sample(fail)) as stores:
        measurements = Measurements({"newsdesk": stores})
        first = await measurements.wait("newsdesk")
        measurements.start("newsdesk")
        second = await measurements.wait("newsdesk")
        measurements.start("newsdesk")
        third = await measurements.wait("newsdesk")
        await measurements.close()

    assert (first.problem, first.measured) == ("The store is busy.", None)
    assert second.problem == "ValueError; the log of the console has more"
    assert "Measuring newsdesk failed." in caplog.text
    assert (third.problem, third.measured is not None) == ("", True)


async def test_console_that_stops_ends_the_measurement() -> None:
    begun = threading.Event()

    async def go_on(stores: Stores, scale: float, progress: Progress) -> None:
        for step in range(10**9):
            begun.set()
            progress("writing", step, 10**9)
            await asyncio.sleep(0)

    async with open_memory_stores(with_sample(go_on)) as stores:
        measurements = Measurements({"newsdesk": stores})
        measurements.get("newsdesk")
        await asyncio.to_thread(begun.wait, 60)
        await measurements.close()

        assert measurements._states["newsdesk"].measured is None
        measurements.start("newsdesk")
        assert not measurements._tasks


async def test_storage_is_that_of_the_configured_tables_if_they_have_items(stores: Stores) -> None:
    measurements = Measurements({"newsdesk": stores})
    measured = (await measurements.wait("newsdesk")).measured
    assert measured is not None

    assert (await count_stored(measured, stores))[1] == "the sample, because the tables are empty"
    await stores.run(Item.create(Item(scope="ALL", id="1")))
    counted, where = await count_stored(measured, stores)

    description = counted.descriptions["News"]
    assert description is not None
    assert (where, description.item_count) == (STORED, 1)
    await measurements.close()
