"""Example rows, one function per entity, which the access patterns use as example arguments."""

from __future__ import annotations

from datetime import UTC, date, datetime

from skymarshal.domain.statuses import (
    BaggageStatus,
    BookingStatus,
    CrewPosition,
    DisruptionKind,
    LoadingStatus,
    ReputationRisk,
)
from skymarshal.model.entities import (
    AssignmentId,
    Bag,
    Booking,
    BookingId,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    CrewId,
    DisruptedPassenger,
    Disruption,
    DisruptionId,
    Flight,
    FlightId,
    MaintenanceShift,
    Passenger,
    PassengerId,
    RosterId,
    ShipmentId,
    StaffId,
    WorkOrder,
    WorkOrderId,
)


def disruption() -> Disruption:
    return Disruption(
        disruption_id=DisruptionId("D-example"),
        flight_id=FlightId("1"),
        flight_number="EY11",
        disruption_kind=DisruptionKind.DELAY,
        delay_minutes=240,
        option="delay",
        decided_by="duty manager",
        decided_at=datetime(2026, 1, 30, tzinfo=UTC),
    )


def crew_assignment() -> CrewAssignment:
    return CrewAssignment(
        roster_id=RosterId("R-example"),
        crew_id=CrewId("123"),
        flight_id=FlightId("1"),
        position_id=CrewPosition.CAPTAIN,
        duty_start=datetime(2026, 1, 30, 4, tzinfo=UTC),
        duty_end=datetime(2026, 1, 30, 16, tzinfo=UTC),
    )


def booking() -> Booking:
    return Booking(
        booking_id=BookingId("B-example"),
        passenger_id=PassengerId("OZ69826352P"),
        flight_id=FlightId("2"),
        booking_status=BookingStatus.CONFIRMED,
    )


def bag() -> Bag:
    return Bag(
        baggage_tag="9607999999",
        booking_id=BookingId("B-example"),
        current_location="AUH",
        baggage_status=BaggageStatus.CHECKED_IN,
    )


def cargo_assignment() -> CargoAssignment:
    return CargoAssignment(
        assignment_id=AssignmentId("A-example"),
        shipment_id=ShipmentId("S-example"),
        flight_id=FlightId("2"),
        loading_status=LoadingStatus.PENDING,
    )


def maintenance_shift() -> MaintenanceShift:
    return MaintenanceShift(
        roster_id=RosterId("M-example"),
        staff_id=StaffId("S-1"),
        workorder_id=WorkOrderId("WO-example"),
        shift_start_zulu=datetime(2026, 1, 30, 4, tzinfo=UTC),
        shift_end_zulu=datetime(2026, 1, 30, 12, tzinfo=UTC),
    )


def flight() -> Flight:
    return Flight(
        flight_id=FlightId("F-example"),
        flight_number="EY9999",
        origin="AUH",
        destination="LHR",
        scheduled_departure=datetime(2026, 1, 30, 2, tzinfo=UTC),
        scheduled_arrival=datetime(2026, 1, 30, 9, tzinfo=UTC),
        aircraft_registration="A6-BLA",
        aircraft_type="B789",
        capacity=290,
    )


def crew_duty() -> CrewDuty:
    return CrewDuty(
        crew_id=CrewId("C-example"),
        duty_start=datetime(2026, 1, 30, 4, tzinfo=UTC),
        roster_id=RosterId("R-example"),
        flight_id=FlightId("2"),
        position_id=CrewPosition.CAPTAIN,
        duty_end=datetime(2026, 1, 30, 16, tzinfo=UTC),
    )


def disrupted_passenger() -> DisruptedPassenger:
    return DisruptedPassenger(
        passenger_id=PassengerId("OZ69826352P"),
        disruption_id=DisruptionId("D-example"),
        flight_number="EY11",
        risk_rank="1#HIGH",
        reputation_risk=ReputationRisk.HIGH,
        booking_id=BookingId("1"),
    )


def passenger() -> Passenger:
    return Passenger(passenger_id=PassengerId("P-example"), name="Example")


def work_order() -> WorkOrder:
    return WorkOrder(
        aircraft_registration="A6-BLA", workorder_id=WorkOrderId("WO-example"), opened_on=date(2026, 1, 30)
    )
