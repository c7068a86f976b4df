"""Stored items compared with the document's names, keys, types and examples, its wrong numbers corrected."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast import Entity, Table
from holdfast.core.errors import InvalidRequest, ItemUnreadable
from holdfast.flows import FlowItem
from holdfast.model.entities import get_declaration
from holdfast.model.ulids import Ulid, UlidGenerator
from tests.systems.tripcortex.unit.policy_rules.trips import make_option
from tripcortex.model.entities import (
    AuditEvent,
    AuditRecord,
    Booking,
    BookingPlan,
    BookingStatus,
    Cabin,
    CircuitState,
    EmployeeId,
    PolicyConstraints,
    TripParameters,
    active_bookings,
    audit_log,
    bookings,
    circuits,
    compute_audit_expiry,
    connections,
    messages,
    portal_calls,
)
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW

ROOT = Path(__file__).parents[4]
EMPLOYEE = EmployeeId("emp-42")
CONNECTED = datetime(2026, 3, 10, 14, tzinfo=UTC)
CREATED = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
# The document's booking id is a ULID; its audit id is one character short.
BOOKING_ID = Ulid("01JMQX7K3NFGV8RWTB5C6DH2YP")
DOCUMENT_AUDIT_ID = "01JMQX7M2ABCD1234EFGH5678"
REQUEST = "Book me a flight to Chicago next Tuesday returning Thursday, prefer United"

DOCUMENT_BOOKING = """{
    "employeeId": "emp-42",
    "bookingId": "01JMQX7K3NFGV8RWTB5C6DH2YP",
    "status": "confirmed",
    "userRequest": "Book me a flight to Chicago next Tuesday returning Thursday, prefer United",
    "bookingPlan": {
        "intent": "flight_booking",
        "confidence": 0.95,
        "parameters": {
            "origin": "HYD",
            "destination": "ORD",
            "departure_date": "2026-03-10",
            "return_date": "2026-03-12",
            "cabin_class": "economy"
        },
        "policy_constraints": {
            "max_budget_usd": 500,
            "preferred_vendors": ["United", "Delta"]
        }
    },
    "flightOptions": [],
    "selectedOption": {},
    "confirmationNumber": "UA-ABC123",
    "executionArn": "arn:aws:states:us-east-1:123456789:execution:BookingWorkflow:01JMQX7K3N",
    "createdAt": "2026-03-10T14:30:00Z",
    "updatedAt": "2026-03-10T14:35:22Z"
}"""
DOCUMENT_AUDIT_ENTRY = """{
    "bookingId": "01JMQX7K3NFGV8RWTB5C6DH2YP",
    "auditId": "01JMQX7M2ABCD1234EFGH5678",
    "employeeId": "emp-42",
    "timestamp": "2026-03-10T14:30:05Z",
    "event": "policy_retrieval",
    "step": "EmbedAndRetrieve",
    "input": {"user_request": "Flight to Chicago next Tuesday...", "query_embedding_dim": 1024},
    "output": {"chunks_retrieved": 5, "max_similarity": 0.89, "confidence": "high"},
    "modelId": "amazon.nova-2-multimodal-embeddings-v1:0",
    "latencyMs": 450,
    "expiresAt": 1804154400
}"""
DOCUMENT_NAMES = {
    "employeeId", "bookingId", "status", "userRequest", "bookingPlan", "flightOptions", "selectedOption",
    "confirmationNumber", "executionArn", "fallbackUrl", "createdAt", "updatedAt",
}  # fmt: skip


def to_stored(entity: Entity) -> dict[str, Any]:
    """Return the entity as its stored item."""
    return dict(entity.to_item())


def parse_example(text: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return read


@pytest.mark.proves(
    "TC-3", "TC-4", "TC-52", "TC-58", "TC-67", "TC-68", "TC-72", "TC-77", "TC-80", "TC-81", "TC-X25"
)
def test_tables_have_the_documents_keys_ttls_and_indexes() -> None:
    def describe(table: Table) -> tuple[Any, ...]:
        indexes = {name: (each.partition, each.sort) for name, each in _indexes(table).items()}
        return table.name, table.partition, table.sort, table.ttl, indexes

    assert describe(connections) == (
        "TripCortexConnections", "connectionId", None, "ttl", {"employeeId-index": ("employeeId", None)},
    )  # fmt: skip
    assert describe(bookings) == ("TripCortexBookings", "employeeId", "bookingId", None, {})
    assert describe(audit_log) == (
        "TripCortexAuditLog", "bookingId", "auditId", "expiresAt",
        {"employeeId-timestamp-index": ("employeeId", "timestamp")},
    )  # fmt: skip
    assert describe(circuits) == ("TripCortexCircuitBreaker", "circuitId", None, "ttl", {})
    assert describe(active_bookings) == ("TripCortexActiveBookings", "employeeId", None, None, {})
    assert (messages.ttl, portal_calls.ttl) == ("ttl", "expiresAt")
    for table in (connections, bookings, audit_log, circuits):
        definition = table.definition("test")
        assert definition.billing_mode == "PAY_PER_REQUEST"
        assert all(index.projection.kind == "ALL" for index in definition.global_indexes)
        assert {key.type for key in definition.attributes} == {"S"}


def _indexes(table: Table) -> dict[str, Any]:
    return {each.name: each for each in table.indexes}


# --- the document's examples --------------------------------------------------------------------------------


def make_confirmed_booking(**changes: Any) -> Booking:
    """Build the document's example booking, with an option; `changes` are fields of `Booking`."""
    values: dict[str, Any] = {
        "employee_id": EMPLOYEE,
        "booking_id": BOOKING_ID,
        "status": BookingStatus.confirmed,
        "user_request": REQUEST,
        "booking_plan": BookingPlan(
            confidence=0.95,
            parameters=TripParameters.model_validate(
                parse_example(DOCUMENT_BOOKING)["bookingPlan"]["parameters"]
            ),
            policy_constraints=PolicyConstraints(
                max_budget_usd=Decimal(500), preferred_vendors=["United", "Delta"]
            ),
        ),
        "selected_option": make_option(),
        "confirmation_number": "UA-ABC123",
        "execution_arn": "arn:aws:states:us-east-1:123456789:execution:BookingWorkflow:01JMQX7K3N",
        "created_at": CREATED,
        "updated_at": CREATED + timedelta(minutes=5, seconds=22),
        **changes,
    }
    return Booking(**values)


@pytest.mark.proves("TC-59", "TC-64", "TC-X22", "TC-X24")
def test_booking_is_stored_under_the_examples_names() -> None:
    ours, documents = to_stored(make_confirmed_booking()), parse_example(DOCUMENT_BOOKING)
    for name in documents.keys() - {"bookingPlan", "selectedOption"}:
        assert ours[name] == documents[name]
    plan = ours["bookingPlan"]
    for name, value in documents["bookingPlan"].items():
        assert plan[name] == value if name != "policy_constraints" else value.items() <= plan[name].items()
    assert ours.keys() - documents.keys() <= {to_stored_name(name) for name in list_added_attributes()}


@pytest.mark.proves("TC-59", "TC-66", "TC-X12")
def test_booking_has_every_attribute_of_the_document() -> None:
    names = {to_stored_name(name) for name in Booking.model_fields}
    assert names > DOCUMENT_NAMES
    assert names - DOCUMENT_NAMES == {to_stored_name(name) for name in list_added_attributes()}


def test_decision_record_lists_the_attributes_that_we_added() -> None:
    decision = (ROOT / "docs/internals/decisions/0015-a-trip-inside-policy.md").read_text().replace("\n", " ")
    [listed] = re.findall(r"of a booking (`.*?);", decision)
    assert set(re.findall(r"`(\w+)`", listed)) == {to_stored_name(name) for name in list_added_attributes()}


def list_added_attributes() -> list[str]:
    """List the attributes from `flow_token` on, and those of every flow item."""
    names = list(Booking.model_fields)
    return [*FlowItem.model_fields, *names[names.index("updated_at") + 1 :]]


def to_stored_name(name: str) -> str:
    """Return the stored name of a booking's attribute."""
    return get_declaration(Booking).attributes[name].stored_name


@pytest.mark.proves("TC-73", "TC-75", "TC-98", "TC-X4", "TC-X5")
def test_audit_entry_is_stored_as_in_the_example_for_two_years() -> None:
    at = datetime(2026, 3, 10, 14, 30, 5, tzinfo=UTC)
    audit_id = UlidGenerator(_Clock(at)).new()
    entry = AuditRecord(
        booking_id=BOOKING_ID,
        audit_id=audit_id,
        employee_id=EMPLOYEE,
        timestamp=at,
        event=AuditEvent.policy_retrieval,
        step="EmbedAndRetrieve",
        input={"user_request": "Flight to Chicago next Tuesday...", "query_embedding_dim": 1024},
        output={"chunks_retrieved": 5, "max_similarity": Decimal("0.89"), "confidence": "high"},
        model_id="amazon.nova-2-multimodal-embeddings-v1:0",
        latency_ms=450,
        expires_at=compute_audit_expiry(at),
    )
    right = {"auditId": audit_id, "expiresAt": 1836311405, "timestamp": "2026-03-10T14:30:05.000000Z"}
    assert to_stored(entry) == parse_example(DOCUMENT_AUDIT_ENTRY) | right
    assert len(DOCUMENT_AUDIT_ID) == 25 and len(audit_id) == 26
    with pytest.raises((ValidationError, InvalidRequest)):
        AuditRecord.model_validate({**entry.model_dump(), "audit_id": DOCUMENT_AUDIT_ID})
    whole = {**entry.model_dump(), "thinking_budget": "low", "error_code": "x", "error_message": "y"}
    assert to_stored(AuditRecord.model_validate(whole)).keys() == {
        "bookingId", "auditId", "employeeId", "timestamp", "event", "step", "input", "output", "modelId",
        "thinkingBudget", "latencyMs", "errorCode", "errorMessage", "expiresAt",
    }  # fmt: skip


class _Clock:
    """A clock that a test sets."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> float:
        return self.at.timestamp()


# --- numbers, ids, kinds ------------------------------------------------------------------------------------


@pytest.mark.proves("TC-60", "TC-74", "TC-X1", "TC-X2")
def test_there_are_eight_statuses_and_seven_events() -> None:
    assert [*BookingStatus] == [
        "initiated",
        "searching",
        "options_presented",
        "user_selected",
        "booking",
        "confirmed",
        "failed",
        "cancelled",
    ]
    assert [*AuditEvent] == [
        "policy_retrieval",
        "reasoning",
        "plan_validation",
        "flight_search",
        "user_selection",
        "booking_completion",
        "error",
    ]
    assert [*CircuitState] == ["closed", "open", "half_open"]
    for status in ("done", "Confirmed", ""):
        with pytest.raises(ItemUnreadable):
            Booking.from_item({**to_stored(make_confirmed_booking()), "status": status})


@pytest.mark.proves("TC-58", "TC-X5")
def test_ids_are_ulids_of_26_characters_that_sort_by_the_time_they_were_made() -> None:
    clock = _Clock(CREATED)
    source = UlidGenerator(clock)
    made: list[str] = []
    for _ in range(500):
        made.append(source.new())
        clock.at += timedelta(milliseconds=0 if len(made) % 5 else 1)
    assert made == sorted(made) and len(set(made)) == 500
    assert all(re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", each) for each in made)
    for wrong in (DOCUMENT_AUDIT_ID, "", "01JMQX7K3NFGV8RWTB5C6DH2Y" + "U", "8" + BOOKING_ID[1:]):
        with pytest.raises((ValidationError, InvalidRequest)):
            Booking.model_validate({**make_confirmed_booking().model_dump(), "booking_id": wrong})


@pytest.mark.proves("TC-75", "TC-X4")
def test_two_years_follow_the_calendar() -> None:
    assert compute_audit_expiry(datetime(2026, 3, 10, 14, 30, 5, tzinfo=UTC)).timestamp() == 1836311405
    assert compute_audit_expiry(datetime(2028, 2, 29, tzinfo=UTC)) == datetime(2030, 3, 1, tzinfo=UTC)
    assert compute_audit_expiry(datetime(2028, 2, 29, tzinfo=UTC), 4) == datetime(2032, 2, 29, tzinfo=UTC)


@pytest.mark.proves("TC-X22")
def test_confirmed_booking_requires_its_selection_and_confirmation() -> None:
    for changes in ({"selected_option": None}, {"confirmation_number": None}):
        with pytest.raises((ValidationError, InvalidRequest)):
            make_confirmed_booking(**changes)
    # As the document's own example has it.
    broken = to_stored(make_confirmed_booking())
    del broken["selectedOption"]
    with pytest.raises(ItemUnreadable):
        Booking.from_item(broken)
    assert (
        make_confirmed_booking(status=BookingStatus.booking, confirmation_number=None).confirmation_number
        is None
    )


@pytest.mark.proves("TC-65", "TC-X20")
def test_a_booking_has_at_most_five_options() -> None:
    five = [make_option(str(number)) for number in range(5)]
    assert len(make_confirmed_booking(flight_options=five).flight_options) == 5
    with pytest.raises((ValidationError, InvalidRequest)):
        make_confirmed_booking(flight_options=[*five, make_option("6")])


@pytest.mark.proves("TC-64")
def test_plan_rejects_an_invalid_airport_cabin_date_or_confidence() -> None:
    good = parse_example(DOCUMENT_BOOKING)["bookingPlan"]["parameters"]
    assert TripParameters.model_validate(good).cabin_class is Cabin.economy
    for wrong in (
        {"origin": "Hyderabad"},
        {"destination": "ord"},
        {"cabin_class": "coach"},
        {"departure_date": "Tuesday"},
    ):
        with pytest.raises(ValidationError):
            TripParameters.model_validate(good | wrong)
    for confidence in (-0.1, 1.1):
        with pytest.raises(ValidationError):
            BookingPlan(confidence=confidence, parameters=TripParameters.model_validate(good))


@pytest.mark.proves("TC-71", "TC-79", "TC-102")
def test_keys_hold_several_bookings_of_an_employee_and_several_portals() -> None:
    """The one active booking is a marker in another table, and the circuit has an id: keys limit neither."""
    keys = {BOOKING_FLOW.key_text((EMPLOYEE, UlidGenerator(_Clock(CREATED)).new())) for _ in range(3)}
    assert len(keys) == 3
    assert {"employeeId", "bookingId"} == {bookings.partition, bookings.sort}
    assert circuits.partition == "circuitId"
    assert {each.name for each in SYSTEM.tables} >= {"TripCortexActiveBookings"}
