"""The reports on the first real system: every pattern runs, reads by key only, and the design has no error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import installed_system
from holdfast.model.reads import Paged
from holdfast.reports.checks.design import Design
from holdfast.reports.cost import SystemCost, estimate
from holdfast.reports.design_check import findings
from holdfast.reports.examples import example_of
from holdfast.reports.measuring import Comparison, Measure, compare_with_scan, measure
from holdfast.reports.pattern_list import pattern_rows
from holdfast.reports.prices import price_list
from holdfast.reports.scratch import sample_ground

SKYMARSHAL = installed_system("skymarshal")
BOOKINGS_OF_A_PASSENGER = "bookings_of_passenger"


@pytest.fixture(scope="module")
def measured() -> tuple[list[Measure], Comparison, SystemCost]:
    async def run() -> tuple[list[Measure], Comparison, SystemCost]:
        async with sample_ground(SKYMARSHAL) as ground:
            cost = await estimate(SKYMARSHAL, ground, price_list("dynamodb-2018-11"))
            measures = await measure(ground, SKYMARSHAL.patterns)
            query: Any = SKYMARSHAL.pattern(BOOKINGS_OF_A_PASSENGER).example()
            return measures, await compare_with_scan(ground.stores, query), cost

    return asyncio.run(run())


@pytest.mark.proves("SM-33")
def test_every_pattern_runs_with_its_example(measured: tuple[list[Measure], Comparison, SystemCost]) -> None:
    assert {each.pattern.id: each.reason for each in measured[0] if not each.is_measured} == {}


@pytest.mark.proves("SM-35")
def test_no_pattern_scans() -> None:
    assert [row.id for row in pattern_rows(SKYMARSHAL) if row.operation == "Scan"] == []


def test_a_pattern_without_a_filter_reads_what_it_returns(
    measured: tuple[list[Measure], Comparison, SystemCost],
) -> None:
    filtered = {
        each.pattern.id
        for each in measured[0]
        if any(isinstance(part, Paged) and part.filter for part in example_of(each.pattern).parts)
    }

    uneven = [each.pattern.id for each in measured[0] if each.items_read != each.items_returned]

    assert set(uneven) <= filtered


@pytest.mark.proves("SM-X4")
def test_units_are_whole_halves(measured: tuple[list[Measure], Comparison, SystemCost]) -> None:
    assert all((each.units.total * 2).is_integer() for each in measured[0])


@pytest.mark.proves("SM-46")
def test_a_passengers_bookings_are_found_among_9351_by_reading_three(
    measured: tuple[list[Measure], Comparison, SystemCost],
) -> None:
    compared = measured[1]

    assert compared.agrees
    assert (compared.query.items_read, compared.scan.items_read) == (3, 9_351)
    assert compared.fewer_items >= 1_000


def test_the_design_has_no_error(measured: tuple[list[Measure], Comparison, SystemCost]) -> None:
    design = Design(SKYMARSHAL, {each.pattern.id: each for each in measured[0]}, has_data=True)

    assert [finding for finding in findings(design) if finding.severity == "error"] == []


@pytest.mark.proves("SM-X11")
def test_no_table_needs_more_than_two_copies_in_its_indexes(
    measured: tuple[list[Measure], Comparison, SystemCost],
) -> None:
    assert all(table.index_bytes <= 2 * table.size_bytes for table in measured[2].tables)


@pytest.mark.proves("SM-X9")
def test_the_indexes_of_the_bookings_pay_from_a_few_hundred_reads_on(
    measured: tuple[list[Measure], Comparison, SystemCost],
) -> None:
    of_bookings = [index for index in measured[2].indexes if index.table == "Bookings"]

    assert len(of_bookings) == 2
    assert all(index.break_even is not None and index.break_even < 1_000 for index in of_bookings)
    assert all(index.thumb is not None and index.thumb >= 100_000 for index in of_bookings)
