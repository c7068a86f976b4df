"""How much AgenticPM bears, what its document says that costs, and what it comes to: all from a few numbers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agenticpm.model import load
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.load import DEFAULT, KB, LOAD, MB, STATED_COSTS, WHAT_IF, build_load, build_stated_costs
from agenticpm.system import SYSTEM
from holdfast import Load
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.stated_costs import ComparedCost, StatedCostComparison, compare_stated_costs
from holdfast.reports.design.design_check import check_design
from holdfast.reports.design.rules.base import Finding
from holdfast.reports.iac.cloudformation import build_template

ALL_DAY = AgentSettings.from_values({"working_hours": {"start": "00:00", "end": "24:00", "timezone": "UTC"}})


@pytest.fixture(scope="module")
def comparison() -> StatedCostComparison:
    return compare_stated_costs(STATED_COSTS, load_price_list())


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    """On empty tables: what a write costs is the same there."""
    return asyncio.run(check_design(replace(SYSTEM, sample=None)))


def line(comparison: StatedCostComparison, name: str) -> ComparedCost:
    return next(each for each in comparison.costs if each.name == name)


def size(name: str) -> tuple[float, float]:
    return next((each.stated_bytes, each.corrected_bytes) for each in STATED_COSTS.sizes if each.name == name)


# --- the load -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [LOAD, *WHAT_IF.values()])
def test_every_rate_has_its_volume(load: Load) -> None:
    assert {each.rate.per for each in SYSTEM.patterns} - set(load.volumes) == set()


def test_what_runs_in_transactions_are_patterns_of_the_system() -> None:
    assert set(LOAD.transacted_patterns) <= {each.id for each in SYSTEM.patterns}


@pytest.mark.proves("AP-X10")
def test_heartbeats_follow_from_the_interval_and_the_working_hours() -> None:
    assert load.count_cycles_per_month(DEFAULT) == 10 * 4 * 30
    assert load.count_cycles_per_month(ALL_DAY) == 2880
    assert load.count_cycles_per_month(AgentSettings.from_values({"polling_interval_minutes": 5})) == 3 * 1200


@pytest.mark.proves("AP-X10")
def test_the_documents_events_are_met_by_working_hours_and_not_by_polling_all_day() -> None:
    assert LOAD.volumes["event"].per_month == 2000
    assert build_load(1, ALL_DAY).volumes["event"].per_month == 2000 + 2880 - 1200


def test_a_load_grows_with_the_projects_and_the_loop_does_not() -> None:
    one, ten = LOAD.volumes, WHAT_IF["10 projects"].volumes

    assert ten["event"].per_month == 10 * one["event"].per_month
    assert ten["event"].distinct_keys == 10
    assert ten["turn of the loop"] == one["turn of the loop"]


def test_the_peak_is_the_beginning_of_an_interval_inside_working_hours() -> None:
    assert LOAD.peak_factor == pytest.approx(24 / 10 * 15)
    assert build_load(1, ALL_DAY).peak_factor == pytest.approx(15)


# --- the hot partition --------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X5")
def test_at_ten_projects_the_feed_of_all_is_far_from_the_limit(found: list[Finding]) -> None:
    told = [each for each in found if each.message.startswith("At 10 projects")]

    assert {each.severity for each in told} == {"info"}
    assert any("the key GLOBAL of AgenticPM takes 0.55 of 1,000 write units" in each.message for each in told)
    assert any("one key EVENT#… of AgenticPM.GSI1 takes" in each.message for each in told)
    assert any("one key ACTION#… of AgenticPM.GSI1 takes" in each.message for each in told)


@pytest.mark.proves("AP-X5")
def test_at_ten_thousand_it_is_near_and_the_remedy_is_to_spread_it(found: list[Finding]) -> None:
    warnings = [
        each
        for each in found
        if each.severity == "warning" and each.message.startswith("At 10,000 projects:")
    ]

    (feed,) = [each for each in warnings if "GLOBAL" in each.message]
    assert "548 of 1,000 write units a second" in feed.message
    assert "shard" in feed.remedy
    assert any("EVENT#…" in each.message for each in warnings)


@pytest.mark.proves("AP-X5")
def test_events_as_large_as_the_document_has_them_are_told_apart_and_are_far_too_much_for_a_day(
    found: list[Finding],
) -> None:
    at_ours, at_theirs = [
        each.message for each in found if each.severity == "warning" and "EVENT#…" in each.message
    ]
    event, *_ = load.list_writes(DEFAULT)

    assert "would take 548 of 1,000 write units" in at_ours
    assert "10,000 projects with the document's items (events of 25 KB)" in at_theirs
    assert "more than it serves" in at_theirs
    # The same units for an event as the cost has.
    a_second = 10_000 * event.index_units / (30.4375 * 86400) * LOAD.peak_factor
    assert f"would take {a_second:,.0f} of 1,000 write units" in at_theirs


def test_no_other_load_is_an_error(found: list[Finding]) -> None:
    assert [each for each in found if each.severity == "error"] == []


# --- what the document says it costs ------------------------------------------------------------------------


@pytest.mark.proves("AP-56")
def test_each_line_of_the_document_follows_from_its_own_quantity_and_the_prices_of_its_time(
    comparison: StatedCostComparison,
) -> None:
    assert comparison.prices.name == "dynamodb-2018-11"
    assert [(each.name, each.stated) for each in comparison.costs] == [
        ("Storage", 0.03),
        ("Write requests", 0.06),
        ("Read requests", 0.05),
        ("GSI storage", 0.01),
        ("GSI writes", 0.06),
        ("GSI reads", 0.01),
        ("Point-in-time recovery", 0.02),
    ]
    assert [each.stated for each in comparison.costs] == pytest.approx(
        [each.reckoned for each in comparison.costs], abs=0.005
    )


@pytest.mark.proves("AP-56")
def test_the_total_is_met_before_rounding_and_missed_by_the_printed_figures(
    comparison: StatedCostComparison,
) -> None:
    assert round(comparison.reckoned, 2) == comparison.stated == 0.25
    assert comparison.figures_total == 0.24
    assert comparison.remarks[0].startswith("The figures as printed add up to 0.24")


@pytest.mark.proves("AP-X11")
def test_events_alone_are_more_than_the_whole_line_of_writes(comparison: StatedCostComparison) -> None:
    event, reference, *_ = load.list_writes(DEFAULT)

    assert (event.units, reference.units) == (2000 * 25 * 2, 2000 * 2)
    writes = line(comparison, "Write requests")
    assert writes.corrected_quantity > event.units + reference.units > writes.quantity
    assert "100,000" in writes.why
    assert writes.corrected == pytest.approx(writes.corrected_quantity * 1.25 / 1e6)
    assert writes.today == pytest.approx(writes.corrected / 2)


def test_a_reason_follows_the_numbers_that_it_tells(
    comparison: StatedCostComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "an event of 25 KB, which is the document's size, is 50 units"
        in line(comparison, "Write requests").why
    )
    assert (
        "the artefacts of a cycle are 24 units, a page of 50 events 128"
        in line(comparison, "Read requests").why
    )
    assert "the 120 MB include the index" in line(comparison, "Storage").why

    monkeypatch.setattr(load, "EVENT_BYTES", 2 * KB)
    smaller = {each.name: each.why for each in build_stated_costs(DEFAULT).costs}

    assert "an event of 2 KB, which is the document's size, is 4 units" in smaller["Write requests"]
    assert "a page of 50 events 12" in smaller["Read requests"]


def test_recovery_is_billed_without_the_index_that_the_document_counts_in(
    comparison: StatedCostComparison,
) -> None:
    storage, recovery = line(comparison, "Storage"), line(comparison, "Point-in-time recovery")

    assert storage.corrected_quantity == recovery.corrected_quantity < 0.12


def test_the_corrected_lines_follow_the_settings() -> None:
    often = {each.name: each.corrected for each in build_stated_costs(ALL_DAY).costs}

    assert all(often[each.name] >= each.corrected for each in STATED_COSTS.costs)
    assert often["Write requests"] > next(
        each.corrected for each in STATED_COSTS.costs if each.name == "Write requests"
    )


@pytest.mark.proves("AP-55")
def test_the_sizes_of_the_document_follow_from_its_numbers(comparison: StatedCostComparison) -> None:
    assert size("Projects") == (1 * KB, 1 * KB)
    assert size("Events") == (50 * MB, 2000 * 25 * KB)
    assert size("Actions") == (30 * MB, 3000 * 10 * KB)
    assert size("Escalations") == (5 * MB, 5 * MB)
    assert size("Checkpoints and configs") == (100 * KB, 100 * KB)
    assert comparison.stated_bytes == 120 * MB
    assert comparison.added_bytes == pytest.approx(115.2 * MB, rel=0.001)


@pytest.mark.proves("AP-X2")
def test_artefacts_are_96_kb_a_project_and_not_each() -> None:
    assert size("Artefacts") == (100 * KB, 96 * KB)


@pytest.mark.proves("AP-X1")
def test_an_index_of_whole_items_is_as_large_as_what_it_holds() -> None:
    stated, corrected = size("GSI1")

    assert stated == 30 * MB
    assert corrected == sum(size(name)[1] for name in ("Projects", "Events", "Escalations"))


@pytest.mark.proves("AP-57")
def test_the_table_is_on_demand() -> None:
    resources = build_template(SYSTEM)["Resources"].values()
    tables = [each["Properties"] for each in resources if each["Type"] == "AWS::DynamoDB::Table"]

    assert [each["BillingMode"] for each in tables] == ["PAY_PER_REQUEST"]
    assert all("ProvisionedThroughput" not in each for each in tables)
