"""The rows of `holdfast patterns` and their JSON shape, which other programs rely on."""

from __future__ import annotations

from typing import Any

from holdfast import Rate, System, pattern
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from holdfast.reports.pattern_list import build_pattern_rows, compute_calls_per_month
from tests.unit.reports import shop

DECLARED = ["system", "id", "name", "purpose", "rate", "store", "operation", "table", "index", "components"]
MEASURED = ["items_read", "items_returned", "units", "ms", "reason"]


def test_row_contains_the_declaration() -> None:
    rows = {row.id: row.to_json() for row in build_pattern_rows(shop.SYSTEM)}

    assert rows["S2"] == {
        "system": "shop",
        "id": "S2",
        "name": "orders_of",
        "purpose": "The orders of a customer, oldest first",
        "rate": {"per": "visit", "times": 2, "per_month": 2_000_000},
        "store": "tables",
        "operation": "Query",
        "table": "Orders",
        "index": "customer-index",
        "components": ["till"],
    }


def test_names_all_tables_of_a_transaction() -> None:
    rows = {row.id: row for row in build_pattern_rows(shop.SYSTEM)}

    assert (rows["S7"].operation, rows["S7"].table) == ("TransactWriteItems", "Orders, Customers")


def test_count_is_listed_as_its_query() -> None:
    rows = {row.id: row for row in build_pattern_rows(shop.SYSTEM)}

    assert (rows["S3"].operation, rows["S3"].table, rows["S3"].index) == ("Query", "Orders", "status-index")


async def test_adds_measures_to_a_row() -> None:
    async def run() -> list[Measure]:
        async with open_sample_data(shop.SYSTEM) as ground:
            return await measure_patterns(ground, [shop.orders_of])

    measures = {each.pattern.id: each for each in await run()}
    rows = {row.id: row.to_json() for row in build_pattern_rows(shop.SYSTEM, measures)}

    assert list(rows["S2"]) == DECLARED + MEASURED
    assert [rows["S2"][name] for name in ("items_read", "items_returned", "units", "reason")] == [
        3,
        3,
        0.5,
        None,
    ]
    assert rows["S2"]["ms"] > 0
    assert list(rows["S1"]) == DECLARED


def test_unmeasured_row_has_nulls_and_the_reason() -> None:
    (row,) = build_pattern_rows(
        System(name="one", purpose="", tables=(), patterns=(shop.place,)),
        {"S4": Measure(shop.place, reason="it writes")},
    )

    found = row.to_json()
    assert [found[name] for name in MEASURED] == [None, None, None, None, "it writes"]


def test_lists_a_pattern_with_a_failing_example_without_its_operation() -> None:
    @pattern("F", "Fails", rate=Rate(per="visit"))
    def fails(order_id: str) -> Any:
        return order_id

    (row,) = build_pattern_rows(System(name="one", purpose="", tables=(), patterns=(fails,)))

    assert (row.id, row.operation, row.table) == ("F", None, None)


def test_calls_per_month_are_unknown_without_a_volume() -> None:
    none = System(name="one", purpose="", tables=(), patterns=(shop.place,))

    assert compute_calls_per_month(none, shop.place) is None
    assert compute_calls_per_month(shop.SYSTEM, shop.place) == 50_000
