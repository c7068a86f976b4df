"""Reports on SkyMarshal with its sample: every pattern runs, none scans, and the design has no error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.model.entities.reads import PagedRead
from holdfast.model.system import load_system
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.system_cost import SystemCost, estimate_cost
from holdfast.reports.design.design_check import apply_rules
from holdfast.reports.design.rules.base import Design
from holdfast.reports.examples import build_example
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import (
    Measure,
    ScanComparison,
    compare_with_scan,
    measure_patterns,
)
from holdfast.reports.pattern_list import build_pattern_rows

SKYMARSHAL = load_system("skymarshal")
BOOKINGS_OF_A_PASSENGER = "bookings_of_passenger"


@pytest.fixture(scope="module")
def measured() -> tuple[list[Measure], ScanComparison, SystemCost]:
    """Return the measures, a comparison of the bookings index with a scan, and the cost at the prices of
    2018.
    """

    async def run() -> tuple[list[Measure], ScanComparison, SystemCost]:
        async with open_sample_data(SKYMARSHAL) as ground:
            cost = await estimate_cost(SKYMARSHAL, ground, load_price_list("dynamodb-2018-11"))
            measures = await measure_patterns(ground, SKYMARSHAL.patterns)
            query: Any = SKYMARSHAL.get_pattern(BOOKINGS_OF_A_PASSENGER).build_example()
            return measures, await compare_with_scan(ground.stores, query), cost

    return asyncio.run(run())


@pytest.mark.proves("SM-33")
def test_every_pattern_runs_with_its_example(
    measured: tuple[list[Measure], ScanComparison, SystemCost],
) -> None:
    assert {each.pattern.id: each.reason for each in measured[0] if not each.is_measured} == {}


@pytest.mark.proves("SM-35")
def test_no_pattern_scans() -> None:
    assert [row.id for row in build_pattern_rows(SKYMARSHAL) if row.operation == "Scan"] == []


def test_pattern_without_a_filter_reads_only_what_it_returns(
    measured: tuple[list[Measure], ScanComparison, SystemCost],
) -> None:
    filtered = {
        each.pattern.id
        for each in measured[0]
        if any(isinstance(part, PagedRead) and part.filter for part in build_example(each.pattern).parts)
    }

    uneven = [each.pattern.id for each in measured[0] if each.items_read != each.items_returned]

    assert set(uneven) <= filtered


@pytest.mark.proves("SM-X4")
def test_units_are_multiples_of_a_half(measured: tuple[list[Measure], ScanComparison, SystemCost]) -> None:
    assert all((each.units.total * 2).is_integer() for each in measured[0])


@pytest.mark.proves("SM-46")
def test_finds_a_passengers_bookings_among_9351_by_reading_three(
    measured: tuple[list[Measure], ScanComparison, SystemCost],
) -> None:
    compared = measured[1]

    assert compared.agrees
    assert (compared.query.items_read, compared.scan.items_read) == (3, 9_351)
    assert compared.items_ratio >= 1_000


def test_design_has_no_error(measured: tuple[list[Measure], ScanComparison, SystemCost]) -> None:
    design = Design(SKYMARSHAL, {each.pattern.id: each for each in measured[0]}, has_data=True)

    assert [finding for finding in apply_rules(design) if finding.severity == "error"] == []


@pytest.mark.proves("SM-X11")
def test_indexes_of_a_table_store_at_most_two_copies(
    measured: tuple[list[Measure], ScanComparison, SystemCost],
) -> None:
    assert all(table.index_bytes <= 2 * table.size_bytes for table in measured[2].tables)


@pytest.mark.proves("SM-X9")
def test_indexes_of_bookings_pay_from_a_few_hundred_reads(
    measured: tuple[list[Measure], ScanComparison, SystemCost],
) -> None:
    of_bookings = [index for index in measured[2].indexes if index.table == "Bookings"]

    assert len(of_bookings) == 2
    assert all(index.break_even is not None and index.break_even < 1_000 for index in of_bookings)
    assert all(index.thumb is not None and index.thumb >= 100_000 for index in of_bookings)
