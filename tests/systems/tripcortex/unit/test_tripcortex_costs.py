"""Tests of Trip Cortex's design check, cost estimate, and deployment and IAM files, on the sample."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.transaction_weights import apply_transaction_weights
from holdfast.reports.design.design_check import apply_rules
from holdfast.reports.design.rules.base import Design
from holdfast.reports.iac.cloudformation import build_template
from holdfast.reports.iac.terraform import render_module
from holdfast.reports.iam.policies import build_policy_files
from tests.systems.tripcortex.unit.sample_company import Company, load_company
from tripcortex import migrations
from tripcortex.model.load_profile import MONTH_S
from tripcortex.model.notices import NOTICES, RELAY
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW

# The document's own tables, each with its TTL attribute.
DOCUMENT_TABLES = {
    "TripCortexConnections": "ttl",
    "TripCortexBookings": None,
    "TripCortexAuditLog": "expiresAt",
    "TripCortexCircuitBreaker": "ttl",
}
# The sample is a hundredth of the document's year.
YEAR = 100
# Read units of one poll by a relay or a sweeper; most polls find nothing.
POLL_UNITS = 0.5


@pytest.fixture(scope="module")
def sample() -> Company:
    return load_company()


@pytest.mark.proves("TC-103")
def test_every_pattern_runs_with_its_example_on_the_sample(sample: Company) -> None:
    assert [(each.pattern.id, each.reason) for each in sample.measures if not each.is_measured] == []


def test_the_design_has_no_error_and_no_warning(sample: Company) -> None:
    measures = {each.pattern.id: each for each in apply_transaction_weights(SYSTEM, sample.measures)}
    findings = apply_rules(Design(SYSTEM, measures, has_data=True))
    assert [(each.subject, each.message) for each in findings if each.severity != "info"] == []


@pytest.mark.proves("TC-100")
def test_the_tables_of_the_documents_year_cost_less_than_ten_dollars_a_month(sample: Company) -> None:
    """The cost includes the idle polls of relays and sweepers."""
    prices = load_price_list()
    requests = sum(each.reads + each.writes for each in sample.cost.tables)
    storage = YEAR * sum(each.storage + each.recovery for each in sample.cost.tables)
    looks = (
        sum(BOOKING_FLOW.shards / each.every_s for each in BOOKING_FLOW.schedules)
        + NOTICES.shards / RELAY.every_s
    )

    assert {each.table for each in sample.cost.tables} == {each.name for each in SYSTEM.tables}
    assert 0 < requests + storage < 1
    assert requests + storage + looks * MONTH_S * POLL_UNITS * prices.read_unit < 10


def _tables() -> dict[str, dict[str, Any]]:
    """Return the properties of the CloudFormation template's tables by name."""
    resources = build_template(SYSTEM)["Resources"].values()
    tables = [each["Properties"] for each in resources if each["Type"] == "AWS::DynamoDB::Table"]
    return {str(each["TableName"]): each for each in tables}


@pytest.mark.proves("TC-3", "TC-4")
def test_template_has_on_demand_tables_with_the_documents_ttls() -> None:
    tables = _tables()
    for name, ends in DOCUMENT_TABLES.items():
        [table] = [each for full_name, each in tables.items() if name in full_name]
        assert table.get("TimeToLiveSpecification", {}).get("AttributeName") == ends
    assert len(tables) == len(SYSTEM.tables)
    assert {each["BillingMode"] for each in tables.values()} == {"PAY_PER_REQUEST"}


@pytest.mark.proves("TC-3")
def test_iam_policies_omit_tables_that_a_component_does_not_need() -> None:
    files = build_policy_files(SYSTEM)
    named = {
        component.name: {
            table
            for table in DOCUMENT_TABLES
            for name, text in files.items()
            if name.startswith(f"tripcortex-{component.name}") and table in text
        }
        for component in SYSTEM.components
    }
    assert named["ingester"] == set()
    assert "TripCortexAuditLog" not in named["sender"]
    assert "TripCortexCircuitBreaker" not in named["sender"] | named["agent"]
    assert "TripCortexConnections" not in named["workflow"] | named["support"] | named["agent"]


@pytest.mark.proves("TC-5")
def test_template_creates_tables_and_migrations_create_the_schema() -> None:
    text = "\n".join(render_module(SYSTEM).values())
    assert [schema.migrations for schema in SYSTEM.schemas] == [migrations.__name__]
    assert all(table.name in text for table in SYSTEM.tables)
    assert "policy_chunks" not in str(build_template(SYSTEM)["Resources"])


@pytest.mark.proves("TC-6")
def test_database_scales_from_half_a_unit_to_the_configured_maximum() -> None:
    template = build_template(SYSTEM)
    [cluster] = [
        each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::RDS::DBCluster"
    ]
    assert cluster["ServerlessV2ScalingConfiguration"] == {
        "MinCapacity": 0.5,
        "MaxCapacity": {"Ref": "DatabaseCapacityMax"},
    }
    largest = template["Parameters"]["DatabaseCapacityMax"]
    assert (largest["Type"], largest["Default"], largest["MaxValue"]) == ("Number", 2, 128)
