"""Growth of the news desk and of the dispatch desk: money, hot keys, and item collections."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

from holdfast import Load, System, Volume
from holdfast.model.system import Design
from holdfast.operations.tables import TableDescription
from holdfast.reports.cost.measured_system import MeasuredSystem, measure_system
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, load_price_list
from holdfast.reports.cost.request_cost import StoredObjects
from holdfast.reports.cost.system_cost import compute_cost
from holdfast.reports.growth import MAX_COLLECTION_BYTES, project_cost, project_growth, scale_load
from holdfast.reports.measurement.data_sources import open_sample_data
from tests.unit.reports import dispatch_desk, news_desk, post_room

PRICES = load_price_list()


def measure(system: System) -> MeasuredSystem:
    async def run() -> MeasuredSystem:
        async with open_sample_data(system) as source:
            return await measure_system(system, source)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def news() -> MeasuredSystem:
    return measure(news_desk.SYSTEM)


@pytest.fixture(scope="module")
def desk() -> MeasuredSystem:
    return measure(dispatch_desk.SYSTEM)


def test_once_the_load_is_the_estimate(news: MeasuredSystem) -> None:
    assert project_growth(news, PRICES, 1).cost == compute_cost(news, PRICES)


def test_requests_grow_with_the_load(news: MeasuredSystem) -> None:
    once, tenfold = (project_cost(news, PRICES, growth) for growth in (1, 10))

    assert tenfold.tables[0].writes == pytest.approx(10 * once.tables[0].writes)
    assert [each.calls for each in tenfold.patterns] == [
        None if each.calls is None else pytest.approx(10 * each.calls) for each in once.patterns
    ]


def test_storage_grows_and_readers_of_streams_and_queues_do_not(desk: MeasuredSystem) -> None:
    described = desk.descriptions["Desk"]
    assert described is not None
    whole = replace(desk, descriptions={"Desk": _with_items(described, 1_000, 10**9)})
    once, tenfold = (project_cost(whole, PRICES, growth).tables[0] for growth in (1, 10))

    assert tenfold.storage == pytest.approx(10 * once.storage)
    assert tenfold.recovery == pytest.approx(10 * once.recovery)
    assert tenfold.stream == once.stream > 0


def test_objects_grow_and_empty_polls_do_not() -> None:
    measured = replace(
        measure(post_room.SYSTEM), objects={"letter-archive": StoredObjects(count=10, size_bytes=10**9)}
    )
    once, tenfold = (project_cost(measured, PRICES, growth) for growth in (1, 10))

    assert tenfold.buckets[0].objects == 100
    assert tenfold.buckets[0].size_bytes == 10 * once.buckets[0].size_bytes
    assert [each.polls for each in tenfold.queues] == [each.polls for each in once.queues]


def test_busiest_key_is_first_and_says_when_it_gets_hot(news: MeasuredSystem) -> None:
    calm, hot = (project_growth(news, PRICES, growth) for growth in (1, 800))

    # One news a second takes two write units on the key of its day, and one in the feed of all.
    for projection, is_hot in ((calm, False), (hot, True)):
        day, feed = projection.keys[:2]
        assert (day.scope.key, day.is_hot, feed.scope.key, feed.is_hot) == ("DAY#*", is_hot, "ALL", False)
        assert day.limit_at == pytest.approx(500)
        assert feed.limit_at == pytest.approx(1000)


def test_load_grows_over_the_same_keys() -> None:
    load = Load({"order": Volume(10.0, distinct_keys=7, hottest=0.5)}, peak_factor=3)

    assert scale_load(load, 4) == Load({"order": Volume(40.0, distinct_keys=7, hottest=0.5)}, peak_factor=3)


def with_calls(measured: MeasuredSystem, per_month: float) -> MeasuredSystem:
    """Return the dispatch desk with so many calls on one key."""
    return measured.with_load(Load({"call": Volume(per_month, distinct_keys=1)}))


def test_table_without_local_indexes_has_no_limited_collections(news: MeasuredSystem) -> None:
    assert project_growth(news, PRICES, 100).collections == ()


def test_collection_of_items_with_a_lifetime_has_an_end(desk: MeasuredSystem) -> None:
    found = project_growth(with_calls(desk, 1_000), PRICES, 1).collections

    assert found
    assert {each.target.table for each in found} == {"Desk"}
    grown = project_growth(with_calls(desk, 1_000), PRICES, 10).collections
    assert [each.bytes_per_month for each in grown] == [
        pytest.approx(10 * each.bytes_per_month) for each in found
    ]
    for each in found:
        if each.final_bytes is not None:
            assert not each.is_full


def test_collection_that_grows_for_ever_says_when_it_is_full(desk: MeasuredSystem) -> None:
    declared = replace(desk.system, design=Design())
    found = project_growth(with_calls(replace(desk, system=declared), 10**9), PRICES, 1).collections

    full = [each for each in found if each.is_full]
    assert full
    for each in full:
        assert each.full_after_months == pytest.approx(MAX_COLLECTION_BYTES / each.bytes_per_month)
        assert each.final_bytes is None or each.final_bytes > MAX_COLLECTION_BYTES


def test_month_is_that_of_the_prices() -> None:
    assert pytest.approx(30.4375 * 86400) == SECONDS_PER_MONTH


def _with_items(description: TableDescription, items: int, size: int) -> TableDescription:
    return structs.replace(description, item_count=items, size_bytes=size)
