"""Comparison of the costs that a document states with the computed ones, and transaction weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.cli.output.stated_costs import to_json
from holdfast.core.errors import SettingsError
from holdfast.model.stated_costs import StatedCost, StatedCosts, StatedSize
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.stated_costs import StatedCostComparison, compare_stated_costs
from holdfast.reports.cost.system_cost import estimate_cost
from holdfast.reports.measurement.data_sources import open_sample_data
from tests.unit.reports import shop

STATED = StatedCosts(
    source="the plan",
    prices="dynamodb-2018-11",
    costs=(
        StatedCost("Storage", "GB stored", 0.1, 0.03, 0.2, "twice as many"),
        StatedCost("Writes", "write units", 1_000_000, 1.25, 2_000_000),
        StatedCost("Reads", "read units", 2_000_000, 0.5, 2_000_000),
        StatedCost("Recovery", "GB recoverable", 0.1, 0.02, 0.2),
    ),
    total=2.0,
    sizes=(StatedSize("Orders", 40e6, 90e6, "1 × 40 MB"), StatedSize("Index", 50e6, 90e6)),
    size_total_bytes=100e6,
)


@pytest.fixture
def found() -> StatedCostComparison:
    return compare_stated_costs(STATED, load_price_list())


def test_each_line_has_the_stated_computed_correct_and_current_figure(
    found: StatedCostComparison,
) -> None:
    assert [each.stated for each in found.costs] == [0.03, 1.25, 0.5, 0.02]
    assert [each.reckoned for each in found.costs] == pytest.approx([0.025, 1.25, 0.5, 0.02])
    assert [each.corrected for each in found.costs] == pytest.approx([0.05, 2.5, 0.5, 0.04])
    assert [each.today for each in found.costs] == pytest.approx([0.05, 1.25, 0.25, 0.04])


def test_a_line_shows_the_calculation(found: StatedCostComparison) -> None:
    assert [each.calculation for each in found.costs][:2] == [
        "0.1 GB stored × 0.25",
        "1,000,000 write units × 1.25 per million",
    ]


def test_reports_a_stated_total_that_is_not_the_sum(found: StatedCostComparison) -> None:
    assert found.figures_total == 1.8
    assert found.reckoned == pytest.approx(1.795)
    assert found.corrected == pytest.approx(3.09)
    assert found.today == pytest.approx(1.59)
    assert found.remarks == (
        "The figures as printed add up to 1.80, unrounded to 1.795; stated is 2.00.",
        "The sizes as printed add up to 90.0 MB; stated is 100 MB.",
    )


def test_correct_total_needs_no_remark() -> None:
    right = replace(STATED, total=1.8, size_total_bytes=90e6)

    assert compare_stated_costs(right, load_price_list()).remarks == ()


async def test_cost_of_a_system_includes_its_stated_costs() -> None:
    async with open_sample_data(shop.SYSTEM) as ground:
        both = (
            shop.SYSTEM,
            replace(shop.SYSTEM, design=replace(shop.SYSTEM.design, stated_costs=STATED)),
        )
        without, with_some = [(await estimate_cost(each, ground, load_price_list())).stated for each in both]

    assert without is None
    assert with_some is not None
    assert to_json(with_some)["totals"] == {
        "stated": 2.0,
        "figures": 1.8,
        "reckoned": pytest.approx(1.795),
        "corrected": pytest.approx(3.09),
        "today": pytest.approx(1.59),
    }


def test_rejects_an_unknown_price_list() -> None:
    with pytest.raises(SettingsError, match="dynamodb-1999"):
        compare_stated_costs(replace(STATED, prices="dynamodb-1999"), load_price_list())


async def test_bills_the_writes_of_transacted_patterns_twice() -> None:
    async def run(*transacted: str) -> float:
        system = replace(
            shop.SYSTEM,
            design=replace(
                shop.SYSTEM.design, load=replace(shop.SYSTEM.design.load, transacted_patterns=transacted)
            ),
        )
        async with open_sample_data(system) as ground:
            found = await estimate_cost(system, ground, load_price_list())
        return next(each.write_units for each in found.patterns if each.pattern.id == "S4")

    assert (await run(), await run("S4", "S7")) == (2, 4)


async def test_does_not_bill_a_transaction_pattern_twice_again() -> None:
    system = replace(
        shop.SYSTEM,
        design=replace(
            shop.SYSTEM.design, load=replace(shop.SYSTEM.design.load, transacted_patterns=("S7",))
        ),
    )
    async with open_sample_data(system) as ground:
        found = await estimate_cost(system, ground, load_price_list())

    assert next(each.write_units for each in found.patterns if each.pattern.id == "S7") == 6
