"""Tests of the declared access patterns: the document's exist and run; components have those they need."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Delete, Get, Pattern, Put, Query, Update, open_stores
from holdfast.core.errors import ComponentRefused
from holdfast.model.entities import Scan
from holdfast.model.operations import EntityOperation
from holdfast.model.sql import SqlOperation
from holdfast.runtime.factory import MEMORY_SETTINGS
from tests.systems.tripcortex.unit.steps.booking_bench import HandClock
from tripcortex.system import API, SYSTEM, WORKFLOW
from tripcortex.workers.flow import BOOKING_FLOW

BY_ID: dict[str, Pattern[..., Any]] = {each.id: each for each in SYSTEM.patterns}
SQL_PATTERNS = {
    "A1": "policy_chunks",
    "A2": "policy_chunks",
    "A3": "policy_chunks",
    "A4": "policies",
    "A5": "policies",
    "A6": "policies",
}
# For each of the document's table patterns: its operation and its table.
TABLE_PATTERNS: dict[str, tuple[type[Any], str]] = {
    "D1": (Put, "TripCortexConnections"),
    "D2": (Get, "TripCortexConnections"),
    "D3": (Delete, "TripCortexConnections"),
    "D4": (Scan, "TripCortexConnections"),
    "D5": (Put, "TripCortexBookings"),
    "D6": (Query, "TripCortexBookings"),
    "D7": (Update, "TripCortexBookings"),
    "D8": (Get, "TripCortexBookings"),
    "D9": (Query, "TripCortexBookings"),
    "D10": (Put, "TripCortexAuditLog"),
    "D11": (Query, "TripCortexAuditLog"),
    "D12": (Query, "TripCortexAuditLog"),
    "D13": (Get, "TripCortexCircuitBreaker"),
    "D14": (Update, "TripCortexCircuitBreaker"),
}


def get_pattern(id: str) -> Pattern[..., Any]:
    """Return the pattern of an id. D7, every change of a booking, belongs to the flow."""
    return BY_ID.get(id) or {"D7": BOOKING_FLOW.pattern_set.move}[id]


@pytest.mark.proves("TC-103", "TC-70", "TC-78")
def test_every_pattern_of_the_document_is_declared_with_its_operation_and_table() -> None:
    for id, (kind, table) in TABLE_PATTERNS.items():
        operation = get_pattern(id).build_example()
        assert isinstance(operation, kind) and operation.table.name == table, id
        assert get_pattern(id).purpose
    for id, table in SQL_PATTERNS.items():
        operation = BY_ID[id].build_example()
        assert isinstance(operation, SqlOperation) and operation.resource == f"tripcortex.{table}", id


@pytest.mark.proves("TC-103")
def test_every_pattern_belongs_to_a_component_and_has_a_unique_id() -> None:
    assert len({each.id for each in SYSTEM.patterns}) == len(SYSTEM.patterns)
    # No component uses the counters of an outbox whose messages number themselves.
    idle = {each.name for each in SYSTEM.patterns if not list(SYSTEM.find_components(each))}
    assert idle <= {"tripcortex_notices_outbox_count"}
    declared = {each.id for component in SYSTEM.components for each in (*component.reads, *component.writes)}
    assert declared <= BY_ID.keys()


@pytest.mark.proves("TC-76")
def test_no_pattern_of_any_component_changes_or_deletes_an_audit_entry() -> None:
    on_audit = list_patterns_on("TripCortexAuditLog")
    assert {id for id, _ in on_audit} == {"D10", "D11", "D12"}
    assert {type(each) for _, each in on_audit} == {Put, Query}
    [append] = [each for _, each in on_audit if isinstance(each, Put)]
    # The condition keeps a second put from replacing an entry.
    assert append.condition is not None


@pytest.mark.proves("TC-80", "TC-X13")
async def test_workflow_appends_audit_entries_and_moves_bookings_only() -> None:
    workflow = {each.id for each in (*WORKFLOW.reads, *WORKFLOW.writes)}
    assert workflow & {id for id, _ in list_patterns_on("TripCortexAuditLog")} == {"D10"}
    on_bookings = workflow & {id for id, _ in list_patterns_on("TripCortexBookings")}
    assert on_bookings == {BOOKING_FLOW.pattern_set.item.id, BOOKING_FLOW.pattern_set.move.id}
    assert not workflow & {id for id, _ in list_patterns_on("TripCortexConnections")}

    async def run() -> None:
        async with open_stores(SYSTEM, MEMORY_SETTINGS, clock=HandClock()) as stores:
            for id in ("D5", "D6", "D8", "D9", "D11", "D12", "D1", "D4"):
                with pytest.raises(ComponentRefused):
                    await stores.for_component("workflow").run(get_pattern(id).build_example())

    await run()


@pytest.mark.proves("TC-X7")
def test_only_the_api_creates_bookings() -> None:
    assert {"D5", "TX2"} <= {each.id for each in API.writes}
    for component in SYSTEM.components:
        if component.name != "api":
            assert not {"D5", "TX2"} & {each.id for each in component.writes}


def test_agents_and_support_only_read() -> None:
    for name in ("support", "agent"):
        [component] = [each for each in SYSTEM.components if each.name == name]
        assert component.writes == ()


def list_patterns_on(table: str) -> list[tuple[str, EntityOperation[Any]]]:
    """List the system's patterns on a table, with their ids."""
    found = []
    for each in SYSTEM.patterns:
        operation = each.build_example()
        if isinstance(operation, EntityOperation) and operation.table.name == table:
            found.append((each.id, operation))
    return found
