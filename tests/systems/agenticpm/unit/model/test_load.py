"""Tests of the load model: volumes, hot partitions, and the document's stated costs with corrections."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agenticpm.model import load
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.load import DEFAULT, KB, LOAD, MB, STATED_COSTS, WHAT_IF, build_load, build_stated_costs
from agenticpm.system import SYSTEM
from holdfast import Load
from holdfast.model.demo import Demo
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.stated_costs import ComparedCost, StatedCostComparison, compare_stated_costs
from holdfast.reports.design.design_check import check_design
from holdfast.reports.design.rules.base import Finding
from holdfast.reports.iac.cloudformation import build_template

ALL_DAY = AgentSettings.from_values({"working_hours": {"start": "00:00", "end": "24:00", "timezone": "UTC"}})


@pytest.fixture(scope="module")
def comparison() -> StatedCostComparison:
    """Compare the document's stated costs with the computed ones."""
    return compare_stated_costs(STATED_COSTS, load_price_list())


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    """Run the design check on empty tables: the cost of a write is the same there."""
    return asyncio.run(check_design(replace(SYSTEM, demo=Demo())))


def find_cost(comparison: StatedCostComparison, name: str) -> ComparedCost:
    return next(each for each in comparison.costs if each.name == name)


def find_size(name: str) -> tuple[float, float]:
    """Return the stated and the corrected bytes of a line."""
    return next((each.stated_bytes, each.corrected_bytes) for each in STATED_COSTS.sizes if each.name == name)


# --- load ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [LOAD, *WHAT_IF.values()])
def test_every_rate_has_its_volume(load: Load) -> None:
    assert {each.rate.per for each in SYSTEM.patterns} - set(load.volumes) == set()


def test_transactions_run_only_patterns_of_the_system() -> None:
    assert set(LOAD.transacted_patterns) <= {each.id for each in SYSTEM.patterns}


@pytest.mark.proves("AP-X10")
def test_cycles_follow_from_the_interval_and_the_working_hours() -> None:
    assert load.count_cycles_per_month(DEFAULT) == 10 * 4 * 30
    assert load.count_cycles_per_month(ALL_DAY) == 2880
    assert load.count_cycles_per_month(AgentSettings.from_values({"polling_interval_minutes": 5})) == 3 * 1200


@pytest.mark.proves("AP-X10")
def test_working_hours_explain_the_documents_events_and_polling_all_day_does_not() -> None:
    assert LOAD.volumes["event"].per_month == 2000
    assert build_load(1, ALL_DAY).volumes["event"].per_month == 2000 + 2880 - 1200


def test_load_grows_with_the_projects_except_the_loop() -> None:
    one, ten = LOAD.volumes, WHAT_IF["10 projects"].volumes

    assert ten["event"].per_month == 10 * one["event"].per_month
    assert ten["event"].distinct_keys == 10
    assert ten["turn of the loop"] == one["turn of the loop"]


def test_peak_is_the_start_of_an_interval_in_working_hours() -> None:
    assert LOAD.peak_factor == pytest.approx(24 / 10 * 15)
    assert build_load(1, ALL_DAY).peak_factor == pytest.approx(15)


# --- hot partition ------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X5")
def test_global_feed_is_far_from_the_limit_at_ten_projects(found: list[Finding]) -> None:
    findings = [each for each in found if each.message.startswith("At 10 projects")]

    assert {each.severity for each in findings} == {"info"}
    assert any(
        "the key GLOBAL of AgenticPM takes 0.55 of 1,000 write units" in each.message for each in findings
    )
    assert any("one key EVENT#… of AgenticPM.GSI1 takes" in each.message for each in findings)
    assert any("one key ACTION#… of AgenticPM.GSI1 takes" in each.message for each in findings)


@pytest.mark.proves("AP-X5")
def test_global_feed_is_near_the_limit_at_ten_thousand_and_the_remedy_is_sharding(
    found: list[Finding],
) -> None:
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
def test_events_of_the_documents_size_exceed_a_key_of_the_daily_index(
    found: list[Finding],
) -> None:
    at_ours, at_theirs = [
        each.message for each in found if each.severity == "warning" and "EVENT#…" in each.message
    ]
    event, *_ = load.list_writes(DEFAULT)

    assert "would take 548 of 1,000 write units" in at_ours
    assert "10,000 projects with the document's items (events of 25 KB)" in at_theirs
    assert "more than it serves" in at_theirs
    # The cost report uses the same units per event.
    a_second = 10_000 * event.index_units / (30.4375 * 86400) * LOAD.peak_factor
    assert f"would take {a_second:,.0f} of 1,000 write units" in at_theirs


# --- stated costs -------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-56")
def test_each_stated_cost_follows_from_its_quantity_and_the_old_prices(
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
def test_stated_total_matches_before_rounding_but_not_the_printed_figures(
    comparison: StatedCostComparison,
) -> None:
    assert round(comparison.reckoned, 2) == comparison.stated == 0.25
    assert comparison.figures_total == 0.24
    assert comparison.remarks[0].startswith("The figures as printed add up to 0.24")


@pytest.mark.proves("AP-X11")
def test_events_alone_exceed_the_stated_writes(comparison: StatedCostComparison) -> None:
    event, reference, *_ = load.list_writes(DEFAULT)

    assert (event.units, reference.units) == (2000 * 25 * 2, 2000 * 2)
    writes = find_cost(comparison, "Write requests")
    assert writes.corrected_quantity > event.units + reference.units > writes.quantity
    assert "100,000" in writes.why
    assert writes.corrected == pytest.approx(writes.corrected_quantity * 1.25 / 1e6)
    assert writes.today == pytest.approx(writes.corrected / 2)


def test_reason_uses_the_computed_numbers(
    comparison: StatedCostComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "an event of 25 KB, which is the document's size, is 50 units"
        in find_cost(comparison, "Write requests").why
    )
    assert (
        "the artefacts of a cycle are 24 units, a page of 50 events 128"
        in find_cost(comparison, "Read requests").why
    )
    assert "the 120 MB include the index" in find_cost(comparison, "Storage").why

    monkeypatch.setattr(load, "EVENT_BYTES", 2 * KB)
    smaller = {each.name: each.why for each in build_stated_costs(DEFAULT).costs}

    assert "an event of 2 KB, which is the document's size, is 4 units" in smaller["Write requests"]
    assert "a page of 50 events 12" in smaller["Read requests"]


def test_recovery_is_billed_without_the_index_that_the_document_includes(
    comparison: StatedCostComparison,
) -> None:
    storage, recovery = find_cost(comparison, "Storage"), find_cost(comparison, "Point-in-time recovery")

    assert storage.corrected_quantity == recovery.corrected_quantity < 0.12


def test_the_corrected_lines_follow_the_settings() -> None:
    """Polling all day costs at least as much in every line."""
    often = {each.name: each.corrected for each in build_stated_costs(ALL_DAY).costs}

    assert all(often[each.name] >= each.corrected for each in STATED_COSTS.costs)
    assert often["Write requests"] > next(
        each.corrected for each in STATED_COSTS.costs if each.name == "Write requests"
    )


@pytest.mark.proves("AP-55")
def test_the_sizes_of_the_document_follow_from_its_numbers(comparison: StatedCostComparison) -> None:
    assert find_size("Projects") == (1 * KB, 1 * KB)
    assert find_size("Events") == (50 * MB, 2000 * 25 * KB)
    assert find_size("Actions") == (30 * MB, 3000 * 10 * KB)
    assert find_size("Escalations") == (5 * MB, 5 * MB)
    assert find_size("Checkpoints and configs") == (100 * KB, 100 * KB)
    assert comparison.stated_bytes == 120 * MB
    assert comparison.added_bytes == pytest.approx(115.2 * MB, rel=0.001)


@pytest.mark.proves("AP-X2")
def test_artefacts_of_a_project_are_96_kb_where_the_document_states_100() -> None:
    """The document says 100 KB per artefact, but its calculation is for four artefacts in two versions."""
    assert find_size("Artefacts") == (100 * KB, 96 * KB)


@pytest.mark.proves("AP-X1")
def test_index_of_whole_items_is_as_large_as_its_items() -> None:
    stated, corrected = find_size("GSI1")

    assert stated == 30 * MB
    assert corrected == sum(find_size(name)[1] for name in ("Projects", "Events", "Escalations"))


@pytest.mark.proves("AP-57")
def test_the_table_is_on_demand() -> None:
    resources = build_template(SYSTEM)["Resources"].values()
    tables = [each["Properties"] for each in resources if each["Type"] == "AWS::DynamoDB::Table"]

    assert [each["BillingMode"] for each in tables] == ["PAY_PER_REQUEST"]
    assert all("ProvisionedThroughput" not in each for each in tables)
