"""Measurement of patterns in the embedded store: items, units, undone writes, failures and data sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Get, Pattern, Put, Query, Stores, System, Update, open_stores, pattern, transact
from holdfast.config.settings import Settings
from holdfast.operations import tables as requests
from holdfast.operations.tables import Units
from holdfast.reports.measurement.data_sources import DataSource, open_data_source, open_sample_data
from holdfast.reports.measurement.pattern_measures import (
    INDEX_MISSING,
    WRITES_NOT_ALLOWED,
    Measure,
    Target,
    build_equivalent_scan,
    compare_with_scan,
    measure_patterns,
)
from holdfast.runtime import create_tables
from tests.unit.reports import shop


def test_failed_write_on_a_service_names_the_example_that_disturbed_it() -> None:
    """On scratch stores the first write is undone, so both are measured."""

    @pattern("A1", "Places it", rate=shop.CHECKOUT, example=())
    def placing() -> Any:
        return shop.Order.create(shop.make_order(shop.ORDERS))

    @pattern("A2", "Places it again", rate=shop.CHECKOUT, example=())
    def placing_again() -> Any:
        return transact(shop.Order.create(shop.make_order(shop.ORDERS)))

    async def run(is_scratch: bool) -> list[Measure]:
        async with open_sample_data(shop.SYSTEM) as ground:
            chosen = DataSource(ground.stores, "a service", is_scratch=is_scratch)
            return await measure_patterns(chosen, [placing, placing_again], allow_writes=True)

    first, second = asyncio.run(run(is_scratch=False))
    assert first.is_measured
    assert (second.is_measured, second.has_failed) == (False, False)
    assert "does not fit the data" in str(second.reason) and "A1 wrote the same item" in str(second.reason)
    assert all(each.is_measured for each in asyncio.run(run(is_scratch=True)))


def test_example_that_does_not_fit_the_sample_is_a_failure() -> None:
    @pattern("A1", "Places one that is there", rate=shop.CHECKOUT, example=())
    def placing() -> Any:
        return shop.Order.create(shop.make_order(1))

    found = measure(placing)["A1"]

    assert (found.has_failed, str(found.reason).startswith("ConditionFailed")) == (True, True)


def measure(*patterns: Pattern[..., Any]) -> dict[str, Measure]:
    """Measure the patterns on the shop's sample data; return the measures by pattern id."""

    async def run() -> list[Measure]:
        async with open_sample_data(shop.SYSTEM) as ground:
            return await measure_patterns(ground, patterns)

    return {each.pattern.id: each for each in asyncio.run(run())}


@pytest.fixture(scope="module")
def measures() -> dict[str, Measure]:
    """Measure all patterns of the shop once."""
    return measure(*shop.SYSTEM.patterns)


def test_measures_every_pattern_in_declaration_order(measures: dict[str, Measure]) -> None:
    assert {id: each.reason for id, each in measures.items() if not each.is_measured} == {}
    assert list(measures) == [each.id for each in shop.SYSTEM.patterns]


def test_a_get_reads_one_item_for_half_a_unit(measures: dict[str, Measure]) -> None:
    found = measures["S1"]

    assert (found.items_read, found.items_returned, found.units) == (1, 1, Units(read=0.5))


def test_a_query_reads_what_it_returns_and_bills_its_index(measures: dict[str, Measure]) -> None:
    found = measures["S2"]

    assert (found.items_read, found.items_returned) == (3, 3)
    assert found.units_by_target == ((Target("Orders", "customer-index"), Units(read=0.5)),)


def test_count_on_an_optional_index_adds_the_index_and_reads_every_match(
    measures: dict[str, Measure],
) -> None:
    found = measures["S3"]

    assert (found.items_read, found.items_returned) == (shop.ORDERS, shop.ORDERS)
    assert found.units.read > shop.ORDERS / 40


@pytest.mark.proves("SM-X6")
def test_insert_costs_the_item_and_each_default_index(measures: dict[str, Measure]) -> None:
    assert dict(measures["S4"].units_by_target) == {
        Target("Orders"): Units(write=1),
        Target("Orders", "customer-index"): Units(write=1),
    }


@pytest.mark.proves("SM-X6")
def test_change_of_an_index_key_costs_a_delete_and_a_put_in_the_index(measures: dict[str, Measure]) -> None:
    assert dict(measures["S5"].units_by_target) == {
        Target("Orders"): Units(write=1),
        Target("Orders", "customer-index"): Units(write=2),
    }


def test_a_transaction_costs_twice(measures: dict[str, Measure]) -> None:
    assert dict(measures["S7"].units_by_target) == {
        Target("Orders"): Units(write=2),
        Target("Orders", "customer-index"): Units(write=2),
        Target("Customers"): Units(write=2),
    }


async def test_undoes_every_write_on_the_scratch_copy() -> None:
    async with open_sample_data(shop.SYSTEM) as ground:
        before = await read_everything(ground.stores)
        await measure_patterns(ground, shop.SYSTEM.patterns)
        after = await read_everything(ground.stores)

    assert before == after
    assert len(before) == shop.ORDERS


async def test_measures_a_dependent_write_after_two_others_and_undoes_all() -> None:
    @pattern("A", "Place", rate=shop.CHECKOUT, example=("new",))
    def place(id: str) -> Put[shop.Order]:
        return shop.Order.create(shop.make_order(1).model_copy(update={"order_id": id}))

    @pattern("B", "Pay what is open", rate=shop.CHECKOUT, example=("new",))
    def pay(id: str) -> Update[shop.Order]:
        is_open = shop.Order.status == shop.Status.open
        return shop.Order.of(id).update().set(shop.Order.status, shop.Status.paid).when(is_open)

    @pattern("C", "Note on what is paid", rate=shop.CHECKOUT, example=("new",))
    def remark(id: str) -> Update[shop.Order]:
        is_paid = shop.Order.status == shop.Status.paid
        return shop.Order.of(id).update().set(shop.Order.note, "thanks").when(is_paid)

    async with open_sample_data(shop.SYSTEM) as ground:
        found = await measure_patterns(ground, [remark, pay, place])
        items = len(await read_everything(ground.stores))

    assert [each.is_measured for each in found] == [True, True, True]
    assert items == shop.ORDERS


def test_reports_a_failing_example_and_continues_with_the_others() -> None:
    @pattern("F1", "Puts what is there", rate=shop.CHECKOUT, example=lambda: (shop.make_order(1),))
    def create_existing(placed: shop.Order) -> Any:
        return shop.Order.create(placed)

    @pattern("F2", "Has no example", rate=shop.CHECKOUT)
    def without(order_id: str) -> Get[shop.Order]:
        return shop.Order.of(order_id).get()

    found = measure(create_existing, without, shop.order_of)

    assert found["F1"].has_failed and "ConditionFailed" in str(found["F1"].reason)
    assert found["F2"].has_failed and "order_id" in str(found["F2"].reason)
    assert found["S1"].is_measured


def test_limited_page_is_one_page_and_an_unlimited_query_reads_all() -> None:
    @pattern("P1", "The first ten", rate=shop.VISIT, example=("open",))
    def first(status: shop.Status) -> Query[shop.Order]:
        return shop.Order.by_status(status).query().page(10)

    @pattern("P2", "All", rate=shop.VISIT, example=("open",))
    def whole(status: shop.Status) -> Query[shop.Order]:
        return shop.Order.by_status(status).query()

    found = measure(first, whole)

    assert found["P1"].items_read == 10
    assert found["P2"].items_read == shop.ORDERS


# --- data sources -------------------------------------------------------------------------------------------


async def test_measures_a_fresh_machine_on_the_sample(tmp_path: Path) -> None:
    settings = Settings(tables=f"sqlite:{tmp_path}/data/tables.db")

    async def run() -> str:
        async with open_data_source(shop.SYSTEM, settings) as ground:
            assert await read_everything(ground.stores)
            return ground.description

    assert await run() == "sample data"
    assert not (tmp_path / "data").exists()


async def test_measures_a_live_file_on_a_copy_without_changing_it(tmp_path: Path) -> None:
    settings = Settings(tables=f"sqlite:{tmp_path}/tables.db", environment="test")

    async with open_stores(shop.SYSTEM, settings) as live:
        await create_tables(live, shop.SYSTEM.tables)
        await live.run(shop.Order.put(shop.make_order(7)))
        async with open_data_source(shop.SYSTEM, settings) as ground:
            found, _ = await measure_patterns(ground, [shop.order_of, shop.place])
            await ground.stores.run(shop.Order.put(shop.make_order(8)))
        left = await read_everything(live)

    assert ground.description == f"a copy of {tmp_path}/tables.db"
    assert found.items_read == 1
    assert [item["orderId"] for item in left] == ["o-7"]


async def test_measures_a_system_without_a_sample_on_empty_tables() -> None:
    system = System(name="bare", purpose="", tables=(shop.orders,), patterns=(shop.order_of,))

    async with open_sample_data(system) as ground:
        (found,) = await measure_patterns(ground, system.patterns)

    assert not ground.has_data
    assert (found.items_read, found.units) == (0, Units(read=0.5))


@asynccontextmanager
async def open_as_service() -> AsyncIterator[DataSource]:
    """Open the sample as if it were a service: writes are not allowed and not undone."""
    async with open_sample_data(shop.SYSTEM) as ground:
        yield DataSource(ground.stores, "a service", is_scratch=False)


async def test_lists_writes_on_a_service_with_a_reason_without_running_them() -> None:
    async with open_as_service() as ground:
        write, read = await measure_patterns(ground, [shop.place, shop.order_of])
        items = len(await read_everything(ground.stores))

    assert (write.is_measured, write.has_failed, write.reason) == (False, False, WRITES_NOT_ALLOWED)
    assert read.is_measured
    assert items == shop.ORDERS


async def test_runs_an_allowed_write_on_a_service_once_and_keeps_it() -> None:
    async with open_as_service() as ground:
        (write,) = await measure_patterns(ground, [shop.place], allow_writes=True)
        items = len(await read_everything(ground.stores))

    assert write.is_measured
    assert len(write.usages) == 1
    assert items == shop.ORDERS + 1


async def test_lists_a_pattern_with_a_missing_optional_index_with_a_reason() -> None:
    async with open_as_service() as ground:
        optional, other = await measure_patterns(ground, [shop.count_of, shop.orders_of])

    assert (optional.is_measured, optional.has_failed, optional.reason) == (False, False, INDEX_MISSING)
    assert other.is_measured


# --- index against scan -------------------------------------------------------------------------------------


async def test_compares_an_index_query_with_the_equivalent_scan_in_one_run() -> None:
    async def run() -> Any:
        async with open_sample_data(shop.SYSTEM) as ground:
            return await compare_with_scan(ground.stores, shop.orders_of("c-0"))

    found = await run()

    assert found.agrees
    assert (found.query.items_read, found.scan.items_read) == (3, shop.ORDERS)
    assert found.items_ratio == shop.ORDERS / 3
    assert found.units_saved_share > 0.95
    assert found.query.ms > 0 and found.scan.ms > 0


@pytest.mark.parametrize(
    "query",
    [
        shop.Order.by_customer("c-0").between(shop.BEGAN, shop.make_order(1).placed_at),
        shop.Order.by_customer("c-0").since(shop.make_order(1).placed_at),
        shop.Order.by_customer("c-0").query().where(shop.Order.order_id == "o-2"),
        shop.Order.by_status(shop.Status.open).begins_with("o-199"),
    ],
)
async def test_compared_scan_finds_what_the_query_finds(query: Query[shop.Order]) -> None:
    async with open_sample_data(shop.SYSTEM) as ground:
        await measure_patterns(ground, [shop.count_of])  # adds the optional index
        queried = await ground.stores.all(query)
        scanned = await ground.stores.all(build_equivalent_scan(query))

    assert len(queried) > 0
    assert sorted(each.order_id for each in queried) == sorted(each.order_id for each in scanned)


async def read_everything(stores: Stores) -> list[Any]:
    """Read every item of every table of the shop."""
    items: list[Any] = []
    for table in shop.SYSTEM.tables:
        start = None
        while True:
            page = await stores.tables.run(requests.Scan(stores.physical_name(table), start_key=start))
            items += page.items or []
            start = page.last_key
            if start is None:
                break
    return items
