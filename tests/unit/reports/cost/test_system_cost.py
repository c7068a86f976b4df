"""Monthly cost of the shop: per pattern, table and index, from measured units and declared rates."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from holdfast import System
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, load_price_list
from holdfast.reports.cost.system_cost import (
    SystemCost,
    compute_break_even,
    estimate_break_even,
    estimate_cost,
)
from holdfast.reports.measurement.data_sources import DataSource, open_sample_data
from tests.unit.reports import shop

PRICES = load_price_list()


def estimate(system: System = shop.SYSTEM, *, service: bool = False) -> SystemCost:
    """Estimate the cost on the sample data, presented as a service if `service`."""

    async def run() -> SystemCost:
        async with open_sample_data(system) as ground:
            chosen = DataSource(ground.stores, "a service", is_scratch=False) if service else ground
            return await estimate_cost(system, chosen, PRICES)

    return asyncio.run(run())


@pytest.fixture(scope="module")
def cost() -> SystemCost:
    return estimate()


def test_a_pattern_costs_its_units_times_its_calls_times_the_price(cost: SystemCost) -> None:
    by_id = {each.pattern.id: each for each in cost.patterns}

    assert by_id["S1"].calls == pytest.approx(2_000_000)
    assert by_id["S1"].cost == pytest.approx(2_000_000 * 0.5 * 0.125 / 1_000_000)
    assert by_id["S5"].cost == pytest.approx(50_000 * 3 * 0.625 / 1_000_000)


def test_reports_the_share_of_a_write_that_goes_to_indexes(cost: SystemCost) -> None:
    found = {each.pattern.id: (each.write_units, each.index_write_units) for each in cost.patterns}

    assert [found[id] for id in ("S4", "S5", "S7")] == [(2, 1), (3, 2), (6, 2)]


def test_tables_cost_as_much_as_patterns_and_storage(cost: SystemCost) -> None:
    running = sum(each.cost or 0 for each in cost.patterns)
    keeping = sum(table.storage + table.recovery + table.stream for table in cost.tables)

    assert cost.total == pytest.approx(running + keeping)


def test_storage_counts_items_and_default_indexes(cost: SystemCost) -> None:
    orders = next(table for table in cost.tables if table.table == "Orders")

    assert orders.items == shop.ORDERS
    # One index of whole items; the optional one is not counted.
    assert orders.index_bytes == orders.size_bytes
    assert orders.storage == pytest.approx(
        PRICES.compute_storage_cost(2 * orders.items, 2 * orders.size_bytes)
    )


def test_bills_recovery_and_streams_where_declared(cost: SystemCost) -> None:
    orders, customers = cost.tables

    assert orders.recovery == pytest.approx(PRICES.compute_recovery_cost(orders.items, orders.size_bytes))
    assert orders.stream == pytest.approx(SECONDS_PER_MONTH / 100_000 * 0.02)
    assert (customers.recovery, customers.stream) == (0, 0)


def test_reports_the_cost_saving_and_break_even_of_an_index(cost: SystemCost) -> None:
    (index,) = cost.indexes

    assert (index.table, index.index) == ("Orders", "customer-index")
    assert (index.calls, index.query_units) == (2_000_000, 0.5)
    assert index.spares == pytest.approx(PRICES.compute_read_cost(2_000_000 * (index.scan_units - 0.5)))
    assert index.gain == pytest.approx(index.spares - index.writes - index.storage)
    assert index.thumb == estimate_break_even(4 * 50_000, 1)
    assert index.break_even == pytest.approx(
        compute_break_even(
            index.write_units, 1, PRICES.write_unit, index.scan_units, index.query_units, PRICES.read_unit
        )
    )


def test_omits_a_pattern_without_a_volume_and_gives_the_reason() -> None:
    without = replace(
        shop.SYSTEM, design=replace(shop.SYSTEM.design, load=replace(shop.SYSTEM.design.load, volumes={}))
    )

    found = estimate(without)

    assert all(each.cost is None for each in found.patterns)
    assert found.patterns[0].reason == "the system has no volume of visit"
    assert found.indexes[0].break_even is None
    assert found.uncounted == found.patterns


def test_total_counts_every_pattern_of_the_shop(cost: SystemCost) -> None:
    assert cost.uncounted == ()


def test_measures_writes_and_optional_indexes_on_the_sample_for_a_service() -> None:
    found = estimate(service=True)

    assert {each.pattern.id: each.cost for each in found.patterns if each.cost is None} == {}
    assert found.measured_on == "a service, and on sample data what could not be measured there"


async def test_measures_examples_that_do_not_fit_the_data_on_the_sample() -> None:
    async with open_sample_data(shop.SYSTEM) as ground:
        await ground.stores.run(shop.Order.of("o-9").delete())
        copy = DataSource(ground.stores, "a copy of tables.db", is_scratch=True)
        found = await estimate_cost(shop.SYSTEM, copy, PRICES)

    assert found.uncounted == ()
    assert found.measured_on == "a copy of tables.db, and on sample data what could not be measured there"
